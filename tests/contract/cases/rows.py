"""Cases of rows: types, updates, deletions, envelopes, descriptor versions."""

from __future__ import annotations

import uuid
from dataclasses import replace
from decimal import Decimal
from ipaddress import IPv4Interface
from itertools import product
from typing import Final

from tests.contract.case import Case, World
from tests.hand_log import HandTable, update_of
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format, OnOversize
from tidegate.changefeed.definition.oversize import DEFAULT_MAX_ROW_BYTES
from tidegate.rows import Datum, Interval, Json, TimeTz

_TYPES: Final[dict[str, Datum]] = {
    "BOOL": True,
    "INT": -(2**63),
    "INT2": 7,
    "FLOAT": 1.5e300,
    "DECIMAL": Decimal("12.3400"),
    "DECIMAL(12,2)": Decimal("-0.50"),
    "STRING": 'wörld "\\\n\0 漢😀 %s',
    "BYTES": b"\x00\xff",
    "UUID": uuid.UUID(int=2**127 + 5),
    "INET": IPv4Interface("10.1.2.3/8"),
    "DATE": 19_000,
    "TIME": 24 * 3_600_000_000,
    "TIMETZ": TimeTz(3_600_000_000, -3600),
    "TIMESTAMP": 1_600_000_000_123_456_000,
    "TIMESTAMPTZ": -1_000,
    "INTERVAL": Interval(14, -3, 4_000_000_000),
    "BIT(5)": "01101",
    "JSONB": Json({"b": [Decimal("1.0"), None, True], "a": "x"}),
    "INT[]": (1, None, -3),
    "STRING[]": ("a", None, "ü"),
}


def _types(world: World) -> None:
    """Every type with a value, and every type NULL."""
    columns = ", ".join(["id INT", *(f"c{i} {name}" for i, name in enumerate(_TYPES))])
    table = world.table(columns)
    rows = world.range(table.span)
    rows.apply(table.put(3, 1, *_TYPES.values()), close=3)
    rows.apply(table.put(4, 2, *[None] * len(_TYPES)), table.delete(4, 1), close=5)
    world.feed(table)


def _keys(world: World) -> None:
    """Primary keys of several columns."""
    table = world.table("a STRING, b INT, c UUID, v INT", key="c, a, b")
    rows = world.range(table.span)
    for number in range(12):
        rows.apply(
            table.put(2 + number, f"é{number % 3}", number, uuid.UUID(int=number), number), close=number
        )
    rows.apply(close=20)
    world.feed(table)


def _updates(world: World) -> None:
    """Rows are written, rewritten, deleted and written again."""
    table = world.table()
    low, high = table.split(5)
    ranges = world.range(low), world.range(high)
    for second in range(1, 30):
        number = second * 7 % 10
        op = table.delete(second, number) if second % 4 == 0 else table.put(second, number, f"v{second}")
        ranges[number >= 5].apply(op, close=second)
        ranges[number < 5].heartbeat(second)
    world.feed(table)


def _envelopes(world: World) -> None:
    """Every envelope, with and without timestamps and markers, on the same rows."""
    table = world.table()
    rows = world.range(table.span)
    for second in range(1, 8):
        rows.apply(table.put(second, second % 3, f"v{second}"), close=second)
    rows.apply(table.delete(8, 1), close=8)
    plain = product(Envelope, (False, True), (0,))
    for envelope, stamped, resolved in (*plain, *product([Envelope.ROW], [True], (None, 3_000_000_000))):
        options = FeedOptions(
            envelope=envelope, updated=stamped, mvcc_timestamp=stamped, resolved_interval_ns=resolved
        )
        world.feed(table, options=options, topics=f"{envelope.value}-{stamped}-{resolved}-")


def _added_column(world: World) -> None:
    """A column is added while rows are written, in ranges of different partitions."""
    table = world.table()
    low, high = table.split(5)
    ranges = world.range(low), world.range(high)
    for second in range(1, 5):
        ranges[second % 2].apply(table.put(second, second % 2 * 5, "narrow"), close=second)
    wide = table.widened(5)
    world.write(update_of(wide.descriptor))
    for second in range(5, 9):
        ranges[second % 2].apply(wide.put(second, second % 2 * 5, "wide", second), close=second)
    for each in ranges:
        each.heartbeat(9)
    world.feed(table)


def _several_tables(world: World) -> None:
    """Two tables are in one feed, one of them is also in another feed, and a third table has no feed."""
    tables = [world.table(), world.table("k STRING, n INT", key="k"), world.table()]
    ranges = [world.range(table.span) for table in tables]
    for second in range(1, 10):
        ranges[0].apply(tables[0].put(second, second % 4, "a"), close=second)
        ranges[1].apply(tables[1].put(second, f"k{second % 3}", second), close=second)
        ranges[2].apply(tables[2].put(second, 1, "nobody looks"), close=second - 3)
    world.feed(tables[0], tables[1])
    world.feed(tables[1], topics="again-")


def _secondary_index(world: World) -> None:
    """Entries of a secondary index stand among the rows, in the same ranges."""
    table = world.table()
    index = HandTable(replace(table.descriptor, primary_index_id=2))
    rows = world.range(table.span)
    for second in range(1, 6):
        rows.apply(index.put(second, second, "entry"), table.put(second, second, "row"), close=second)
    world.feed(table)


def _too_large(world: World) -> None:
    """Rows have sizes around a limit, or are larger than producers and brokers take. The feeds leave too
    large rows out."""
    table = world.table()
    rows = world.range(table.span)
    for second, length in enumerate((10, 60, 59, 61, 1, 200), start=1):
        rows.apply(table.put(second, second % 3, "x" * length), close=second)
    # As JSON it has 1,200,000 bytes, for each of these characters takes six.
    rows.apply(table.put(7, 7, "\x01" * 200_000), close=7)
    rows.apply(table.put(8, 7, "small again"), table.delete(8, 1), close=8)
    for max_row_bytes in (DEFAULT_MAX_ROW_BYTES, 60, 110):
        for envelope, form in product((Envelope.WRAPPED, Envelope.BARE, Envelope.ENRICHED), Format):
            if form is Format.CSV:
                continue
            avro = form is Format.AVRO
            options = FeedOptions(
                form,
                envelope,
                updated=not avro or envelope is not Envelope.BARE,
                resolved_interval_ns=0,
                confluent_schema_registry="http://registry" if avro else "",
                on_oversize=OnOversize.KEY_ONLY,
                max_row_bytes=max_row_bytes,
            )
            world.feed(table, options=options, topics=f"{form.value}-{envelope.value}-{max_row_bytes}-")


CASES: Final = (
    Case("every type", _types),
    Case("keys of several columns", _keys),
    Case("updates and deletions", _updates),
    Case("envelopes", _envelopes),
    Case("an added column", _added_column),
    Case("several tables", _several_tables),
    Case("a secondary index", _secondary_index),
    Case("rows that are too large", _too_large),
)
