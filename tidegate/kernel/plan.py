"""Writes down for the kernel what a partition wants (`kernel/src/plan.rs` reads it).

The kernel knows a table version if it can read the version's keys and print each slot of its templates. This
module compares the printers of the slots to find that out, so it has to know no option of a feed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import pack
from typing import Final, NamedTuple

from tidegate.changefeed.encoding.avro.body import stamp_bytes
from tidegate.changefeed.encoding.json.metadata import wall_ms_text, wall_ns_text
from tidegate.changefeed.encoding.json.template import KEY, UPDATED, MemberText, literals
from tidegate.changefeed.encoding.row_templates import (
    Body,
    DatumForm,
    DatumPlace,
    Filling,
    RowPart,
    RowTemplates,
    Slot,
    Stamp,
)
from tidegate.changefeed.text.json_text import text_encoder, utf8
from tidegate.hlc import Timestamp
from tidegate.processor.batch import SchemedTopic
from tidegate.processor.feeds.row_kernel import LanePlan, TablePlan, VersionPlan
from tidegate.processor.written_records import LaneOf
from tidegate.rows import Column, TableCodec, TableDescriptor
from tidegate.rows.keyside.integers import encode_uvarint_asc
from tidegate.rows.row_layout import RowLayout
from tidegate.rows.types import Kind, SqlType

#: A kind that the kernel does not read: a row with a datum of such a kind goes to Python.
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
    Kind.COLLATED_STRING: 5,
    Kind.JSONB: 12,
    Kind.INTERVAL: 13,
    Kind.INET: 14,
    Kind.TIMETZ: 15,
    Kind.BIT: 16,
    Kind.OID: 17,
    Kind.PG_LSN: 18,
    Kind.ENUM: 19,
    Kind.ARRAY: 20,
}
#: How a slot prints, by the numbers of `kernel/src/plan.rs`: a datum as JSON or Avro, or the time of a row's
#: version. The time of a scan has no slot: it is the same for all rows of the scan.
_JSON: Final = 0
_FORMS: Final = {
    DatumForm.AVRO: 4,
    DatumForm.CONNECT: 8,
    DatumForm.NULLABLE_CONNECT_KEY: 9,
    DatumForm.CONNECT_KEY: 10,
}
_STAMPS: Final = {Stamp.DECIMAL: 5, Stamp.WALL_NS: 6, Stamp.WALL_MS: 7, Stamp.MVCC: 5}
_TIMES: Final[dict[object, int]] = {Timestamp.decimal: 1, wall_ns_text: 2, wall_ms_text: 3}
#: The number of templates that each encoder has. They are the first fields of `RowTemplates`.
_VALUES: Final = 4
_NO_LIMIT: Final = 2**63 - 1
#: Kinds that the kernel reads in keys, and those that it reads in descending parts of keys.
_IN_KEYS: Final = frozenset(_NUMBERS) - {Kind.COLLATED_STRING, Kind.JSONB, Kind.BIT, Kind.ARRAY}
_DESCENDING: Final = _IN_KEYS - {Kind.STRING, Kind.BYTES}
#: Kinds that the kernel does not read as elements of arrays.
_NO_ELEMENTS: Final = frozenset((Kind.JSONB, Kind.ARRAY))
_COLUMN_ID_MAX: Final = 1 << 16
#: A lane whose constant texts are short takes fewer bytes of its version's plan than this.
_LANE_BYTES: Final = 512
_COUNT_MAX: Final = 1 << 20
#: The most bytes of a plan. The kernel needs about twice as much memory for it. Names of columns stand in the
#: templates of each lane, and may be long. If a table version has no room there, Python writes its rows.
PLAN_BYTES_MAX: Final = 64 << 20


class _Unknown(Exception):
    """Raised for a table version that the kernel cannot take: Python writes its rows."""


class _Room:
    """A counter of the bytes that a plan may still get."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = PLAN_BYTES_MAX

    def fit(self, written: bytes) -> bytes:
        """Take the room for ``written``, and return ``written``. Raises ``_Unknown`` if there is no room."""
        self.left -= len(written)
        if self.left < 0:
            raise _Unknown
        return written


class _Placed(NamedTuple):
    """A slot, and the parts of a row among whose columns its position counts."""

    slot: Slot
    parts: tuple[RowPart, ...]


class Plan(NamedTuple):
    """A plan as the kernel takes it, and its lanes by their numbers. Without lanes it writes nothing.

    ``previous`` says whether the kernel has to be given the values that rows replaced. A row is written in
    ``widest`` lanes at most. A lane whose constant texts are long counts as several.
    """

    data: bytes
    lanes: tuple[LaneOf, ...]
    previous: bool
    widest: int


def write_plan(tables: Sequence[TablePlan]) -> Plan:
    """Return the plan for tables in the order of their ids."""
    lanes: list[LaneOf] = []
    previous = any(_needs_previous(version) for table in tables for version in table.versions)
    widths: list[int] = []
    room = _Room()
    data = _numbers(previous) + _list(_table(table, lanes, widths, room) for table in tables)
    return Plan(data, tuple(lanes), previous, max(widths, default=0))


def _needs_previous(version: VersionPlan) -> bool:
    return any(lane.templates.replaced is not None for lane in version.lanes or ())


def _table(table: TablePlan, lanes: list[LaneOf], widths: list[int], room: _Room) -> bytes:
    versions = [_version(version, lanes, room) for version in table.versions]
    widths += [
        len(version.lanes or ()) + len(written) // _LANE_BYTES
        for version, written in zip(table.versions, versions, strict=True)
    ]
    return b"".join(
        (
            _numbers(table.table_id, *table.start),
            _bytes(encode_uvarint_asc(table.table_id)),
            _list(versions),
        )
    )


def _version(version: VersionPlan, lanes: list[LaneOf], room: _Room) -> bytes:
    since, left = _numbers(*version.since), room.left
    try:
        found = _rows(version, len(lanes), room)
    except _Unknown:
        room.left = left
        return since + _numbers(0)
    lanes += map(_lane_of, version.lanes or ())
    return since + _numbers(1) + found


def _lane_of(lane: LanePlan) -> LaneOf:
    templates = lane.templates
    schemas, to = templates.schemas, lane.to
    schemed = None if schemas is None else SchemedTopic(to.topic, to.partitions, schemas)
    # In a lane with tombstones no text means a tombstone: the values of all other records there have text.
    empty = None if templates.tombstones else templates.empty
    return LaneOf(lane.feed, to.topic, schemed, templates.headers, empty)


def _rows(version: VersionPlan, first_lane: int, room: _Room) -> bytes:
    if version.lanes is None:
        raise _Unknown
    if not version.lanes:
        return _bytes(encode_uvarint_asc(version.table.primary_index_id)) + _numbers(0, 0, 0, 0, 0)
    table = version.table
    layout = _layout(table)
    return b"".join(
        (
            _bytes(encode_uvarint_asc(table.primary_index_id)),
            _numbers(len(layout.columns), bool(layout.composites)),
            _list(
                room.fit(_key_part(column, slot, part.descending))
                for column, slot, part in zip(
                    layout.key_columns, layout.key_slots, table.primary_key, strict=True
                )
            ),
            _list(room.fit(_numbers(column.id) + _type(column)) for column in layout.columns),
            _list(room.fit(_lane(lane, layout, first_lane + at)) for at, lane in enumerate(version.lanes)),
        )
    )


def _layout(table: TableDescriptor) -> RowLayout:
    """Return the slots of a table. Raises ``_Unknown`` for a table that Python cannot read either, and for
    a column whose id is too large for the kernel."""
    try:
        TableCodec(table)
        layout = RowLayout(table)
    except Exception:
        raise _Unknown from None
    if any(not 0 < column.id <= _COLUMN_ID_MAX for column in layout.columns):
        raise _Unknown
    return layout


def _key_part(column: Column, slot: int, descending: bool) -> bytes:
    if column.type.kind not in (_DESCENDING if descending else _IN_KEYS):
        raise _Unknown
    return _type(column) + _numbers(slot, descending)


def _type(column: Column) -> bytes:
    """Return a column's type as bytes: its kind, the kind of its elements, then width, scale and labels.

    Width, scale and labels are those of the elements if the type is an array.
    """
    kind = column.type.kind
    if kind is not Kind.ARRAY:
        return _numbers(_NUMBERS.get(kind, _OTHER), _OTHER) + _parameters(column.type)
    element = column.type.element
    if element is None or element.kind in _NO_ELEMENTS or element.kind not in _NUMBERS:
        return _NO_TYPE
    return _numbers(_NUMBERS[kind], _NUMBERS[element.kind]) + _parameters(element)


def _parameters(of: SqlType) -> bytes:
    return _numbers(of.width, of.scale) + _labels(of)


def _labels(of: SqlType) -> bytes:
    # The last of several members with the same bytes is the one that Python reads.
    labels = {member.physical: member.label for member in of.members}
    try:
        return _list(_bytes(physical) + _bytes(label.encode()) for physical, label in labels.items())
    except UnicodeEncodeError:
        raise _Unknown from None


def _lane(lane: LanePlan, layout: RowLayout, number: int) -> bytes:
    templates = lane.templates
    limit = _NO_LIMIT if templates.max_bytes is None else templates.max_bytes
    return b"".join(
        (
            _numbers(number, *lane.start, lane.to.partitions, limit, templates.tombstones),
            *(_template(filling, layout, lane.scanned_at) for filling in templates[:_VALUES]),
            _replaced(templates, layout),
        )
    )


def _replaced(templates: RowTemplates, layout: RowLayout) -> bytes:
    if templates.replaced is None:
        return _numbers(0)
    if not layout.in_rows:
        raise _Unknown  # to Python a row without columns is no row
    return _numbers(1) + b"".join(_template(filling, layout, None) for filling in templates.replaced)


def _template(template: Filling | Body, layout: RowLayout, scanned_at: Timestamp | None) -> bytes:
    slots: list[bytes] = []
    before = b""
    for piece in _pieces(template, scanned_at):
        if isinstance(piece, bytes):
            before += piece
        else:
            slots.append(_bytes(before) + _written(piece, layout))
            before = b""
    return _list(slots) + _bytes(before)


def _pieces(
    template: Filling | Body, scanned_at: Timestamp | None
) -> Iterator[bytes | _Placed | DatumPlace | Stamp]:
    """Yield the bytes that are the same for every row, and the slots between them.

    A slot that has a template of its own is taken apart: the slots of that template are positions among the
    key's datums. The time of a scan is the same for every row.
    """
    if isinstance(template, Body):
        for piece in template.pieces:
            if isinstance(piece, Stamp) and piece is not Stamp.MVCC and scanned_at is not None:
                yield stamp_bytes(piece, scanned_at)
            else:
                yield piece
        return
    *before, last = map(utf8, literals(template.member))
    for literal, slot in zip(before, template.member.slots, strict=True):
        yield literal
        if slot.position == KEY and isinstance(slot.text, MemberText):
            yield from _pieces(Filling(slot.text.member, (RowPart.KEY,)), scanned_at)
        elif slot.position == UPDATED and scanned_at is not None:
            yield utf8(slot.text(scanned_at))
        else:
            yield _Placed(slot, template.parts)
    yield last


def _written(piece: _Placed | DatumPlace | Stamp, layout: RowLayout) -> bytes:
    if isinstance(piece, Stamp):
        return _numbers(0, 0, _STAMPS[piece]) + _NO_TYPE
    if isinstance(piece, DatumPlace):
        column = _columns(piece.part, layout)[piece.position]
        if column.type != piece.sql_type:
            raise _Unknown
        return _numbers(piece.part.value, piece.position, _FORMS[piece.form]) + _type(column)
    return _slot(piece, layout)


def _columns(part: RowPart, layout: RowLayout) -> Sequence[Column]:
    return layout.key_columns if part is RowPart.KEY else layout.columns[: layout.in_rows]


def _slot(placed: _Placed, layout: RowLayout) -> bytes:
    (position, text), parts = placed
    if KEY < position < 0 and text in _TIMES:
        return _numbers(0, 0, _TIMES[text]) + _NO_TYPE
    if position < 0:
        raise _Unknown
    for part in parts:
        columns = _columns(part, layout)
        if position < len(columns):
            column = columns[position]
            if text is not text_encoder(column.type):
                raise _Unknown  # an option changes how the column prints
            return _numbers(part.value, position, _JSON) + _type(column)
        position -= len(columns)
    raise _Unknown


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


#: The type of a slot that is no datum, and of a column that only Python reads.
_NO_TYPE: Final = _numbers(_OTHER, _OTHER, 0, 0) + _list(())
