"""The shape of rows of state. A record of a changelog with another shape was written by somebody else.

The shape is checked before the record goes into the local copy, so that a foreign record does not replace a
row. It proves nothing: digests show whether rows are those that were written
(docs/protocols/opening-a-partition.md, step O3).
"""

from __future__ import annotations

import re
from typing import Final

from tidegate.processor.batch import StateTable
from tidegate.processor.state.position_hash import POSITION_KEY

_PIECE: Final = rb"(?:/piece/.{4})?"
_KEYS: Final = {
    StateTable.RANGES: rb".{8}(?:/t|.{4})?" + _PIECE + rb"|" + re.escape(POSITION_KEY) + _PIECE,
    StateTable.INTENTS: rb".{8}.*",
    StateTable.DESCRIPTORS: rb"(?:[hpu].{8}|[dr].{16})" + _PIECE,
    StateTable.FEEDS: rb"[A-Za-z0-9_-]{1,64}" + _PIECE,
}
_SHAPES: Final = {table: re.compile(pattern, re.DOTALL) for table, pattern in _KEYS.items()}
#: First bytes of values: the versions of forms, also those that newer workers may write, and those of pieces.
_FRAMES: Final = frozenset({*range(1, 16), 0xF0, 0xF1})


def is_shaped(table: StateTable, key: bytes | None, value: bytes | None) -> bool:
    """Whether a record of the table's changelog has the shape of a row, or of a row's removal."""
    if key is None or _SHAPES[table].fullmatch(key) is None:
        return False
    return value is None or (value[:1] != b"" and value[0] in _FRAMES)
