"""The hash at the end of a position's row. It is checked before anything of the row is parsed.

A row that has digests ends with 49 bytes of a fixed layout: the four digests, and the hash of all bytes
before it, each after its tag. Earlier versions stored no digests, so their rows end in another way. The two
kinds stay apart even if one bit or two of a row have changed: most of the five tags are still in their
places.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import StateMismatch
from tidegate.processor.batch import StateTable
from tidegate.processor.state.digest import row_hash

#: The key of the position's row in the ranges table.
POSITION_KEY: Final = b"\x00position"
#: The bytes that the digests and the hash take at the end of a row that has them.
DIGESTS_BYTES: Final = 49
#: The place, in bytes from the end, and the tag of ranges_digest, intents_digest, descriptors_digest,
#: feeds_digest and own_hash.
_TAGS: Final = (
    (DIGESTS_BYTES, b"\x79"),
    (40, b"\x81\x01"),
    (30, b"\x89\x01"),
    (20, b"\x91\x01"),
    (10, b"\x99\x01"),
)
_MOST_TAGS: Final = 3
_HASH_BYTES: Final = 8
_OWN_BYTES: Final = 2 + _HASH_BYTES


def hash_of_position(stored: bytes) -> int:
    """Return the hash of a position's row. ``stored`` has the bytes before the hash."""
    return row_hash(StateTable.RANGES, POSITION_KEY, stored)


def require_own_hash(value: bytes) -> bool:
    """Whether the row has digests. Raises ``StateMismatch`` if it has them and its hash does not fit."""
    found = sum(value[-at : len(value) - at + len(tag)] == tag for at, tag in _TAGS if len(value) > at)
    if found < _MOST_TAGS:
        return False
    stored, own = value[:-_OWN_BYTES], int.from_bytes(value[-_HASH_BYTES:], "little")
    if found < len(_TAGS) or own != hash_of_position(stored):
        raise damaged_position("its hash is another")
    return True


def damaged_position(how: str) -> StateMismatch:
    """Return the error for a position that differs from the one that was written."""
    return StateMismatch(
        f"a partition's position is damaged: {how}. Wipe the data directory to restore the state from its "
        "changelogs"
    )
