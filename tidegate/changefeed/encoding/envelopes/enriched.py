"""``{"after": {...}, "op": "c", "ts_ns": 1}``: the wrapped envelope, with the operation and its time.

``op`` is ``c`` for a new row and for a row that a scan found, ``u`` for a changed row, and ``d`` for a
deletion, even of a row that was not there. ``before``, ``key``, ``source`` (``enriched_source.py``) and
``topic`` stand beside ``after``.

Source: CockroachDB ``pkg/ccl/changefeedccl/encoder_json.go``, ``initEnrichedEnvelope``. Two things differ.
There ``ts_ns`` at the top is the time at which the record was made. Here it is the wall time of the row's
commit, or of the scan that found it, because a record that is made again must be an exact copy. There
``source`` appears only if it is asked for. Here it also appears if one of its timestamps is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.avro.decode import renamed
from tidegate.changefeed.encoding.avro.enriched import SOURCE, enriched_fields
from tidegate.changefeed.encoding.avro.envelope import after_fields, avro_encoder, avro_templates
from tidegate.changefeed.encoding.avro.envelope_field import EnvelopeField
from tidegate.changefeed.encoding.enriched_source import (
    CONSTANT_NAMES,
    MVCC_TIMESTAMP,
    TS_NS,
    SourceValue,
    source_constants,
    source_stamps,
)
from tidegate.changefeed.encoding.envelopes.envelope_form import (
    Codec,
    EnvelopeForm,
    Previous,
    RecordReading,
    Room,
)
from tidegate.changefeed.encoding.envelopes.loading_faults import without_updated
from tidegate.changefeed.encoding.json.changes import ChangeTemplates, change_templates, compile_changes
from tidegate.changefeed.encoding.json.enriched_schema import templates_with_schema, with_schema
from tidegate.changefeed.encoding.json.envelope import json_encoder
from tidegate.changefeed.encoding.json.metadata import decimal_member, place_members, wall_ns_member
from tidegate.changefeed.encoding.json.template import MVCC, UPDATED, constant, json_object
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.record_members import change_record
from tidegate.changefeed.encoding.replaced import CHANGES
from tidegate.changefeed.encoding.row_templates import Member, RowTemplates
from tidegate.changefeed.encoding.value_members import Members, ValueMembers, asked, place_names
from tidegate.changefeed.text.json_text import json_string
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def _json_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    """Return a function that makes the value of a row's record.

    Raises ``UnsupportedTable`` for a table that has no such form.
    """
    return compile_changes(_changes(table, options), options, CHANGES)


def _changes(table: TableDescriptor, options: FeedOptions) -> ChangeTemplates:
    places = place_members(table, options, KeyForm.OBJECT)
    beside = [*places, *_source(table, options), wall_ns_member("ts_ns")]
    return change_templates(
        table, options, CHANGES, lambda op: [*beside, constant("op", f'"{op}"')], before=options.diff
    )


def _templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates:
    templates = _changes(table, options).of_rows(table, options, KeyForm.OBJECT)
    return templates_with_schema(templates, table, options) if options.enriched_schema else templates


def _source(table: TableDescriptor, options: FeedOptions) -> list[Member]:
    members = [constant(name, _value_text(value)) for name, value in source_constants(table, options).items()]
    members += [_stamp(name) for name in source_stamps(options)]
    return [json_object("source", members)] if members else []


def _stamp(name: str) -> Member:
    if name == TS_NS:
        return wall_ns_member(name)
    return decimal_member(name, MVCC if name == MVCC_TIMESTAMP else UPDATED)


def _value_text(value: SourceValue) -> str:
    match value:
        case str():
            return json_string(value)
        case int():
            return str(value)
        case _:
            return f"[{', '.join(map(json_string, value))}]"


def _json(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    encoder = json_encoder(table, options, KeyForm.OBJECT, _json_value)
    return with_schema(encoder, table, options) if options.enriched_schema else encoder


def _avro_fields(table: TableDescriptor, options: FeedOptions) -> list[EnvelopeField]:
    return [*after_fields(table, options), *enriched_fields(table, options)]


def _avro(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    return avro_encoder(table, options, _avro_fields)


def _avro_templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates | None:
    return avro_templates(table, options, _avro_fields)


def _read_json(key: tuple[Any, ...], value: bytes | None, reading: RecordReading) -> RowRecord:
    return change_record(key, reading.fields(value), reading.value_members, CHANGES.letters)


def _read_avro(key: tuple[Any, ...], value: bytes | None, reading: RecordReading) -> RowRecord:
    members = _without_nulls(renamed(reading.fields(value)))
    return change_record(key, members, reading.value_members, CHANGES.letters)


def _without_nulls(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members as JSON has them: ``source`` without members that are null."""
    source = members.get(SOURCE)
    if not isinstance(source, dict):
        return members
    return {**members, SOURCE: {name: each for name, each in source.items() if each is not None}}


def _members(options: FeedOptions) -> ValueMembers:
    told = CONSTANT_NAMES if options.enriched_source else frozenset[str]()
    source = told | frozenset(source_stamps(options))
    beside = asked(before=options.diff, source=bool(source)) | place_names(options)
    return ValueMembers(Members(beside | {"after", "op", "ts_ns"}), frozenset(), source)


_ANY: Final = ValueMembers(
    Members(frozenset({"after", "op"}), frozenset({"before", "key", "topic", "source", "ts_ns"}))
)

FORM: Final = EnvelopeForm(
    Envelope.ENRICHED,
    keys=KeyForm.OBJECT,
    json=Codec(_json, _read_json, _members, _ANY, _templates),
    avro=Codec(_avro, _read_avro, _members, _ANY, _avro_templates),
    room=Room.AROUND_ROW,
    previous=Previous.OPERATION,
    loading_fault=without_updated,
    marker_as_member=True,
)
