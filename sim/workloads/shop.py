"""Shop: items that are put on sale, changed and removed, in a table that gets one more column meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Final

from sim.plan import ORDINARY, OutcomeMix, SimTable, TransactionPlan, Write
from sim.workload_tables import declare_table, place_table
from tidegate.hlc import NANOS_PER_SECOND, ZERO, Timestamp
from tidegate.raftlog.entry import DescriptorUpdate
from tidegate.rows.descriptor import Column, Family, TableDescriptor
from tidegate.rows.sql_type import parse_sql_type
from tidegate.rows.stored_descriptor import encode_descriptor
from tidegate.rows.table_codec import TableCodec
from tidegate.rows.types import Datum

ITEMS_TABLE_ID: Final = 130
_COLUMNS: Final = (
    ("id", "INT8"),
    ("name", "STRING"),
    ("price", "DECIMAL(10,2)"),
    ("weight_kg", "FLOAT8"),
    ("stock", "INT8"),
    ("on_sale", "BOOL"),
    ("since", "DATE"),
    ("changed_at", "TIMESTAMP"),
)
#: The column that is added. It is nullable and has no default, so existing rows are not written again.
ADDED_COLUMN: Final = "note"
_WORDS: Final = ("anchor", "buoy", "chart", "drum", "ensign", "fender", "gaff", "hawser", "Ruder", "écoute")
_FIRST_DAY: Final = 19_000  # days since 1970
_FIRST_SECOND: Final = 1_700_000_000
_NULLS: Final = 0.1


@dataclass(frozen=True, slots=True)
class ShopOptions:
    """The options of the workload.

    ``items`` is the number of keys. The column is added before transaction ``alter_at``. ``deletes`` is the
    share of writes that remove their item. ``writes`` is the most writes in one transaction.
    """

    items: int = 200
    ranges: int = 3
    writes: int = 5
    deletes: float = 0.15
    alter_at: int = 150
    outcomes: OutcomeMix = ORDINARY


class Shop:
    """Writes items at random, without end."""

    def __init__(self, options: ShopOptions, seed: int) -> None:
        self._options = options
        self._seed = seed
        self._before = TableCodec(_items(ZERO))
        self._after = TableCodec(_altered(ZERO))
        keys = [self._before.encode_key({"id": number}) for number in range(options.items)]
        self._splits = [keys[part * options.items // options.ranges] for part in range(1, options.ranges)]

    def tables(self, modified: Timestamp) -> Sequence[SimTable]:
        """See ``Workload``: the table items."""
        return [place_table(_items(modified), self._splits)]

    def plans(self) -> Iterator[TransactionPlan]:
        """See ``Workload``."""
        rng, options = Random(self._seed), self._options
        for number in range(options.alter_at):
            yield self._plan(rng, self._before, number)
        yield TransactionPlan((), alter=_alteration)
        number = options.alter_at
        while True:
            yield self._plan(rng, self._after, number)
            number += 1

    def _plan(self, rng: Random, codec: TableCodec, number: int) -> TransactionPlan:
        count = rng.randint(1, self._options.writes)
        writes = tuple(self._write(rng, codec, number) for _ in range(count))
        return TransactionPlan(
            writes, self._options.outcomes.choose(rng), rewrites=writes, one_phase=rng.random() < 0.3
        )

    def _write(self, rng: Random, codec: TableCodec, number: int) -> Write:
        item = rng.randrange(self._options.items)
        key, value = codec.encode([item, *_values(rng, number, codec.descriptor)])
        return Write(key, b"" if rng.random() < self._options.deletes else value)


def _values(rng: Random, number: int, table: TableDescriptor) -> Iterator[Datum]:
    second = _FIRST_SECOND + number
    micros = rng.randrange(1_000_000)
    values: dict[str, Datum] = {
        "name": " ".join(rng.choices(_WORDS, k=2)),
        "price": Decimal(rng.randrange(100_000)).scaleb(-2),
        "weight_kg": rng.randrange(1, 10_000) / 8,
        "stock": rng.randrange(1_000),
        "on_sale": rng.random() < 0.5,
        "since": _FIRST_DAY + rng.randrange(1_000),
        "changed_at": second * NANOS_PER_SECOND + micros * 1_000,
        ADDED_COLUMN: f"note {number}",
    }
    for column in table.columns[1:]:
        yield None if rng.random() < _NULLS else values[column.name]


def _items(modified: Timestamp) -> TableDescriptor:
    return declare_table(ITEMS_TABLE_ID, "items", _COLUMNS, ("id",), modified)


def _altered(modified: Timestamp) -> TableDescriptor:
    """Return the table after ALTER TABLE items ADD COLUMN note STRING."""
    table = _items(modified)
    added = Column(len(_COLUMNS) + 1, ADDED_COLUMN, parse_sql_type("STRING"))
    columns = (*table.columns, added)
    family = Family(0, "primary", tuple(column.id for column in columns))
    return replace(table, version=2, columns=columns, families=(family,))


def _alteration(modified: Timestamp) -> DescriptorUpdate:
    table = _altered(modified)
    return DescriptorUpdate(table.id, table.version, table.modified, encode_descriptor(table))
