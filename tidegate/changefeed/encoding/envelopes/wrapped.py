"""``{"after": {...}}``: the row, and beside it the members that the feed asks for.

| row | deletion | with diff |
|---|---|---|
| ``{"after": {"a": 1, "b": "x"}}`` | ``{"after": null}`` | ``"before"``: the old row, null for a new one |

``key``, ``mvcc_timestamp``, ``topic`` and ``updated`` are members beside ``after``. Source: CockroachDB
``pkg/ccl/changefeedccl/encoder_json.go``, ``initWrappedEnvelope``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.avro.decode import renamed
from tidegate.changefeed.encoding.avro.envelope import (
    after_fields,
    avro_encoder,
    avro_templates,
    stamp_fields,
)
from tidegate.changefeed.encoding.avro.envelope_field import EnvelopeField
from tidegate.changefeed.encoding.envelopes.envelope_form import (
    Codec,
    EnvelopeForm,
    Previous,
    RecordReading,
    Room,
)
from tidegate.changefeed.encoding.envelopes.loading_faults import without_updated
from tidegate.changefeed.encoding.json.changes import ChangeTemplates, change_templates, compile_changes
from tidegate.changefeed.encoding.json.envelope import json_encoder
from tidegate.changefeed.encoding.json.key import key_templates
from tidegate.changefeed.encoding.json.members import row_members
from tidegate.changefeed.encoding.json.metadata import place_members, stamp_members
from tidegate.changefeed.encoding.json.template import (
    NULL,
    beside,
    compile_template,
    constant,
    json_object,
)
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.record_members import nullable_row, stamps_of
from tidegate.changefeed.encoding.replaced import CHANGES
from tidegate.changefeed.encoding.row_templates import Filling, Member, RowPart, RowTemplates
from tidegate.changefeed.encoding.value_members import (
    Members,
    ValueMembers,
    asked,
    place_names,
    stamp_names,
)
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def _json_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    """Return a function that makes the value of a row's record.

    Raises ``UnsupportedTable`` for a table that has no such form.
    """
    if options.diff:
        return compile_changes(_changes(table, options), options, CHANGES)
    row_member, deletion_member = _row_members(table, options)
    whole, deletion = compile_template(row_member), compile_template(deletion_member)

    def encode(row: Row, timestamp: Timestamp) -> bytes:
        values = row.values
        rest = beside(row, timestamp)
        return utf8(deletion(rest) if values is None else whole(values + rest))

    return encode


def _templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates:
    if options.diff:
        return _changes(table, options).of_rows(table, options, KeyForm.ARRAY)
    row, deletion = _row_members(table, options)
    keys = key_templates(table, options, KeyForm.ARRAY)
    return RowTemplates(*keys, Filling(row, (RowPart.VALUES,)), Filling(deletion))


def _changes(table: TableDescriptor, options: FeedOptions) -> ChangeTemplates:
    others = _beside_row(table, options)
    return change_templates(table, options, CHANGES, lambda _: others, before=True)


def _row_members(table: TableDescriptor, options: FeedOptions) -> tuple[Member, Member]:
    """Return the template of the value of a present row, and that of the value of a deletion."""
    others = _beside_row(table, options)
    return (
        json_object("", [json_object("after", row_members(table, options)), *others]),
        json_object("", [constant("after", NULL), *others]),
    )


def _beside_row(table: TableDescriptor, options: FeedOptions) -> list[Member]:
    return [*place_members(table, options, KeyForm.ARRAY), *stamp_members(options)]


def _json(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    return json_encoder(table, options, KeyForm.ARRAY, _json_value)


def _avro_fields(table: TableDescriptor, options: FeedOptions) -> list[EnvelopeField]:
    return [*after_fields(table, options), *stamp_fields(options)]


def _avro(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    return avro_encoder(table, options, _avro_fields)


def _avro_templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates | None:
    return avro_templates(table, options, _avro_fields)


def _record(key: tuple[Any, ...], value: dict[str, Any], members: ValueMembers) -> RowRecord:
    members.value.require(value.keys())
    row = nullable_row(value["after"])
    return RowRecord(key, row, row is None, previous=nullable_row(value.get("before")), **stamps_of(value))


def _read_json(key: tuple[Any, ...], value: bytes | None, reading: RecordReading) -> RowRecord:
    return _record(key, reading.fields(value), reading.value_members)


def _read_avro(key: tuple[Any, ...], value: bytes | None, reading: RecordReading) -> RowRecord:
    return _record(key, renamed(reading.fields(value)), reading.value_members)


def _members(options: FeedOptions) -> ValueMembers:
    beside = asked(before=options.diff) | place_names(options) | stamp_names(options)
    return ValueMembers(Members(beside | {"after"}), frozenset(), frozenset())


_ANY: Final = ValueMembers(
    Members(frozenset({"after"}), frozenset({"before", "key", "topic", "updated", "mvcc_timestamp"}))
)

FORM: Final = EnvelopeForm(
    Envelope.WRAPPED,
    keys=KeyForm.ARRAY,
    json=Codec(_json, _read_json, _members, _ANY, _templates),
    avro=Codec(_avro, _read_avro, _members, _ANY, _avro_templates),
    room=Room.AROUND_ROW,
    previous=Previous.SHOWN_BY_DIFF,
    loading_fault=without_updated,
    csv=True,
    marker_as_member=True,
)
