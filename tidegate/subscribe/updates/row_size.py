"""Estimates the bytes of memory that a row takes."""

from __future__ import annotations

from collections.abc import Iterable
from operator import methodcaller
from typing import Any, Final

from tidegate.subscribe.updates.update import RowValues

_CONTAINERS: Final = frozenset({list, tuple, dict})
#: The size of an object, as Python tells it.
_own_bytes: Final = methodcaller("__sizeof__")


def row_bytes(row: RowValues) -> int:
    """Return about how many bytes a row takes with its values. A value that it has twice counts twice."""
    own: int = _own_bytes(row)
    return own + values_bytes(row)


def values_bytes(values: Iterable[Any]) -> int:
    """Return about how many bytes values take, such as those of some rows one after the other."""
    values = [*values]
    own: int = sum(map(_own_bytes, values))
    if _CONTAINERS.isdisjoint(map(type, values)):
        return own
    return own + sum(_nested_bytes(value) for value in values if type(value) in _CONTAINERS)


def value_bytes(value: Any) -> int:
    """Return about how many bytes a value takes with its members."""
    nested = _nested_bytes(value) if type(value) in _CONTAINERS else 0
    own: int = _own_bytes(value)
    return own + nested


def _nested_bytes(value: object) -> int:
    """Return about how many bytes the members of a value take, without the value itself."""
    total, waiting = 0, [value]
    while waiting:
        container = waiting.pop()
        members = [*container.keys(), *container.values()] if isinstance(container, dict) else container
        for member in members:  # type: ignore[attr-defined] # a list or a tuple
            total += _own_bytes(member)
            if type(member) in _CONTAINERS:
                waiting.append(member)
    return total
