"""Stored state with any one bit flipped is refused, so that it is built again: nothing of it is misread."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pytest

from tests.unit.processor.driving import Driven, StoredState, vouched, without_digests
from tests.unit.processor.stored_states import STATES
from tidegate.errors import StateError, StateMismatch
from tidegate.processor.batch import StateTable
from tidegate.processor.state.position_hash import POSITION_KEY

_SEED: Final = 8
#: How many bits of a state are flipped in `make test`; in `make soak` all of them are.
_SAMPLE: Final = 500
_MOST: Final = pytest.mark.parametrize(
    "most", [_SAMPLE, pytest.param(None, marks=pytest.mark.soak)], ids=["some bits", "all bits"]
)


class Flip(NamedTuple):
    """A bit of a row's key or value."""

    table: StateTable
    key: bytes
    in_key: bool
    byte: int
    bit: int

    def of(self, state: StoredState) -> StoredState:
        """The state with the bit flipped."""
        others = dict(state)
        key, value = self.key, others.pop((self.table, self.key))
        flipped = bytearray(key if self.in_key else value)
        flipped[self.byte] ^= 1 << self.bit
        key, value = (bytes(flipped), value) if self.in_key else (key, bytes(flipped))
        return {**others, (self.table, key): value}


def _every_flip(state: StoredState) -> Iterator[Flip]:
    for (table, key), value in state.items():
        for in_key, stored in ((True, key), (False, value)):
            for byte in range(len(stored)):
                for bit in range(8):
                    yield Flip(table, key, in_key, byte, bit)


def _flips(state: StoredState, most: int | None) -> list[Flip]:
    """A seeded sample of so many, or all of them."""
    flips = list(_every_flip(state))
    return flips if most is None else random.Random(_SEED).sample(flips, min(most, len(flips)))


def test_the_states_have_every_kind_of_row() -> None:
    kinds = Counter((table, len(key)) for state in STATES.values() for table, key in state)
    ranges = {length for table, length in kinds if table is StateTable.RANGES}
    own, told, chunk, position = 8, 10, 12, len(POSITION_KEY)
    assert {own, told, chunk, position} <= ranges
    assert {table for table, _ in kinds} == set(StateTable)


@_MOST
@pytest.mark.parametrize("name", STATES)
def test_a_state_with_any_one_bit_flipped_is_refused(name: str, most: int | None) -> None:
    state = STATES[name]
    Driven.restored(state)
    for flip in _flips(state, most):
        with pytest.raises(StateMismatch):
            print(f"seed {_SEED}, taken: {flip}", Driven.restored(flip.of(state)))


@pytest.mark.sampled(4)
@_MOST
@pytest.mark.parametrize("vouch", [vouched, without_digests], ids=["hostile digests", "no digests"])
@pytest.mark.parametrize("name", [name for name in STATES if name != "pieces"])
def test_a_row_that_no_digest_tells_of_is_read_or_refused_and_nothing_else_is_raised(
    name: str, vouch: Callable[[StoredState], StoredState], most: int | None
) -> None:
    state = STATES[name]
    for flip in _flips(state, most):
        if flip.key != POSITION_KEY and (flipped := vouch(flip.of(state))):
            try:
                Driven.restored(flipped)
            except StateError:
                continue
