"""Keeps URIs that were read: they are needed with every batch of a feed, and when feeds are compared."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

#: A URI may have half a megabyte, so few long ones are kept.
_SHORT: Final = 1_024
_SHORT_KEPT: Final = 4_096
_LONG_KEPT: Final = 64

_T = TypeVar("_T")


def remembered(read: Callable[[str], _T]) -> Callable[[str], _T]:
    """Return a function that does what ``read`` does, and keeps the results.

    It keeps those for the last 4,096 URIs of at most 1,024 characters, and for the last 64 longer URIs.
    """
    short, long = lru_cache(_SHORT_KEPT)(read), lru_cache(_LONG_KEPT)(read)

    @wraps(read)
    def reading(text: str) -> _T:
        return short(text) if len(text) <= _SHORT else long(text)

    return reading
