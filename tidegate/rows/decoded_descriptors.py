"""Table descriptors that were decoded lately, for all log partitions of a process.

Every log partition has the descriptors of all tables, and tests of equality need them decoded. So most of
them are decoded once. Long ones are not kept: what is decoded takes some 16 times as much as what is stored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.stored_descriptor import decode_descriptor

#: How long the stored form is of a descriptor that is kept, at most, and how many are kept. So short a one
#: has as many columns as it may have.
STORED_BYTES_MAX: Final = 8 << 10
COUNT_MAX: Final = 128
_short: Final = lru_cache(maxsize=COUNT_MAX)(decode_descriptor)


def decoded_descriptor(stored: bytes, *, is_bounded: bool = True) -> TableDescriptor:
    """Return the descriptor of a stored form. Raises as `decode_descriptor` does."""
    if len(stored) <= STORED_BYTES_MAX:
        try:
            return _short(stored)
        except EncodingError:
            if is_bounded:
                raise
    return decode_descriptor(stored, is_bounded=is_bounded)
