"""The end of a position's row shows whether it has a hash, and the hash whether the row was written so."""

from __future__ import annotations

from typing import Final

import pytest

from tidegate.errors import StateMismatch
from tidegate.processor.state.digest import TableDigests
from tidegate.processor.state.position_hash import DIGESTS_BYTES, hash_of_position, require_own_hash
from tidegate.processor.state.state_codec import Position, position_row
from tidegate.raftlog.entry import Offset

_OFFSET: Final = Offset(300)
#: The places of the five tags, in bytes from the end.
_PLACES: Final = (DIGESTS_BYTES, 40, 30, 20, 10)


_DIGESTS: Final = TableDigests(1, 2, 3, 4)


def _row(digests: TableDigests | None = _DIGESTS) -> bytes:
    value = position_row(Position(_OFFSET, digests=digests)).value
    assert value is not None
    return value


def _without_tags(count: int, first: int = 0) -> bytes:
    stored = bytearray(_row())
    for place in _PLACES[first : first + count]:
        stored[-place] ^= 0x40
    return bytes(stored)


def test_a_row_with_digests_has_a_hash_and_one_without_has_none() -> None:
    assert require_own_hash(_row())
    assert not require_own_hash(_row(None))
    assert not require_own_hash(b"")


@pytest.mark.parametrize("place", range(1, DIGESTS_BYTES + 4))
def test_a_row_with_any_other_byte_is_damaged(place: int) -> None:
    stored = bytearray(_row())
    stored[-place] ^= 1
    with pytest.raises(StateMismatch, match="its hash is another"):
        require_own_hash(bytes(stored))


@pytest.mark.parametrize("first", range(4))
def test_a_row_with_most_of_its_tags_is_one_that_has_digests(first: int) -> None:
    with pytest.raises(StateMismatch, match="its hash is another"):
        require_own_hash(_without_tags(2, first))


@pytest.mark.parametrize("first", range(3))
def test_a_row_with_few_of_these_tags_is_that_of_an_earlier_version(first: int) -> None:
    assert not require_own_hash(_without_tags(3, first))


def test_a_hash_that_fits_makes_no_row_whole_that_lacks_a_tag() -> None:
    stored = _without_tags(1)[:-8]
    with pytest.raises(StateMismatch, match="its hash is another"):
        require_own_hash(stored + hash_of_position(stored[:-2]).to_bytes(8, "little"))


def test_a_row_that_has_nothing_before_its_digests_is_damaged() -> None:
    stored = _row()[-DIGESTS_BYTES:-8]
    with pytest.raises(StateMismatch, match="its hash is another"):
        require_own_hash(stored + hash_of_position(stored[:-2]).to_bytes(8, "little"))
