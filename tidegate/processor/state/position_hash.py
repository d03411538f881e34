"""The hash at the end of a position's row: it is checked before anything of the row is parsed.

A row that has digests ends with 49 bytes of a fixed layout: the four digests and the hash of all bytes before
it, each behind its tag. A row of before there were digests ends otherwise. One bit, or two, that are other
than they were written do not make the one look like the other: of the five tags most are still in place.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import StateMismatch
from tidegate.processor.batch import StateTable
from tidegate.processor.state.digest import row_hash

#: Under this key of the ranges table stands the position.
POSITION_KEY: Final = b"\x00position"
#: What a row that has digests ends with: these, and the hash.
DIGESTS_BYTES: Final = 49
#: (bytes from the end, tag) of ranges_digest, intents_digest, descriptors_digest, feeds_digest and own_hash.
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
    """The hash of a position's row, of which ``stored`` is what stands before the hash."""
    return row_hash(StateTable.RANGES, POSITION_KEY, stored)


def require_own_hash(value: bytes) -> bool:
    """Whether the row has digests; its hash fits then. Raises ``StateMismatch`` where it does not."""
    found = sum(value[-at : len(value) - at + len(tag)] == tag for at, tag in _TAGS if len(value) > at)
    if found < _MOST_TAGS:
        return False
    stored, own = value[:-_OWN_BYTES], int.from_bytes(value[-_HASH_BYTES:], "little")
    if found < len(_TAGS) or own != hash_of_position(stored):
        raise damaged_position("its hash is another")
    return True


def damaged_position(how: str) -> StateMismatch:
    """What is said of a position that is not what was written."""
    return StateMismatch(
        f"a partition's position is damaged: {how}. Wipe the data directory to restore the state from its "
        "changelogs"
    )
