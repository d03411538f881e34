"""The identities of rows: equal for rows that are the same. They can be keys of a ``dict``.

There are two kinds. By ``row_identity`` 1 and 1.0 are one value, as in SQL: it compares keys. By
``written_identity`` they are two values: it compares the rows of a table. Consumers see rows as text, so a
retraction must have the same text as the row that it retracts. Otherwise consumers keep that row for ever.

Python differs from SQL in three ways: ``True == 1``, NaN is not equal to itself, and lists and objects of
JSON have no hash. Rows without such values are their own identity, which is the common case and costs least.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from decimal import Decimal
from typing import Any, Final

#: Values that are equal exactly where SQL says so, and that are written in one form.
_PLAIN: Final = frozenset({int, str, bytes, type(None)})
_NAN: Final = "NaN"


def row_identity(values: tuple[Any, ...]) -> Hashable:
    """Return the identity of a row, or of some of its values: equal for equal rows. NULL is equal to NULL."""
    if _PLAIN.issuperset(map(type, values)):
        return values
    return tuple([value if type(value) in _PLAIN else _frozen(value) for value in values])


def written_identity(values: tuple[Any, ...]) -> Hashable:
    """Return the identity of a row by what is written of it: equal for rows that have the same text.

    Example: ``Decimal("1.0")`` and ``Decimal("1.00")`` are one value and differ here, and so do two objects
    of JSON whose members stand in another order.
    """
    if _PLAIN.issuperset(map(type, values)):
        return values
    return tuple([value if type(value) in _PLAIN else _written(value) for value in values])


def first_spelled(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return which of two rows of one identity is shown: the one whose text comes first.

    Example: 1 and 1.0 are one value, and 1 is shown. So what is shown does not depend on which of them came
    first.
    """
    return one if one is other or repr(one) <= repr(other) else other


class Spelling:
    """The last thing that rows are sorted by: their text. It is made only to compare rows that are equal.

    So rows that are equal but written differently have an order that does not depend on how they came.
    """

    __slots__ = ("_row",)

    def __init__(self, row: tuple[Any, ...]) -> None:
        self._row = row

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spelling) and (
            self._row is other._row or repr(self._row) == repr(other._row)
        )

    __hash__ = None  # type: ignore[assignment]  # rows are found by their identities

    def __lt__(self, other: Spelling) -> bool:
        return repr(self._row) < repr(other._row)


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


def _written(value: Any) -> Hashable:
    if isinstance(value, Decimal):
        return (Decimal, str(value)) if value == value else (float, _NAN)
    if isinstance(value, float) and value == 0.0 and math.copysign(1.0, value) < 0.0:
        return float, "-0.0"
    if isinstance(value, list | tuple):
        return (list, *map(_written, value))
    if isinstance(value, dict):
        return (dict, *[(name, _written(member)) for name, member in value.items()])
    return _frozen(value)
