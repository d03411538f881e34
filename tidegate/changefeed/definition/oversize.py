"""Rows above a feed's limit of bytes: ``on_oversize='key_only'`` writes them without their values.

Such a record has the row's key, an empty value, and the header `OVERSIZE_HEADER`. The header says how large
the row was and which version it is, so that a reader who needs the row can fetch it from the source:

    {"bytes":1234567,"deleted":false,"mvcc_timestamp":"1743...0002","updated":"1743...0002"}

The limit stands in the feed's definition, and the size depends on the row alone. So every engine, and every
repetition, decides alike. The value is empty and not absent, since a record without a value means a deletion
for log compaction and for upserting readers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidegate.hlc import Timestamp, parse_decimal
from tidegate.rows.row import Row

Headers: TypeAlias = list[tuple[str, bytes]]

#: The header of a record whose value was left out.
OVERSIZE_HEADER: Final = "tidegate-oversize"
#: The bytes of a record that the limit does not count: its frame, its provenance header, its batch's header.
RECORD_ROOM: Final = 1_000
#: The limit when the definition names none. Together with ``RECORD_ROOM`` it is what producers accept by
#: default.
DEFAULT_MAX_ROW_BYTES: Final = 1_000_000 - RECORD_ROOM
#: The most bytes of the two lengths in a header, before its name and before its value.
_HEADER_BYTES: Final = 10
#: The bytes of the schema-id prefixes of key and value together.
_FRAMES_BYTES: Final = 10


@dataclass(frozen=True, slots=True)
class Oversize:
    """The content of the header `OVERSIZE_HEADER`: it describes the row whose value was left out.

    ``size_bytes`` is the size of the whole row, as `RowLimit` counts it.
    """

    size_bytes: int
    deleted: bool
    updated: Timestamp
    mvcc_timestamp: Timestamp

    def header(self) -> tuple[str, bytes]:
        """Return the header of the row's record."""
        members = {
            "bytes": self.size_bytes,
            "deleted": self.deleted,
            "mvcc_timestamp": self.mvcc_timestamp.decimal(),
            "updated": self.updated.decimal(),
        }
        return OVERSIZE_HEADER, json.dumps(members, separators=(",", ":")).encode()


def read_oversize(headers: Sequence[tuple[str, bytes | None]]) -> Oversize | None:
    """Return the content of the header `OVERSIZE_HEADER`; ``None`` if ``headers`` do not have this header.

    Raises ``ValueError``, ``TypeError``, ``KeyError`` or ``RecursionError`` for a header that no feed can
    have written.
    """
    texts = [value for name, value in headers if name == OVERSIZE_HEADER]
    if not texts:
        return None
    if len(texts) > 1:
        raise ValueError(f"{len(texts)} headers {OVERSIZE_HEADER}")
    members: dict[str, Any] = json.loads(texts[0] or b"")
    size_bytes, deleted = members["bytes"], members["deleted"]
    if type(size_bytes) is not int or type(deleted) is not bool or size_bytes < 1:
        raise ValueError(f"the header {OVERSIZE_HEADER} is {texts[0]!r}")
    return Oversize(
        size_bytes, deleted, parse_decimal(members["updated"]), parse_decimal(members["mvcc_timestamp"])
    )


@dataclass(frozen=True, slots=True)
class RowLimit:
    """The most bytes that one row of a feed may have, and what is written in place of a larger row.

    The limit counts key and value as they are written, and the headers of the feed and of the row. It does
    not count the header of provenance, which may differ between copies of a row. ``framed`` says that key and
    value get the prefixes of schema ids, which count. ``constants`` are the headers that every row has. The
    row's own headers are left out together with its value.
    """

    max_bytes: int
    framed: bool = False
    constants: tuple[tuple[str, bytes], ...] = ()

    @property
    def room_for_row(self) -> int:
        """The most bytes that key and value may have together if the row has no headers of its own.

        Schema-id prefixes are not counted.
        """
        return self.max_bytes - self._other_bytes(self.constants)

    def applied(
        self, row: Row, timestamp: Timestamp, key: bytes, value: bytes | None, headers: Headers
    ) -> tuple[bytes | None, Headers]:
        """Return the value and the headers that the row's record gets.

        A row within the limit keeps its own. A larger row gets an empty value, the constant headers and the
        header `OVERSIZE_HEADER`. ``timestamp`` is that of the row's version.
        """
        size = len(key) + len(value or b"") + self._other_bytes(headers)
        if size <= self.max_bytes:
            return value, headers
        left_out = Oversize(size, row.values is None, row.updated(timestamp), timestamp)
        return b"", [*self.constants, left_out.header()]

    def _other_bytes(self, headers: Sequence[tuple[str, bytes]]) -> int:
        size = _FRAMES_BYTES if self.framed else 0
        for name, content in headers:
            size += len(name.encode()) + len(content) + _HEADER_BYTES
        return size
