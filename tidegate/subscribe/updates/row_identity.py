"""The identity of rows: two rows that are the same have equal ones, which can be keys of a ``dict``.

Python differs from SQL in three ways: ``True == 1``, NaN is not equal to itself, and lists and objects of
JSON have no hash. Rows without such values are their own identity, which is the common case and costs least.
"""

from __future__ import annotations

from collections.abc import Hashable
from decimal import Decimal
from typing import Any, Final

#: Values that are equal exactly where SQL says so.
_PLAIN: Final = frozenset({int, str, bytes, type(None)})
_NAN: Final = "NaN"


def row_identity(values: tuple[Any, ...]) -> Hashable:
    """Return the identity of a row, or of some of its values: equal for equal rows, NULL equal to NULL."""
    if _PLAIN.issuperset(map(type, values)):
        return values
    return tuple([value if type(value) in _PLAIN else _frozen(value) for value in values])


def first_spelled(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the one of two rows of one identity that is shown: that whose text comes first.

    Example: of 1 and 1.0, which are one value, it is 1. So what is shown does not depend on which of them
    came first.
    """
    return one if one is other or repr(one) <= repr(other) else other


def _frozen(value: Any) -> Hashable:
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, Decimal):
        return value if value == value else (float, _NAN)
    if isinstance(value, list | tuple):
        return (list, *map(_frozen, value))
    if isinstance(value, dict):
        return dict, frozenset((name, _frozen(member)) for name, member in value.items())
    if value != value:  # as NaN alone does
        return float, _NAN
    hashable: Hashable = value  # as every other datum is
    return hashable
