"""DECIMAL(p,s) as whole numbers of units in the last place, as Avro and Kafka Connect write them."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation, Rounded
from functools import lru_cache
from typing import Final

#: The most digits that are written, whatever precision a column declares. A number is a few bytes in a row,
#: ``1E+999000`` for example, and n digits in a record, which take n * n to be made.
DIGITS_MAX: Final = 4_096
_SHORT: Final = 64  # digits up to which the decimal module is the fastest


class Unscaler:
    """Turns decimals of a declared precision and scale into whole numbers."""

    __slots__ = ("_context", "_digits", "_scale", "_unit", "cuts_zeros")

    def __init__(self, precision: int, scale: int, *, cuts_zeros: bool) -> None:
        """With ``cuts_zeros`` 1.50 fits a scale of 1."""
        self.cuts_zeros = cuts_zeros
        self._digits = min(precision, DIGITS_MAX)
        self._scale = scale
        self._unit = Decimal((0, (1,), -scale))
        self._context = Context(
            prec=self._digits, traps=[InvalidOperation, Inexact if cuts_zeros else Rounded]
        )

    def __call__(self, value: Decimal) -> int | None:
        """The number of units in a finite decimal; ``None`` when it does not fit."""
        if self._digits > _SHORT:
            return self._long(value)
        try:
            exact = self._context.quantize(value, self._unit)
        except (InvalidOperation, Inexact, Rounded):
            return None
        return int(exact.scaleb(self._scale, self._context))

    def _long(self, value: Decimal) -> int | None:
        """The same for many digits: they are multiplied, for the decimal module takes n * n to turn them."""
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
