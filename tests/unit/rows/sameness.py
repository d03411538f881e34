"""Equality of datums as far as an encoding can keep them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tidegate.rows import Json


def exact(datum: Any) -> Any:
    """A form in which equal means identical: the scale of decimals, the sign of zero, NaN equal to itself."""
    if isinstance(datum, Decimal):
        return str(datum)
    if isinstance(datum, float):
        return repr(datum)
    if isinstance(datum, Json):
        return "json", exact(datum.value)
    if isinstance(datum, dict):
        return [(name, exact(datum[name])) for name in sorted(datum)]
    if type(datum) in (tuple, list):
        return [exact(element) for element in datum]
    return type(datum).__name__, datum
