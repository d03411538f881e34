"""A field of an envelope's record: its schema, and its value for a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tidegate.changefeed.encoding.avro.body import Branch
from tidegate.changefeed.encoding.avro.schema_text import AvroField
from tidegate.changefeed.encoding.row_templates import ChangeShape, Piece
from tidegate.hlc import Timestamp
from tidegate.rows.row import Row

#: Returns the pieces of a field's bytes for rows of a shape (`row_templates`).
Pieces: TypeAlias = Callable[[ChangeShape], tuple[Piece, ...]]
Member: TypeAlias = Callable[[Row, Timestamp], Branch]


class EnvelopeField(NamedTuple):
    """A field of the envelope.

    ``schema`` is its schema. ``member`` is the function that gives its value for a row at a timestamp.
    ``pieces`` is the function that gives the same value in pieces, for rows of a shape (`row_templates`).
    """

    schema: AvroField
    member: Member
    pieces: Pieces
