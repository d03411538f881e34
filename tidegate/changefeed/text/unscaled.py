"""DECIMAL(p,s) as whole numbers of units in the last place, as Avro and Kafka Connect have them.

For example, 1.5 in a DECIMAL(5,2) is 150.
"""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation, Rounded
from functools import lru_cache
from typing import Final

#: The most digits that are written, whatever precision a column declares. A number that has a few bytes in a
#: row, such as ``1E+999000``, may have n digits in a record. To make them takes time that grows as n * n.
DIGITS_MAX: Final = 4_096
_SHORT: Final = 64  # up to so many digits the decimal module is fastest


class Unscaler:
    """Turns decimals of a declared precision and scale into whole numbers."""

    __slots__ = ("_context", "_digits", "_scale", "_unit", "cuts_zeros")

    def __init__(self, precision: int, scale: int, *, cuts_zeros: bool) -> None:
        """``cuts_zeros`` lets 1.50 fit a scale of 1."""
        self.cuts_zeros = cuts_zeros
        self._digits = min(precision, DIGITS_MAX)
        self._scale = scale
        self._unit = Decimal((0, (1,), -scale))
        self._context = Context(
            prec=self._digits, traps=[InvalidOperation, Inexact if cuts_zeros else Rounded]
        )

    def __call__(self, value: Decimal) -> int | None:
        """Return the number of units in a finite decimal; ``None`` when it does not fit."""
        if self._digits > _SHORT:
            return self._long(value)
        try:
            exact = self._context.quantize(value, self._unit)
        except (InvalidOperation, Inexact, Rounded):
            return None
        return int(exact.scaleb(self._scale, self._context))

    def _long(self, value: Decimal) -> int | None:
        """Return what ``__call__`` returns, for a declared precision of many digits.

        This multiplies whole numbers, because the decimal module takes time that grows as n * n.
        """
        if not value:
            return 0
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        shift = exponent + self._scale
        if shift < 0 and not self.cuts_zeros:
            return None
        if value.adjusted() + self._scale + 1 > self._digits or len(digits) > DIGITS_MAX:
            return None
        coefficient = int("".join(map(str, digits)))
        if shift >= 0:
            number = coefficient * _power(shift)
        else:
            number, rest = divmod(coefficient, _power(min(-shift, len(digits))))
            if rest:
                return None
        return -number if sign else number


@lru_cache(maxsize=256)
def _power(exponent: int) -> int:
    return int(10**exponent)
