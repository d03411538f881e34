"""Records that caused an exception nobody foresaw, kept aside for ``tidegate debug refused``.

See docs/security.md#records-that-are-kept-aside.
"""

from __future__ import annotations

import enum
from base64 import b64decode, b64encode
from typing import Any, Final, NamedTuple

from tidegate.errors import InputError

_VERSION: Final = 1
#: The most records of one step that are kept aside.
KEPT_OF_A_STEP: Final = 4


class Source(enum.Enum):
    """The input that a record was read from. A row was read from the log, and has no record of its own."""

    LOG = "log"
    CONTROL = "control"
    HAND_OFFS = "handoff"
    ROW = "row"


class RefusedRow(NamedTuple):
    """The facts that are needed, besides key and value, to decode a row again.

    ``timestamp`` is the row's timestamp, in the form of a cursor. ``previous`` is the value that it replaced.
    ``descriptor`` is that of its table, empty where none was found.
    """

    feed_id: str
    timestamp: str
    previous: bytes | None
    descriptor: bytes


class RefusedRecord(NamedTuple):
    """A record that is kept aside, and the exception that it met.

    ``offset`` is the record's offset in its topic. For a row it is the position in the log before the row's
    step. ``timestamp_ms`` is the record time, 0 if none is known. Key and value of a row are as the store
    wrote them. ``exception`` is the exception's type and place in the code, and ``cause`` is a sentence about
    it.
    """

    source: Source
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    exception: str
    cause: str
    row: RefusedRow | None = None

    @property
    def size(self) -> int:
        """The bytes of its key and value. For a row also those of its previous value and descriptor."""
        row = (b"", b"") if self.row is None else (self.row.previous, self.row.descriptor)
        return sum(len(each or b"") for each in (self.key, self.value, *row))

    def to_json(self) -> dict[str, Any]:
        """Return the stored form. Bytes are in base 64."""
        row = self.row
        return {
            "v": _VERSION,
            "source": self.source.value,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "key": _text(self.key),
            "value": _text(self.value),
            "exception": self.exception,
            "cause": self.cause,
            "row": None
            if row is None
            else [row.feed_id, row.timestamp, _text(row.previous), _text(row.descriptor)],
        }

    @classmethod
    def from_json(cls, stored: Any) -> RefusedRecord:
        """Return the record that ``to_json`` made. Members that this version does not know are passed over.

        Raises ``InputError`` for anything else.
        """
        try:
            return _read(stored)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise InputError(f"This is no record that was kept aside: {error!r}.") from None


def _read(stored: Any) -> RefusedRecord:
    if stored["v"] != _VERSION:
        raise ValueError(f"its version is {stored['v']!r}, and not {_VERSION}")
    row = stored["row"]
    return RefusedRecord(
        Source(stored["source"]),
        int(stored["offset"]),
        int(stored["timestamp_ms"]),
        _bytes(stored["key"]),
        _bytes(stored["value"]),
        str(stored["exception"]),
        str(stored["cause"]),
        None if row is None else _row(*row),
    )


def _row(feed_id: str, timestamp: str, previous: str | None, descriptor: str) -> RefusedRow:
    return RefusedRow(str(feed_id), str(timestamp), _bytes(previous), _bytes(descriptor) or b"")


def _text(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)
