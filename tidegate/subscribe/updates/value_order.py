"""The order of SQL values: text by its UTF-8 bytes, NaN above all numbers, NULL where `ValueOrder` says.

Python compares text by code points, which is the order of its UTF-8 bytes. Only a column of JSON can have
values of several types; there each type has its place, so that the order is the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

#: A key to sort a value by.
SortKey: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ValueOrder:
    """A direction, and where NULLs stand: in PostgreSQL by default last if ascending, first if descending."""

    descending: bool = False
    nulls_first: bool = False

    def key(self, value: Any) -> SortKey:
        """Return the key of a value for a sort with ``reverse=self.descending``, which is stable."""
        if value is None:
            return (1 if self.nulls_first == self.descending else -1,)
        return (0, value_key(value))


def value_key(value: Any) -> SortKey:
    """Return the ascending key of a value; NULL is above all others."""
    match value:
        case None:
            return (9,)
        case bool():
            return (1, value)
        case int() | float() | Decimal():
            return (2, 0, value) if value == value else (2, 1)  # NaN
        case str():
            return (3, value)
        case bytes():
            return (4, value)
        case list() | tuple():
            return (5, tuple(map(value_key, value)))
        case dict():
            return (6, tuple(sorted((name, value_key(member)) for name, member in value.items())))
    return (7, type(value).__name__, str(value))


def values_key(values: Sequence[Any]) -> SortKey:
    """Return the ascending key of several values, the first one most significant, NULLs last."""
    return tuple(map(value_key, values))
