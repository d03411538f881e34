"""VECTOR in values: the number of dimensions in four bytes, then a 32-bit float for each, big endian.

Source: CockroachDB pkg/util/vector/vector.go.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.take import take

_FLOAT_BYTES: Final = 4


def encode_vector(values: Sequence[float]) -> bytes:
    """Encode a vector. Raises `EncodingError` for a number that does not fit 32 bits."""
    try:
        return struct.pack(f">I{len(values)}f", len(values), *values)
    except (struct.error, OverflowError) as error:
        raise EncodingError(f"a VECTOR cannot hold {list(values)}: {error}") from None


def vector_of(data: bytes) -> tuple[float, ...]:
    """Undo `encode_vector`; ``data`` holds nothing else. Raises `EncodingError` when malformed."""
    count, start = take(data, 0, 4)
    dimensions = int.from_bytes(count, "big")
    if dimensions * _FLOAT_BYTES != len(data) - start:
        raise EncodingError(f"a VECTOR of {len(data)} bytes announces {dimensions} dimensions")
    return struct.unpack_from(f">{dimensions}f", data, start)
