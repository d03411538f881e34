"""The records of a key table: their keys, their seals, and the records beside the rows.

| key | value |
|---|---|
| ``00`` ``about`` | JSON: format, feed, table, columns |
| ``00`` ``state`` | JSON: the frontier, the number of rows, the sum of their seals |
| ``r`` and the record's key, reduced if the table's keys are | a row (`value_codec`) |
| ``u`` and a frontier, 12 bytes | how to go back from it to the frontier before |

Each value begins with its *seal*, the CRC-32 of key and value. RocksDB has checksums of its own, of blocks
and logs. The seal covers what happens between: a row under another key, a bit that flips in memory. The
number of rows and the sum of their seals find rows that are gone, or have come again from an older file, when
all rows are read (`KeyTable.snapshot`). A lookup of one key cannot see that its row is gone.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from zlib import crc32

from tidegate.client.subscribe.state.table_directory import TableIdentity
from tidegate.client.subscribe.state.value_codec import read_size, size_bytes
from tidegate.hlc import Timestamp, parse_decimal
from tidegate.subscribe.updates.frontier import ZERO_FRONTIER, Frontier

#: The newest format of these records and of rows. A directory with a newer format is refused; at least the
#: format in its ``about`` can be read. Format 2 is that of tables with rows under reduced keys. All other
#: tables have format 1: for them both formats are the same.
TABLE_FORMAT: Final = 2
_PLAIN_KEYS: Final = 1

ABOUT_KEY: Final = b"\x00about"
STATE_KEY: Final = b"\x00state"
ROW: Final = b"r"
UNDO: Final = b"u"
#: Keys above every key of a row, and of an undo record.
ROWS_END: Final = b"s"
UNDO_END: Final = b"v"

_SEAL: Final = struct.Struct(">I")
_FRONTIER: Final = struct.Struct(">QI")
_SUM_LIMIT: Final = 1 << 64

#: A row as it is stored, seal included; ``None`` for no row.
Stored: TypeAlias = bytes | None


def sealed(key: bytes, content: bytes) -> bytes:
    """Return the seal, and the content after it."""
    return _SEAL.pack(crc32(content, crc32(key))) + content


def unsealed(key: bytes, stored: bytes) -> bytes:
    """Return the content of a sealed value. Raises ``ValueError`` if content and key do not fit the seal."""
    content = stored[4:]
    if stored[:4] != _SEAL.pack(crc32(content, crc32(key))):
        raise ValueError(f"what stands under {key!r:.80} is not what was written")
    return content


@dataclass(slots=True)
class KeyTableState:
    """The frontier of a key table, the number of its rows, and the sum of their seals."""

    frontier: Frontier = ZERO_FRONTIER
    rows: int = 0
    seals: int = 0

    def copy(self) -> KeyTableState:
        """Return a copy that can be changed apart."""
        return KeyTableState(self.frontier, self.rows, self.seals)

    def count(self, before: Stored, after: Stored) -> None:
        """Count that the stored row ``before`` was replaced with ``after``."""
        if before is not None:
            self.rows -= 1
            self.seals -= _SEAL.unpack_from(before)[0]
        if after is not None:
            self.rows += 1
            self.seals += _SEAL.unpack_from(after)[0]
        self.seals %= _SUM_LIMIT

    def to_bytes(self) -> bytes:
        """Encode the state as its sealed record."""
        members = {"frontier": self.frontier.decimal(), "rows": self.rows, "seals": self.seals}
        return sealed(STATE_KEY, _json(members))


def read_state(stored: bytes) -> KeyTableState:
    """Read the sealed record. Raises ``ValueError`` and ``KeyError``."""
    members = json.loads(unsealed(STATE_KEY, stored))
    return KeyTableState(
        Frontier(parse_decimal(members["frontier"])), int(members["rows"]), int(members["seals"])
    )


def about_bytes(identity: TableIdentity) -> bytes:
    """Encode the sealed record that says which feed, table and columns the rows belong to."""
    members = {
        "columns": identity.columns,
        "feed": identity.feed,
        "format": TABLE_FORMAT if identity.reduced_keys else _PLAIN_KEYS,
        "table": identity.table,
    }
    return sealed(ABOUT_KEY, _json(members))


def read_about(stored: bytes) -> tuple[int, TableIdentity]:
    """Return the format and the identity.

    A newer format may have no identity that can be read; then the identity is empty. Raises ``ValueError``
    and ``KeyError``.
    """
    members: dict[str, Any] = json.loads(unsealed(ABOUT_KEY, stored))
    form = int(members["format"])
    if form > TABLE_FORMAT:
        return form, TableIdentity("", "", ())
    columns = tuple(members["columns"])
    return form, TableIdentity(members["feed"], members["table"], columns, form > _PLAIN_KEYS)


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """The record by which a table goes back by one opening: the state before it, and the rows it replaced."""

    before: KeyTableState
    replaced: Sequence[tuple[bytes, Stored]]

    def to_bytes(self, after: Frontier) -> bytes:
        """Encode it as a sealed record; ``after`` is the frontier that the opening reached."""
        pieces = [_sized(self.before.to_bytes())]
        for key, stored in self.replaced:
            pieces += (_sized(key), _sized(b"" if stored is None else stored))
        return sealed(undo_key(after), b"".join(pieces))


def read_undo(key: bytes, stored: bytes) -> UndoRecord:
    """Read the sealed record. Raises ``ValueError``, ``KeyError`` and ``IndexError``."""
    content = unsealed(key, stored)
    pieces, at = [], 0
    while at < len(content):
        size, at = read_size(content, at)
        pieces.append(content[at : at + size])
        at += size
    before, keys, rows = read_state(pieces[0]), pieces[1::2], pieces[2::2]
    return UndoRecord(before, [(each, row or None) for each, row in zip(keys, rows, strict=True)])


def undo_key(after: Frontier) -> bytes:
    """Return the key of the undo record that goes back from frontier ``after``. Keys sort as frontiers do."""
    return UNDO + _FRONTIER.pack(*after)


def undo_frontier(key: bytes) -> Frontier:
    """Return the frontier of the key of an undo record. Raises ``ValueError`` for another key."""
    if len(key) != 1 + _FRONTIER.size:
        raise ValueError(f"no key of an undo record: {key!r:.80}")
    return Frontier(Timestamp(*_FRONTIER.unpack_from(key, 1)))


def _sized(content: bytes) -> bytes:
    return size_bytes(len(content)) + content


def _json(members: dict[str, Any]) -> bytes:
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
