"""Numbers without a scale, as Materialize has them: 1.0 and 1.00 are 1."""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final

#: A context that rounds nothing.
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def without_scales(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the row with numbers that have no zeros at their end.

    Arrays and JSON stay as they are.

    Example: ``1.50`` becomes ``1.5``, and ``100`` becomes ``1E+2``, which is written as ``100``.
    """
    if Decimal not in map(type, row):
        return row
    return tuple([_scaleless(value) if type(value) is Decimal else value for value in row])


def _scaleless(number: Decimal) -> Decimal:
    return _EXACT.normalize(number) if number.is_finite() else number
