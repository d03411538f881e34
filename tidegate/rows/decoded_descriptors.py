"""Keeps table descriptors that were decoded lately, for all log partitions of a process.

Every log partition has the descriptors of all tables, and has to decode them to compare them. So most of them
are decoded only once here. Long ones are not kept: the decoded form takes some 16 times as much memory as the
stored form.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.stored_descriptor import decode_descriptor

#: The most bytes that the stored form of a kept descriptor has, and the most descriptors that are kept. A
#: descriptor as short as this cannot have too many columns.
STORED_BYTES_MAX: Final = 8 << 10
COUNT_MAX: Final = 128
_short: Final = lru_cache(maxsize=COUNT_MAX)(decode_descriptor)


def decoded_descriptor(stored: bytes, *, is_bounded: bool = True) -> TableDescriptor:
    """Return the descriptor of a stored form, as `decode_descriptor` does. Raises the same errors."""
    if len(stored) <= STORED_BYTES_MAX:
        try:
            return _short(stored)
        except EncodingError:
            if is_bounded:
                raise
    return decode_descriptor(stored, is_bounded=is_bounded)
