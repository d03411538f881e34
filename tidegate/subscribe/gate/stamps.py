"""The timestamp of a row, read without decoding the row.

A row waits as bytes until it is complete, but whether it is a repeat has to be known when it arrives. In the
wrapped envelope ``updated`` is the last member of the value, so its digits can be cut out of the end.
The text ``"updated": "`` cannot stand within a text of a row, where its quotes have backslashes.
"""

from __future__ import annotations

import re
from typing import Final

from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.record import JsonDecoder, RecordDecoder
from tidegate.hlc import Timestamp

#: Bytes at a value's end that hold the member with the longest timestamp.
_TAIL_BYTES: Final = 48
_UPDATED: Final = re.compile(rb'[{,] ?"updated": ?"([0-9]{1,19})\.([0-9]{10})"\}')


def has_stamp(decoder: RecordDecoder) -> bool:
    """Whether ``stamp`` knows the decoder's values."""
    return (
        isinstance(decoder, JsonDecoder)
        and decoder.envelope is Envelope.WRAPPED
        and not decoder.connect_schema
    )


def stamp(value: bytes | None) -> Timestamp | None:
    """The timestamp at the end of a wrapped value; ``None`` where it is not there, and decoding has to tell.

    Example: ``{"after": null, "updated": "1.0000000002"}`` gives ``Timestamp(1, 2)``.
    """
    if value is None:
        return None
    end = len(value)
    found = _UPDATED.search(value, max(end - _TAIL_BYTES, 0))
    if found is None or found.end() != end:
        return None
    return Timestamp(int(found[1]), int(found[2]))
