"""Random: tables of random types under transactions of every kind and outcome, for property tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from sim.plan import OutcomeMix, SimTable, TransactionPlan, Write
from sim.workload_tables import declare_table, place_table
from sim.workloads.random_datums import KEY_TYPES, VALUE_TYPES
from tidegate.hlc import ZERO, Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.table_codec import TableCodec
from tidegate.rows.types import Datum

FIRST_TABLE_ID: Final = 120
_EVERY_OUTCOME: Final = OutcomeMix(restart=0.2, abort=0.15, abandon=0.1)
_NULLS: Final = 0.2


@dataclass(frozen=True, slots=True)
class RandomOptions:
    """The options of the workload. Sizes are for each table; shares are below 1.

    ``writes`` is the most writes in one transaction. Tables have the ids from ``first_table_id`` on.
    """

    tables: int = 2
    ranges: int = 3
    keys: int = 30
    writes: int = 6
    deletes: float = 0.25
    one_phase: float = 0.3
    outcomes: OutcomeMix = _EVERY_OUTCOME
    first_table_id: int = FIRST_TABLE_ID


class RandomTransactions:
    """Writes few keys in many transactions, without end, so that the transactions conflict."""

    def __init__(self, options: RandomOptions, seed: int) -> None:
        self._options = options
        self._seed = seed
        rng = Random(seed)
        self._tables = [_RandomTable(rng, options.first_table_id + i, options) for i in range(options.tables)]

    def tables(self, modified: Timestamp) -> Sequence[SimTable]:
        """See ``Workload``."""
        return [table.place(modified) for table in self._tables]

    def plans(self) -> Iterator[TransactionPlan]:
        """See ``Workload``."""
        rng, options = Random(self._seed), self._options
        while True:
            outcome = options.outcomes.choose(rng)
            one_phase = rng.random() < options.one_phase
            yield TransactionPlan(self._writes(rng), outcome, rewrites=self._writes(rng), one_phase=one_phase)

    def _writes(self, rng: Random) -> tuple[Write, ...]:
        count = rng.randint(1, self._options.writes)
        return tuple(rng.choice(self._tables).write(rng) for _ in range(count))


class _RandomTable:
    """One table: its column types, and the keys of all rows that it will ever have."""

    def __init__(self, rng: Random, table_id: int, options: RandomOptions) -> None:
        self._options = options
        key_types = rng.choices(list(KEY_TYPES), k=rng.randint(1, 2))
        value_types = rng.choices(list(VALUE_TYPES), k=rng.randint(1, 5))
        self._table_id = table_id
        self._key_columns = [f"k{i}" for i in range(len(key_types))]
        self._columns = [
            *zip(self._key_columns, key_types, strict=True),
            *((f"v{i}", sql_type) for i, sql_type in enumerate(value_types)),
        ]
        self._codec = TableCodec(self._descriptor(ZERO))
        self._draws = [VALUE_TYPES[sql_type] for sql_type in value_types]
        self._keys = [[KEY_TYPES[sql_type](rng) for sql_type in key_types] for _ in range(options.keys)]
        no_values: list[Datum] = [None] * len(value_types)
        encoded = sorted({self._codec.encode_key([*key, *no_values]) for key in self._keys})
        self._splits = rng.sample(encoded, min(options.ranges - 1, len(encoded)))

    def place(self, modified: Timestamp) -> SimTable:
        return place_table(self._descriptor(modified), self._splits)

    def write(self, rng: Random) -> Write:
        key = rng.choice(self._keys)
        values = [None if rng.random() < _NULLS else draw(rng) for draw in self._draws]
        encoded = Write(*self._codec.encode([*key, *values]))
        return Write(encoded.key, b"") if rng.random() < self._options.deletes else encoded

    def _descriptor(self, modified: Timestamp) -> TableDescriptor:
        name = f"random{self._table_id}"
        return declare_table(self._table_id, name, self._columns, self._key_columns, modified)
