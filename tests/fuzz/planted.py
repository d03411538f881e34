"""Targets with defects, on which the engines show that they find something."""

from __future__ import annotations

import os
from random import Random
from typing import Final

from tests.fuzz.target import Target
from tidegate.errors import MalformedEntry


def _behind_a_word(data: bytes) -> None:
    """Break behind eight letters. Chance does not find them; what code compares an input with leads there."""
    if len(data) < 8:
        raise MalformedEntry("too short")
    if data[:8] != b"planted!":
        raise MalformedEntry("another word")
    raise IndexError("planted")


def _ends_the_process(data: bytes) -> None:
    if data:
        os._exit(3)


def _draw(chance: Random) -> bytes:
    return chance.randbytes(8)


_ALL: Final = (
    Target("word", _draw, _behind_a_word, (MalformedEntry,)),
    Target("ends", _draw, _ends_the_process, ()),
    Target("sound", _draw, len, ()),
)
TARGETS: Final = {target.name: target for target in _ALL}
