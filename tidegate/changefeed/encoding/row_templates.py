"""The encoder of a table version's rows as templates, which other code than the encoder can fill.

A kernel fills them in native code (docs/kernel.md). The templates of JSON are those that the encoder itself
fills. The templates of Avro are the bodies that the encoder writes, as their pieces.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, TypeAlias

from tidegate.changefeed.encoding.confluent import RecordSchemas
from tidegate.changefeed.text.json_text import TextEncoder
from tidegate.rows.types import SqlType


class Slot(NamedTuple):
    """A place in a template: which of a row's datums goes there, and how it prints."""

    position: int
    text: TextEncoder


class Member(NamedTuple):
    """A member of a JSON object: a %-template of its value, and the slots in it from left to right."""

    name: str
    template: str
    slots: tuple[Slot, ...] = ()


class RowPart(enum.Enum):
    """Datums of a row: those of its primary key, of its columns, or of the columns of the row before."""

    KEY = 0
    VALUES = 1
    PREVIOUS = 2


class Filling(NamedTuple):
    """A template, and the parts of a row that fill it.

    The position of a slot counts the datums of these parts, one part after the other. What ``beside`` adds
    comes after them.
    """

    member: Member
    parts: tuple[RowPart, ...] = ()


class DatumForm(enum.Enum):
    """The form of a datum in a body of Avro."""

    AVRO = "the union of null and the branches of its type"
    """``avro/field_types.py`` has the branches."""
    CONNECT = "the union of null and its Connect type"
    """``connect/types.py`` has the types."""
    NULLABLE_CONNECT_KEY = "the same in a key"
    """Equal datums have one form."""
    CONNECT_KEY = "its Connect type in a key that is never null"


class DatumPlace(NamedTuple):
    """A datum of a row in a body of Avro, written in the form ``form``."""

    part: RowPart
    position: int
    sql_type: SqlType
    form: DatumForm = DatumForm.AVRO


class Stamp(enum.Enum):
    """A time of a row in a body of Avro, without the branch of a union.

    ``DECIMAL``, ``WALL_NS`` and ``WALL_MS`` are the time of the commit, or of the scan that found the row.
    ``MVCC`` is the time of the version.
    """

    DECIMAL = "a string"
    WALL_NS = "a long of nanoseconds"
    WALL_MS = "a long of milliseconds"
    MVCC = "a string of the version"


#: A part of a body: bytes that are the same for every row, or what differs.
Piece: TypeAlias = bytes | DatumPlace | Stamp


class Body(NamedTuple):
    """A body of Avro as its pieces, one after the other."""

    pieces: tuple[Piece, ...]


class ChangeShape(enum.Enum):
    """The change that a version made to its row. A value may have a shape for each."""

    CREATED = "there is a new row"
    UPDATED = "a row replaced another one"
    DELETED = "a row was deleted"
    MISSING = "a row was deleted where none was"

    @property
    def is_present(self) -> bool:
        """Whether there is a row now."""
        return self in (ChangeShape.CREATED, ChangeShape.UPDATED)

    @property
    def was_present(self) -> bool:
        """Whether there was a row before."""
        return self in (ChangeShape.UPDATED, ChangeShape.DELETED)


class ReplacedTemplates(NamedTuple):
    """The template of the value of a row that replaced another one, and that of a deletion of a row."""

    updated: Filling | Body
    deleted: Filling | Body


class RowTemplates(NamedTuple):
    """The templates of an encoder of rows that only fills templates.

    ``row`` and ``deletion`` are values. With ``replaced``, ``row`` is only for a new row, and ``deletion``
    only for a deletion where no row was; then the encoder needs to know the row before. ``scanned`` is the
    value of a row that an initial scan found; if it is ``None``, such a row has the value of a new row. A
    value without text is written as ``empty``. With ``tombstones`` a record without a value follows that of a
    deletion. A row whose key and value together have more than ``max_bytes`` bytes is not written by these
    templates (`RowLimit`). ``headers`` are those of every row. With ``schemas`` key and value still have to
    be framed with the schemas' ids.
    """

    key: Filling | Body
    deleted_key: Filling | Body
    row: Filling | Body
    deletion: Filling | Body
    replaced: ReplacedTemplates | None = None
    empty: bytes | None = b""
    tombstones: bool = False
    max_bytes: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    schemas: RecordSchemas | None = None
    scanned: Filling | Body | None = None

    def of_scan(self) -> RowTemplates:
        """Return the templates of rows that an initial scan found. A scan finds no deletions."""
        return self._replace(row=self.scanned or self.row, replaced=None, scanned=None)


#: No text, whatever the row.
NO_TEXT: Final = Filling(Member("", ""))
