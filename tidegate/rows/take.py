"""Reads bytes of a given size, and notices the end of the buffer.

A slice beyond the end of a buffer is shorter and raises no error. So decoders use these functions wherever
a size is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tidegate.errors import EncodingError

#: Encodes one datum. Its Python type is the one that `tidegate.rows.types` lists for its SQL type.
Encode: TypeAlias = Callable[[Any], bytes]
#: Reads one datum at a position; returns it and the position after it. Raises `EncodingError`.
Decode: TypeAlias = Callable[[bytes, int], tuple[Any, int]]


def take(buffer: bytes, position: int, size: int) -> tuple[bytes, int]:
    """Return ``size`` bytes from ``position`` on, and the position after them.

    Raises `EncodingError` if there are fewer.
    """
    end = position + size
    if end > len(buffer):
        missing = end - len(buffer)
        raise EncodingError(f"the bytes end {missing} short of the {size} announced at offset {position}")
    return buffer[position:end], end


def marker_at(buffer: bytes, position: int) -> int:
    """Return the byte at ``position``. Raises `EncodingError` at the end of the buffer."""
    if position >= len(buffer):
        raise EncodingError(f"the bytes end at offset {position}, where a datum should begin")
    return buffer[position]
