"""``{"a": 1, "b": "x"}`` under the key ``{"a": 1}``: the row and nothing else; a deletion has no value.

So the newest record of a key is its row, which is what log compaction keeps and what JDBC and Elasticsearch
sinks store. This envelope is tidegate's own; CockroachDB has nothing like it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.avro.connect import compile_connect_avro
from tidegate.changefeed.encoding.avro.connect_bodies import connect_templates
from tidegate.changefeed.encoding.avro.decode import columns_of
from tidegate.changefeed.encoding.envelopes.envelope_form import (
    Codec,
    EnvelopeForm,
    Previous,
    RecordReading,
    Room,
)
from tidegate.changefeed.encoding.envelopes.loading_faults import untold_changes
from tidegate.changefeed.encoding.json.connect import compile_connect_json
from tidegate.changefeed.encoding.json.envelope import json_encoder
from tidegate.changefeed.encoding.json.key import key_templates
from tidegate.changefeed.encoding.json.members import row_members
from tidegate.changefeed.encoding.json.template import compile_template, json_object
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.row_templates import NO_TEXT, Filling, RowPart, RowTemplates
from tidegate.changefeed.encoding.value_members import ANY_ROW, ROW_ALONE, ValueMembers
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def _json_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes | None]:
    """Return a function that makes the value of a row's record; ``None`` for a deletion.

    Raises ``UnsupportedTable`` for a table that has no such form.
    """
    whole = compile_template(json_object("", row_members(table, options)))

    def encode(row: Row, _: Timestamp) -> bytes | None:
        values = row.values
        return None if values is None else utf8(whole(values))

    return encode


def _templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates | None:
    if options.connect_schema:
        return None
    keys = key_templates(table, options, KeyForm.SINK_OBJECT)
    row = Filling(json_object("", row_members(table, options)), (RowPart.VALUES,))
    return RowTemplates(*keys, row, NO_TEXT, empty=None)


def _json(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    if options.connect_schema:
        return compile_connect_json(table, options, None)
    return json_encoder(table, options, KeyForm.SINK_OBJECT, _json_value)


def _avro(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    return compile_connect_avro(table, options, None)


def _avro_templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates | None:
    return connect_templates(table, options, None)


def _read_json(key: tuple[Any, ...], value: bytes | None, reading: RecordReading) -> RowRecord:
    if value is None:
        return RowRecord(key, None, deleted=True)
    return RowRecord(key, reading.fields(value), deleted=False)


def _read_avro(key: tuple[Any, ...], value: bytes | None, reading: RecordReading) -> RowRecord:
    if value is None:
        return RowRecord(key, None, deleted=True)
    return RowRecord(key, columns_of(reading.fields(value)), deleted=False)


def _members(_: FeedOptions) -> ValueMembers:
    return ROW_ALONE


FORM: Final = EnvelopeForm(
    Envelope.UPSERT,
    keys=KeyForm.SINK_OBJECT,
    json=Codec(_json, _read_json, _members, ANY_ROW, _templates),
    avro=Codec(_avro, _read_avro, _members, ANY_ROW, _avro_templates),
    room=Room.FIXED,
    previous=Previous.UNUSED,
    loading_fault=untold_changes,
    for_sinks=True,
    fixed_members="has only the row",
    empty_value="whose readers would take it for a deletion, or stop at it",
)
