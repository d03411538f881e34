"""A field of an envelope's record: its schema, and its value for a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tidegate.changefeed.encoding.avro.body import Branch
from tidegate.changefeed.encoding.avro.schema_text import AvroField
from tidegate.hlc import Timestamp
from tidegate.rows.row import Row

Member: TypeAlias = Callable[[Row, Timestamp], Branch]


class EnvelopeField(NamedTuple):
    """A field of the envelope: its schema, and the function that gives its value for a row at a timestamp."""

    schema: AvroField
    member: Member
