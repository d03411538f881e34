"""Numbers as text: a ``Decimal`` has no exponent unless it is very long. NaN and infinities have names."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

#: The most digits in front of a number's point or after it. A longer ``Decimal`` is written with an exponent.
_MOST_DIGITS: Final = 1_000


def number_text(value: float | Decimal) -> str:
    """Return the number's text, with all its digits.

    Example: ``Decimal("1E+1")`` is ``10``, the float ``0.5`` is ``0.5``, an infinity is ``-Infinity``.
    """
    if not is_finite(value):
        return not_finite_name(value)
    if isinstance(value, float):
        return repr(value)
    return format(value, "f") if abs(value.adjusted()) <= _MOST_DIGITS else str(value)


def is_finite(value: float | Decimal) -> bool:
    """Whether a number is neither NaN nor an infinity. A ``Decimal`` is not made a float for this: no float
    is large enough for every finite ``Decimal``."""
    return value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)


def not_finite_name(value: float | Decimal) -> str:
    """Return the name of NaN or of an infinity, as PostgreSQL writes it."""
    if value.is_nan() if isinstance(value, Decimal) else math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
