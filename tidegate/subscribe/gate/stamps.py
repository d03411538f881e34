"""The timestamps of rows, read without decoding the rows.

A row waits as bytes until it is complete, but the gate has to know when the row arrives whether it is a
repeat. In the wrapped envelope ``updated`` is the last member of the value, so its digits can be cut out of
the value's end. The text ``"updated": "`` cannot be a part of a row's text: quotes have backslashes there.

Almost all values end in 46 characters that differ only in 29 digits. These ends are read for a whole batch in
one go. All other values are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.hlc import MAX, MAX_LOGICAL, Timestamp
from tidegate.subscribe.gate.row_chunk import IntColumn, Mask

#: Bytes at a value's end that hold the member with the longest timestamp.
_TAIL_BYTES: Final = 48
_UPDATED: Final = re.compile(rb'[{,] ?"updated": ?"([0-9]{1,19})\.([0-9]{10})"\}')
#: The usual end: ``before``, 19 digits, a point, 10 digits, and what closes the value.
_BEFORE: Final = b', "updated": "'
_WALL, _LOGICAL = slice(14, 33), slice(34, 44)
_END_BYTES: Final = 46
_FRAME: Final = np.frombuffer(_BEFORE + b"." + b'"}', np.uint8)
_FRAMED: Final = np.array([*range(14), 33, 44, 45])
_WALL_POWERS: Final = 10 ** np.arange(18, -1, -1, dtype=np.int64)
_LOGICAL_POWERS: Final = 10 ** np.arange(9, -1, -1, dtype=np.int64)
_ZERO, _NINE = ord("0"), ord("9")


def has_stamp(decoder: RecordDecoder) -> bool:
    """Whether ``stamp`` can read the timestamps of the values that this decoder decodes."""
    return (
        isinstance(decoder, JsonDecoder)
        and decoder.envelope is Envelope.WRAPPED
        and not decoder.connect_schema
    )


def stamp(value: bytes | None) -> Timestamp | None:
    """Return the timestamp at the end of a wrapped value; ``None`` if it is not there, and the value has to
    be decoded to find it.

    Example: ``{"after": null, "updated": "1.0000000002"}`` gives ``Timestamp(1, 2)``.
    """
    if value is None:
        return None
    end = len(value)
    found = _UPDATED.search(value, max(end - _TAIL_BYTES, 0))
    if found is None or found.end() != end:
        return None
    wall, logical = int(found[1]), int(found[2])
    return Timestamp(wall, logical) if wall <= MAX.wall and logical <= MAX_LOGICAL else None


def usual_stamps(values: Sequence[bytes | None]) -> tuple[IntColumn, IntColumn, Mask]:
    """Return the wall and logical parts of wrapped values' timestamps, and the mask of the values that could
    be read.

    The values that could not be read have zeros. They have to be read with ``stamp``.
    """
    ends = [b"" if value is None else value[-_END_BYTES:] for value in values]
    whole = np.fromiter(map(len, ends), np.int64, len(ends)) == _END_BYTES
    if not whole.all():
        ends = [end if len(end) == _END_BYTES else bytes(_END_BYTES) for end in ends]
    text = np.frombuffer(b"".join(ends), np.uint8).reshape(len(ends), _END_BYTES)
    walls, logicals = text[:, _WALL], text[:, _LOGICAL]
    # A wall that begins with 9 may not fit into 64 bits.
    known = whole & (text[:, _FRAMED] == _FRAME).all(axis=1) & (walls[:, 0] < _NINE)
    for digits in (walls, logicals):
        known &= ((digits >= _ZERO) & (digits <= _NINE)).all(axis=1)
    if not known.any():
        return np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64), known
    wall = (walls - _ZERO).astype(np.int64) @ _WALL_POWERS
    logical = (logicals - _ZERO).astype(np.int64) @ _LOGICAL_POWERS
    known &= logical <= MAX_LOGICAL
    wall[~known] = logical[~known] = 0
    return wall, logical, known
