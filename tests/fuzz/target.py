"""A target of fuzzing, and what may come of an input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from tidegate.errors import TidegateError

#: An error's sentence may quote its input in part: twice what `tidegate.errors.brief` leaves of it.
SENTENCE_BYTES: Final = 2_000


class Broken(AssertionError):
    """A target did not do what it promises; the sentence says what."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something that takes bytes of others.

    ``draw`` makes an input from a seeded source alone. ``run`` gives it to what is fuzzed, and raises one of
    ``named`` where it is refused. ``Broken`` is for a promise that does not hold. ``weight`` is its share of
    the time, where others have 1. ``sentence_bytes`` bounds what an error may say.
    """

    name: str
    draw: Callable[[Random], bytes]
    run: Callable[[bytes], object]
    named: tuple[type[TidegateError], ...]
    weight: float = 1
    sentence_bytes: int = SENTENCE_BYTES


def require(holds: bool, sentence: str) -> None:
    """Raise ``Broken`` with the sentence where a promise does not hold."""
    if not holds:
        raise Broken(sentence)
