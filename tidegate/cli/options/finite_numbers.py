"""Types of options: finite numbers, and seconds that a program can wait for."""

from __future__ import annotations

import math
from typing import Any, Final

import click

#: 23 days. Things that wait, such as sockets, count milliseconds in 31 bits.
_MOST_S: Final = 2_000_000
#: The longest that librdkafka waits for an administrator's request.
MOST_ANSWER_S: Final = 3_600


class FiniteNumber(click.FloatRange):
    """A number within bounds. It refuses infinity, and NaN, which is within any bounds for click."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See ``click.ParamType``."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Seconds(FiniteNumber):
    """A number of seconds, from 0 to ``most_s``; without 0 if it is ``positive``."""

    name = "seconds"

    def __init__(self, *, positive: bool = False, most_s: float = _MOST_S) -> None:
        super().__init__(min=0, max=most_s, min_open=positive)
