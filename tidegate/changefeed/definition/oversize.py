"""Rows above a feed's limit of bytes: ``on_oversize='key_only'`` writes them without their values.

Such a record has the row's key, an empty value, and the header `OVERSIZE_HEADER`, which says how large the
row was and which version it is, so that whoever needs the row can fetch it from its source:

    {"bytes":1234567,"deleted":false,"mvcc_timestamp":"1743...0002","updated":"1743...0002"}

The limit is a number of the feed's definition, and the size is a function of the row: so every engine, and
every repetition, decides alike. Empty is another thing than absent: log compaction and upserting readers take
a record without a value for a deletion.
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
#: What a record takes beside what the limit counts: its frame, its provenance header, that of its batch.
RECORD_ROOM: Final = 1_000
#: Where the definition names no limit: with that room, what producers take by default.
DEFAULT_MAX_ROW_BYTES: Final = 1_000_000 - RECORD_ROOM
#: The lengths that stand before the name and the value of a header, at most.
_HEADER_BYTES: Final = 10
#: What a framed key and a framed value begin with, both together.
_FRAMES_BYTES: Final = 10


@dataclass(frozen=True, slots=True)
class Oversize:
    """What the header says. ``size_bytes`` is what the row would have taken, as `RowLimit` counts it."""

    size_bytes: int
    deleted: bool
    updated: Timestamp
    mvcc_timestamp: Timestamp

    def header(self) -> tuple[str, bytes]:
        """The header of the row's record."""
        members = {
            "bytes": self.size_bytes,
            "deleted": self.deleted,
            "mvcc_timestamp": self.mvcc_timestamp.decimal(),
            "updated": self.updated.decimal(),
        }
        return OVERSIZE_HEADER, json.dumps(members, separators=(",", ":")).encode()


def read_oversize(headers: Sequence[tuple[str, bytes | None]]) -> Oversize | None:
    """What the headers say of the row that was left out; ``None`` where they say nothing of one.

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
    """How many bytes a feed's rows may have, and what stands in place of one that has more.

    Counted are key and value as they go out, and the headers of the feed and of the row; the header of
    provenance is not, for copies of a row may differ in it. ``constants`` are the headers that every row
    has: those of the row itself are left out together with its value.
    """

    max_bytes: int
    framed: bool = False
    constants: tuple[tuple[str, bytes], ...] = ()

    def applied(
        self, row: Row, timestamp: Timestamp, key: bytes, value: bytes | None, headers: Headers
    ) -> tuple[bytes | None, Headers]:
        """The value and the headers of the row's record; ``timestamp`` is its version's."""
        size = len(key) + len(value or b"") + (_FRAMES_BYTES if self.framed else 0)
        for name, content in headers:
            size += len(name.encode()) + len(content) + _HEADER_BYTES
        if size <= self.max_bytes:
            return value, headers
        left_out = Oversize(size, row.values is None, row.updated(timestamp), timestamp)
        return b"", [*self.constants, left_out.header()]
