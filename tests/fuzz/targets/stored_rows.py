"""Rows of stored state: one of them is another one, and whoever stored it may have vouched for it.

An input begins with the number of a state, that of a row in it, and how it was vouched for; then the row's
key and value.
"""

from __future__ import annotations

from random import Random
from typing import Final

from tests.fuzz.mutators import damaged
from tests.fuzz.parts import joined, two
from tests.fuzz.target import Target
from tests.fuzz.targets.log_entries import RECORDS
from tests.fuzz.targets.whole_step import after
from tests.unit.processor.driving import Driven, StoredState, vouched, without_digests
from tidegate.errors import StateError
from tidegate.processor.batch import StateTable
from tidegate.processor.state.position_hash import POSITION_KEY

_POSITION: Final = (StateTable.RANGES, POSITION_KEY)
_STATES: Final[tuple[StoredState, ...]] = tuple(
    after(RECORDS[:count]) for count in (3, 5, 9, 12, 13, len(RECORDS))
)
_HEAD_BYTES: Final = 3
_AS_IT_IS, _VOUCHED, _OLD = range(3)


def _draw(chance: Random) -> bytes:
    number = chance.randrange(len(_STATES))
    state = _STATES[number]
    place = chance.randrange(len(state))
    (_, key), value = sorted(state.items(), key=repr)[place]
    key = damaged(chance, key) if chance.random() < 0.2 else key
    how = chance.choice((_AS_IT_IS, _VOUCHED, _VOUCHED, _OLD))
    return bytes((number, place, how)) + joined((key, damaged(chance, value)))


def _run(data: bytes) -> None:
    number, place, how = data[:_HEAD_BYTES].ljust(_HEAD_BYTES, b"\0")
    key, value = two(data[_HEAD_BYTES:])
    state = dict(_STATES[number % len(_STATES)])
    table, old_key = sorted(state, key=lambda each: repr((each, state[each])))[place % len(state)]
    del state[table, old_key]
    state[table, key or b""] = value or b""
    Driven.restored(_as_stored(state, how))


def _as_stored(state: StoredState, how: int) -> StoredState:
    """The position itself has a hash of its own, which nobody makes fit."""
    try:
        if how == _VOUCHED:
            return vouched(state)
        return without_digests(state) if how == _OLD else state
    except KeyError:
        return state


TARGETS: Final = (Target("stored-rows", _draw, _run, (StateError,)),)
