"""Composite columns: key columns whose key form cannot rebuild the datum, and so are written twice.

The second time they stand in the row's value, and only in rows that need it: every collated string,
negative zero, decimals that end in a zero. Source: CockroachDB docs/tech-notes/encoding.md (composite
encoding), pkg/sql/sem/tree (CompositeDatum).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

from tidegate.rows.types import Kind, SqlType

NeedsValueForm: TypeAlias = Callable[[Any], bool]


def needs_value_form(sql_type: SqlType) -> NeedsValueForm | None:
    """A test whether a key datum must be written in the value too; ``None`` where none ever must."""
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
