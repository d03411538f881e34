"""The job of every contender: give each change record the row that it replaces.

The input is what a feed in the wrapped envelope writes. The output is what the same feed writes with the
option ``diff``, byte for byte::

    {"after": {"id": 7}, "updated": "1"}
    {"after": {"id": 7}, "before": {"id": 6}, "updated": "1"}

Records are cut and not parsed, so that a contender's figure is the cost of its reading, its state and its
writing. Peers run in environments of their own: this module imports nothing beyond the standard library.
"""

from __future__ import annotations

from typing import Final

_AFTER: Final = b'{"after": '
_BEFORE: Final = b', "before": '
_UPDATED: Final = b', "updated": '
_NO_ROW: Final = b"null"


def with_row_before(value: bytes, before: bytes | None) -> tuple[bytes, bytes]:
    """Return the record with the row ``before`` it, and the record's own row, which becomes the state of its
    key."""
    cut = value.rindex(_UPDATED)
    return b"".join((value[:cut], _BEFORE, before or _NO_ROW, value[cut:])), value[len(_AFTER) : cut]


def without_row_before(value: bytes) -> bytes:
    """Return the record as the feed writes it without ``diff``."""
    return value[: value.rindex(_BEFORE)] + value[value.rindex(_UPDATED) :]
