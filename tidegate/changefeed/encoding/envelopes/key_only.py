"""The envelope whose value is always empty: the key alone says which row has changed.

Options can change only the key. Source: CockroachDB ``pkg/ccl/changefeedccl/encoder_json.go`` and
``encoder_avro.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.avro.key import compile_key
from tidegate.changefeed.encoding.avro.key import key_templates as avro_key_templates
from tidegate.changefeed.encoding.avro.marker import marker_schema
from tidegate.changefeed.encoding.confluent import RecordSchemas
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
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.row_templates import NO_TEXT, RowTemplates
from tidegate.changefeed.encoding.value_members import ANY_ROW, ROW_ALONE, ValueMembers
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def _no_value(_: TableDescriptor, __: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    return lambda *_: b""


def _templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates:
    return RowTemplates(*key_templates(table, options, KeyForm.ARRAY), NO_TEXT, NO_TEXT)


def _json(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    return json_encoder(table, options, KeyForm.ARRAY, _no_value)


def _avro(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    key_schema, write_key = compile_key(table, options)
    # No value is ever written, so the only schema of the subject of values is that of markers.
    schemas = RecordSchemas(key_schema, marker_schema(TableName.of(table), options))
    return RecordEncoder(lambda row, _: (write_key(row), b""), schemas)


def _avro_templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates:
    return RowTemplates(*avro_key_templates(table, options), NO_TEXT, NO_TEXT)


def _read(key: tuple[Any, ...], value: bytes | None, _: RecordReading) -> RowRecord:
    if value != b"":  # this envelope has no absent values either
        raise ValueError("the value should be empty")
    return RowRecord(key, None, deleted=None)


def _members(_: FeedOptions) -> ValueMembers:
    return ROW_ALONE


FORM: Final = EnvelopeForm(
    Envelope.KEY_ONLY,
    keys=KeyForm.ARRAY,
    json=Codec(_json, _read, _members, ANY_ROW, _templates),
    avro=Codec(_avro, _read, _members, ANY_ROW, _avro_templates),
    room=Room.NOWHERE,
    previous=Previous.UNUSED,
    loading_fault=untold_changes,
    empty_value="which has no values",
)
