"""Keeps the Kafka clients from filling the log: while a broker is away, they log it many times a second."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

AGAIN_S: Final = 10.0
_KINDS_MAX: Final = 1_000  # when so many are known, all are forgotten; then the next line of each is written
_NUMBERS: Final = re.compile(r"\d+")


@dataclass(slots=True)
class _Kind:
    due_s: float
    passed_over: int = 0


class RepeatedLines(logging.Filter):
    """A filter for a handler. Of all lines that are alike it lets one pass in ``again_s`` seconds.

    The line that passes says how many were dropped before it. Lines are alike if logger and level are equal,
    and their texts differ only in numbers. Example: "broker 1 is down" and "broker 2 is down" are alike. Only
    loggers whose names begin with one of ``loggers`` are filtered; all other lines pass.
    """

    def __init__(
        self, loggers: tuple[str, ...], again_s: float = AGAIN_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._loggers = loggers
        self._again_s = again_s
        self._clock = clock
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write the line."""
        if not record.name.startswith(self._loggers):
            return True
        text = record.getMessage()
        kind = record.name, record.levelno, _NUMBERS.sub("0", text)
        known = self._kinds.get(kind)
        now_s = self._clock()
        if known is not None and now_s < known.due_s:
            known.passed_over += 1
            return False
        if known is not None and known.passed_over:
            record.msg, record.args = f"{text} (and {known.passed_over} times before this)", ()
        if len(self._kinds) >= _KINDS_MAX:
            self._kinds.clear()
        self._kinds[kind] = _Kind(now_s + self._again_s)
        return True
