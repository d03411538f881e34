"""``{"__crdb__": {...}, "a": 1, "b": "x"}``: the row itself, with all metadata in one object beside the
columns.

A deletion has the columns of the primary key, and null for all others. ``diff`` has no effect, as in
CockroachDB: there only changefeeds with a query use it. Source: ``pkg/ccl/changefeedccl/encoder_json.go``,
``initRawEnvelope``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.avro.decode import renamed, stamp_of
from tidegate.changefeed.encoding.avro.envelope import (
    MVCC_TIMESTAMP,
    RECORD,
    UPDATED,
    Places,
    avro_encoder,
    avro_templates,
    row_field,
    stamp_fields,
)
from tidegate.changefeed.encoding.avro.envelope_field import EnvelopeField
from tidegate.changefeed.encoding.columns import public_columns
from tidegate.changefeed.encoding.envelopes.envelope_form import (
    Codec,
    EnvelopeForm,
    Previous,
    RecordReading,
    Room,
)
from tidegate.changefeed.encoding.envelopes.loading_faults import untold_changes
from tidegate.changefeed.encoding.json.envelope import json_encoder
from tidegate.changefeed.encoding.json.key import key_templates
from tidegate.changefeed.encoding.json.members import key_only_members, row_members
from tidegate.changefeed.encoding.json.metadata import metadata_object, place_members, stamp_members
from tidegate.changefeed.encoding.json.parsing import parse, popped_stamps
from tidegate.changefeed.encoding.json.template import beside, compile_template, json_object
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.row_templates import ChangeShape, Filling, Member, RowPart, RowTemplates
from tidegate.changefeed.encoding.value_members import (
    ANY_ROW,
    ROW_ALONE,
    Members,
    ValueMembers,
    place_names,
    stamp_names,
)
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Datum


def _json_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    """Return a function that makes the value of a row's record.

    Raises ``UnsupportedTable`` for a table that has no such form.
    """
    row_member, deletion_member = _row_members(table, options)
    whole, deletion = compile_template(row_member), compile_template(deletion_member)

    def encode(row: Row, timestamp: Timestamp) -> bytes:
        values = row.values
        rest = beside(row, timestamp)
        return utf8(deletion(row.key + rest) if values is None else whole(values + rest))

    return encode


def _templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates:
    row, deletion = _row_members(table, options)
    keys = key_templates(table, options, KeyForm.ARRAY)
    return RowTemplates(*keys, Filling(row, (RowPart.VALUES,)), Filling(deletion, (RowPart.KEY,)))


def _row_members(table: TableDescriptor, options: FeedOptions) -> tuple[Member, Member]:
    """Return the template of the value of a present row, and that of the value of a deletion."""
    asked = [*place_members(table, options, KeyForm.ARRAY), *stamp_members(options)]
    metadata = metadata_object(table, options, asked)
    return (
        json_object("", [*row_members(table, options), *metadata]),
        json_object("", [*key_only_members(table, options), *metadata]),
    )


def _json(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    return json_encoder(table, options, KeyForm.ARRAY, _json_value)


def _avro_fields(table: TableDescriptor, options: FeedOptions) -> list[EnvelopeField]:
    columns, key_positions = public_columns(table), _key_positions(table)

    def places(shape: ChangeShape) -> Places:
        return (RowPart.VALUES, range(len(columns))) if shape.is_present else (RowPart.KEY, key_positions)

    return [*stamp_fields(options), row_field(table, options, RECORD, _present_or_key(table), places)]


def _key_positions(table: TableDescriptor) -> list[int | None]:
    """Return the position of each column in the primary key; ``None`` for a column that is not in it."""
    positions = {part.column_id: position for position, part in enumerate(table.primary_key)}
    return [positions.get(column.id) for column in public_columns(table)]


def _present_or_key(table: TableDescriptor) -> Callable[[Row], tuple[Datum, ...]]:
    """Return a function that gives a row's datums: for a deleted row, those of its primary key, and nulls."""
    places = _key_positions(table)

    def datums(row: Row) -> tuple[Datum, ...]:
        if row.values is not None:
            return row.values
        return tuple([None if place is None else row.key[place] for place in places])

    return datums


def _avro(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    return avro_encoder(table, options, _avro_fields)


def _avro_templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates | None:
    return avro_templates(table, options, _avro_fields)


def _deleted(key: tuple[Any, ...], row: Mapping[str, Any], *, row_keys: bool) -> bool | None:
    """Return ``False`` for a record that cannot be a deletion; ``None`` for a record that may be one.

    A deletion has the columns of its key and nulls, and a row may look the same. A record with values in more
    columns than the key has is no deletion. Without ``row_keys`` this cannot be seen.
    """
    present = sum(value is not None for value in row.values())
    return False if row_keys and present > len(key) else None


def _read_json(key: tuple[Any, ...], value: bytes | None, reading: RecordReading) -> RowRecord:
    row = parse(value, dict)
    stamps = popped_stamps(row, reading.value_members)
    return RowRecord(key, row, _deleted(key, row, row_keys=reading.row_keys), **stamps)


def _read_avro(key: tuple[Any, ...], value: bytes | None, reading: RecordReading) -> RowRecord:
    fields = reading.fields(value)
    reading.value_members.value.require(fields.keys())
    members = renamed(fields)
    row = members[RECORD]
    if row is None:
        raise ValueError(f"{RECORD} is null")
    deleted = _deleted(key, row, row_keys=reading.row_keys)
    return RowRecord(key, row, deleted, stamp_of(members, UPDATED), stamp_of(members, MVCC_TIMESTAMP))


def _json_members(options: FeedOptions) -> ValueMembers:
    return ROW_ALONE._replace(metadata=place_names(options) | stamp_names(options))


def _avro_members(options: FeedOptions) -> ValueMembers:
    return ROW_ALONE._replace(value=Members(stamp_names(options) | {RECORD}))


_ANY_AVRO: Final = ValueMembers(Members(frozenset({RECORD}), frozenset({UPDATED, MVCC_TIMESTAMP})))

FORM: Final = EnvelopeForm(
    Envelope.BARE,
    keys=KeyForm.ARRAY,
    json=Codec(_json, _read_json, _json_members, ANY_ROW, _templates),
    avro=Codec(_avro, _read_avro, _avro_members, _ANY_AVRO, _avro_templates),
    room=Room.AMONG_COLUMNS,
    previous=Previous.UNUSED,
    loading_fault=untold_changes,
    csv=True,
)
