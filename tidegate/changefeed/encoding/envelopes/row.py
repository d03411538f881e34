"""``{"a": 1, "b": "x"}``: the row itself; a deletion is an empty value.

Timestamps stand in an object ``__crdb__`` beside the columns. ``diff`` has no effect. Source: CockroachDB
``pkg/ccl/changefeedccl/encoder_json.go``, ``initRawEnvelope``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidegate.changefeed.definition.options import Envelope, FeedOptions
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
from tidegate.changefeed.encoding.json.members import row_members
from tidegate.changefeed.encoding.json.metadata import metadata_object, stamp_members
from tidegate.changefeed.encoding.json.parsing import parse, popped_stamps
from tidegate.changefeed.encoding.json.template import beside, compile_template, json_object
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.row_templates import NO_TEXT, Filling, Member, RowPart, RowTemplates
from tidegate.changefeed.encoding.value_members import (
    ANY_ROW,
    ROW_ALONE,
    ValueMembers,
    place_names,
    stamp_names,
)
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def _json_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    """Return a function that makes the value of a row's record, empty for a deletion.

    Raises ``UnsupportedTable`` for a table that has no such form.
    """
    whole = compile_template(_row_member(table, options))

    def encode(row: Row, timestamp: Timestamp) -> bytes:
        values = row.values
        rest = beside(row, timestamp)
        return b"" if values is None else utf8(whole(values + rest))

    return encode


def _row_member(table: TableDescriptor, options: FeedOptions) -> Member:
    metadata = metadata_object(table, options, stamp_members(options))
    return json_object("", [*row_members(table, options), *metadata])


def _templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates:
    keys = key_templates(table, options, KeyForm.ARRAY)
    return RowTemplates(*keys, Filling(_row_member(table, options), (RowPart.VALUES,)), NO_TEXT)


def _json(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    return json_encoder(table, options, KeyForm.ARRAY, _json_value)


def _read_json(key: tuple[Any, ...], value: bytes | None, reading: RecordReading) -> RowRecord:
    if value == b"":  # an empty value, not an absent one
        return RowRecord(key, None, deleted=True)
    row = parse(value, dict)
    return RowRecord(key, row, deleted=False, **popped_stamps(row, reading.value_members))


def _members(options: FeedOptions) -> ValueMembers:
    return ROW_ALONE._replace(metadata=place_names(options) | stamp_names(options))


FORM: Final = EnvelopeForm(
    Envelope.ROW,
    keys=KeyForm.ARRAY,
    json=Codec(_json, _read_json, _members, ANY_ROW, _templates),
    avro=None,
    room=Room.TIMESTAMPS,
    previous=Previous.UNUSED,
    loading_fault=untold_changes,
    aliases=("deprecated_row", "none"),
    csv=True,
    empty_value="where an empty value is a deletion",
)
