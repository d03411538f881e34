"""Composite columns: columns of a key whose datum cannot always be read back from the key.

Such a datum is written to the value too, but only if it is needed: for a collated string, a negative zero, or
a decimal that ends in a zero. For example, 1.50 and 1.5 have the same key form. Source: CockroachDB
docs/tech-notes/encoding.md (composite encoding), pkg/sql/sem/tree (CompositeDatum).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

from tidegate.rows.types import Kind, SqlType

NeedsValueForm: TypeAlias = Callable[[Any], bool]


def needs_value_form(sql_type: SqlType) -> NeedsValueForm | None:
    """Return a test that says whether a key datum must be written to the value too.

    Return ``None`` for a type whose datums are never written to the value too.
    """
    if sql_type.kind is not Kind.ARRAY:
        return _TESTS.get(sql_type.kind)
    element = needs_value_form(sql_type.element) if sql_type.element else None
    if element is None:
        return None
    return lambda array: any(item is not None and element(item) for item in array)


def _always(_text: str) -> bool:
    return True


def _is_negative_zero(value: float) -> bool:
    return value == 0 and math.copysign(1, value) < 0


def _ends_in_zero(value: Decimal) -> bool:
    return value.is_finite() and value.as_tuple().digits[-1] == 0


_TESTS: Final[dict[Kind, NeedsValueForm]] = {
    Kind.COLLATED_STRING: _always,
    Kind.FLOAT: _is_negative_zero,
    Kind.DECIMAL: _ends_in_zero,
}
