"""Writes down for the kernel what a partition wants (`kernel/src/plan.rs` reads it).

A table version is known to the kernel if it can read its keys, and if it can print each slot of its
templates. That is found by the slots' own printers, so no option of a feed is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import pack
from typing import Any, Final, NamedTuple

from tidegate.changefeed.encoding.json.template import KEY, Member, Slot, literals
from tidegate.changefeed.text.json_text import text_encoder, utf8
from tidegate.hlc import Timestamp
from tidegate.processor.feeds.row_kernel import LanePlan, TablePlan, VersionPlan
from tidegate.rows import Column, TableCodec, TableDescriptor
from tidegate.rows.keyside.integers import encode_uvarint_asc
from tidegate.rows.row_layout import RowLayout
from tidegate.rows.types import Kind

#: A kind that the kernel does not read: a row with a datum of it goes to Python.
_OTHER: Final = 0
#: Numbers of `kernel/src/kind.rs`.
_NUMBERS: Final = {
    Kind.BOOL: 1,
    Kind.INT: 2,
    Kind.FLOAT: 3,
    Kind.DECIMAL: 4,
    Kind.STRING: 5,
    Kind.BYTES: 6,
    Kind.UUID: 7,
    Kind.DATE: 8,
    Kind.TIME: 9,
    Kind.TIMESTAMP: 10,
    Kind.TIMESTAMPTZ: 11,
}
_HLC: Final = 12
#: Kinds that the kernel reads in keys, ascending.
_IN_KEYS: Final = frozenset(_NUMBERS) - {Kind.FLOAT, Kind.DECIMAL}
_COLUMN_ID_MAX: Final = 1 << 16
_COUNT_MAX: Final = 1 << 20


class _Unknown(Exception):
    """The kernel does not know something of a table version."""


class LaneOf(NamedTuple):
    """Which feed of the plan a lane is for, and the topic of its records."""

    feed: int
    topic: str


class Plan(NamedTuple):
    """A plan as the kernel takes it, and its lanes by their numbers. Without lanes it writes nothing."""

    data: bytes
    lanes: tuple[LaneOf, ...]


def write_plan(tables: Sequence[TablePlan]) -> Plan:
    """Return the plan for tables in the order of their ids."""
    lanes: list[LaneOf] = []
    return Plan(_list(_table(table, lanes) for table in tables), tuple(lanes))


def _table(table: TablePlan, lanes: list[LaneOf]) -> bytes:
    return b"".join(
        (
            _numbers(table.table_id, *table.start),
            _bytes(encode_uvarint_asc(table.table_id)),
            _list(_version(version, lanes) for version in table.versions),
        )
    )


def _version(version: VersionPlan, lanes: list[LaneOf]) -> bytes:
    modified = _numbers(*version.table.modified)
    try:
        found = _rows(version, len(lanes))
    except _Unknown:
        return modified + _numbers(0)
    lanes += (LaneOf(lane.feed, lane.to.topic) for lane in version.lanes or ())
    return modified + _numbers(1) + found


def _rows(version: VersionPlan, first_lane: int) -> bytes:
    if version.lanes is None:
        raise _Unknown
    if not version.lanes:
        return _bytes(encode_uvarint_asc(version.table.primary_index_id)) + _numbers(0, 0, 0, 0)
    table = version.table
    layout = _layout(table)
    return b"".join(
        (
            _bytes(encode_uvarint_asc(table.primary_index_id)),
            _numbers(len(layout.columns)),
            _list(
                _key_part(column, slot)
                for column, slot in zip(layout.key_columns, layout.key_slots, strict=True)
            ),
            _list(_numbers(column.id, _number_of(column)) for column in layout.columns),
            _list(_lane(lane, layout, first_lane + at) for at, lane in enumerate(version.lanes)),
        )
    )


def _layout(table: TableDescriptor) -> RowLayout:
    """Return the slots of a table that Python can read as well, and whose keys are all that the row needs."""
    try:
        TableCodec(table)
        layout = RowLayout(table)
    except Exception:
        raise _Unknown from None
    if layout.composites or any(part.descending for part in table.primary_key):
        raise _Unknown
    if any(not 0 < column.id <= _COLUMN_ID_MAX for column in layout.columns):
        raise _Unknown
    return layout


def _key_part(column: Column, slot: int) -> bytes:
    if column.type.kind not in _IN_KEYS:
        raise _Unknown
    return _numbers(_NUMBERS[column.type.kind], slot)


def _number_of(column: Column) -> int:
    return _NUMBERS.get(column.type.kind, _OTHER)


def _lane(lane: LanePlan, layout: RowLayout, number: int) -> bytes:
    key_columns, row_columns = layout.key_columns, layout.columns[: layout.in_rows]
    return b"".join(
        (
            _numbers(number, *lane.start, lane.to.partitions),
            _template(lane.templates.key, key_columns),
            _template(lane.templates.row, row_columns),
            _template(lane.templates.deletion, key_columns),
        )
    )


def _template(member: Member, columns: Sequence[Column]) -> bytes:
    *before, last = [utf8(text) for text in literals(member)]
    slots = (_slot(slot, columns) for slot in member.slots)
    pairs = zip(before, slots, strict=True)
    return _list(_bytes(literal) + slot for literal, slot in pairs) + _bytes(last)


def _slot(slot: Slot, columns: Sequence[Column]) -> bytes:
    if slot.text is Timestamp.decimal and slot.position > KEY:
        return _numbers(0, _HLC)  # a live row's `updated` is its version's own time
    if slot.position < 0:
        raise _Unknown
    column = columns[slot.position]
    if slot.text is not _printer_of(column):
        raise _Unknown  # an option changes how the column prints
    return _numbers(slot.position, _number_of(column))


def _printer_of(column: Column) -> Callable[[Any], str] | None:
    return text_encoder(column.type) if column.type.kind is not Kind.ARRAY else None


def _numbers(*numbers: int) -> bytes:
    return pack(f"<{len(numbers)}q", *numbers)


def _bytes(data: bytes) -> bytes:
    if len(data) > _COUNT_MAX:
        raise _Unknown
    return _numbers(len(data)) + data


def _list(items: Iterable[bytes]) -> bytes:
    written = list(items)
    if len(written) > _COUNT_MAX:
        raise _Unknown
    return _numbers(len(written)) + b"".join(written)
