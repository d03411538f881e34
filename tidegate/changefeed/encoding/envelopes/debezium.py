"""Debezium's envelope: ``{"after", "before", "op", "source", "ts_ms"}`` under the key ``{"a": 1}``.

A tombstone follows a deletion's record, as from Debezium's connectors, so that log compaction may forget the
key. A row that a scan found has the operation ``r``, its ``source.snapshot`` is true, and all its times are
the scan's.

Source: Debezium's documentation of the PostgreSQL connector, "Data change events", and ``debezium-core``'s
``Envelope`` and ``AbstractSourceInfo``, which require ``version``, ``connector``, ``name``, ``ts_ms``,
``snapshot`` and ``db``. There ``ts_ms`` at the top is the time at which the connector made the record. Here
it is the time of the commit, as in ``source``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.encoding.avro.connect import compile_connect_avro
from tidegate.changefeed.encoding.avro.connect_bodies import connect_templates
from tidegate.changefeed.encoding.avro.decode import renamed
from tidegate.changefeed.encoding.debezium_source import SOURCE_NAMES, source_texts
from tidegate.changefeed.encoding.envelopes.envelope_form import (
    Codec,
    EnvelopeForm,
    Previous,
    RecordReading,
    Room,
)
from tidegate.changefeed.encoding.json.changes import ChangeTemplates, change_templates, compile_changes
from tidegate.changefeed.encoding.json.connect import compile_connect_json
from tidegate.changefeed.encoding.json.envelope import json_encoder
from tidegate.changefeed.encoding.json.metadata import decimal_member, wall_ms_member, wall_ns_member
from tidegate.changefeed.encoding.json.template import UPDATED, constant, json_object
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.record_members import change_record
from tidegate.changefeed.encoding.replaced import READ, ChangeForm
from tidegate.changefeed.encoding.row_templates import Member, RowTemplates
from tidegate.changefeed.encoding.value_members import Members, ValueMembers
from tidegate.changefeed.text.json_text import json_string
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row

#: Debezium's own sinks stop at a deletion without ``before``. So the deletion of a row that was not there
#: shows the row's key.
_CHANGES: Final = ChangeForm(scanned=READ, shows_missing=True)


def _json_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    """Return a function that makes the value of a row's record.

    Raises ``UnsupportedTable`` for a table that has no such form.
    """
    return compile_changes(_changes(table, options), options, _CHANGES)


def _changes(table: TableDescriptor, options: FeedOptions) -> ChangeTemplates:
    def others(op: str) -> list[Member]:
        source = _source(table, options, scanned=op == READ)
        return [source, wall_ms_member("ts_ms"), constant("op", f'"{op}"')]

    return change_templates(table, options, _CHANGES, others, before=True)


def _templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates | None:
    if options.connect_schema:
        return None
    return _changes(table, options).of_rows(table, options, KeyForm.SINK_OBJECT)


def _source(table: TableDescriptor, options: FeedOptions, *, scanned: bool) -> Member:
    texts = source_texts(table, options, scanned=scanned)
    constants = [constant(name, json_string(text)) for name, text in texts.items()]
    times = [decimal_member("ts_hlc", UPDATED), wall_ms_member("ts_ms"), wall_ns_member("ts_ns")]
    return json_object("source", [*constants, *times])


def _json(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    if options.connect_schema:
        return compile_connect_json(table, options, _CHANGES)
    return json_encoder(table, options, KeyForm.SINK_OBJECT, _json_value)


def _avro(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    return compile_connect_avro(table, options, _CHANGES)


def _avro_templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates | None:
    return connect_templates(table, options, _CHANGES)


def _read_json(key: tuple[Any, ...], value: bytes | None, reading: RecordReading) -> RowRecord:
    if value is None:
        return RowRecord(key, None, deleted=True, tombstone=True)
    return change_record(key, reading.fields(value), reading.value_members, _CHANGES.letters)


def _read_avro(key: tuple[Any, ...], value: bytes | None, reading: RecordReading) -> RowRecord:
    if value is None:
        return RowRecord(key, None, deleted=True, tombstone=True)
    return change_record(key, renamed(reading.fields(value)), reading.value_members, _CHANGES.letters)


def _members(_: FeedOptions) -> ValueMembers:
    members = frozenset({"after", "before", "op", "source", "ts_ms"})
    return ValueMembers(Members(members), frozenset(), SOURCE_NAMES)


_ANY: Final = ValueMembers(Members(frozenset({"after", "op"}), frozenset({"before", "source", "ts_ms"})))


def _loading_fault(options: FeedOptions) -> str:
    if options.format is Format.AVRO or options.connect_schema:
        return "its values have Kafka Connect's types; create it without a schema, or with envelope='wrapped'"
    return ""


FORM: Final = EnvelopeForm(
    Envelope.DEBEZIUM,
    keys=KeyForm.SINK_OBJECT,
    json=Codec(_json, _read_json, _members, _ANY, _templates),
    avro=Codec(_avro, _read_avro, _members, _ANY, _avro_templates),
    room=Room.FIXED,
    previous=Previous.SHOWN,
    loading_fault=_loading_fault,
    tombstones=True,
    marker_as_member=True,
    for_sinks=True,
    fixed_members="always has before, after and source.ts_hlc",
    empty_value="whose readers would take it for a tombstone, or stop at it",
)
