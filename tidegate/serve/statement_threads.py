"""Threads that parse statements, so that the event loop can serve other clients at the same time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tidegate.errors import RetryError
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.statement import SubscribeStatement

#: The most characters of a short statement. It takes up to 0.2 s to parse; a statement of 64 KiB takes up to
#: 4 s.
_SHORT: Final = 4_096
#: The most statements of each kind that may wait for their turn or be parsed.
_MOST: Final = 64


class StatementThreads:
    """Parses one short and one long statement at a time. Up to 63 others of each kind wait for their turn.

    Short statements have a thread of their own, so they never wait for long ones. Two threads are enough,
    since Python runs only one of them at a time.
    """

    __slots__ = ("_long", "_short", "_waiting")

    def __init__(self) -> None:
        self._short = ThreadPoolExecutor(1, "short statement")
        self._long = ThreadPoolExecutor(1, "long statement")
        self._waiting = {self._short: 0, self._long: 0}

    async def parse(self, text: str) -> SubscribeStatement:
        """Parse a statement. Raises ``SubscribeStatementError``, and ``RetryError`` if too many wait.

        If a call is cancelled before its turn, its statement is not parsed.
        """
        threads = self._short if len(text) <= _SHORT else self._long
        if self._waiting[threads] >= _MOST:
            raise RetryError(f"{_MOST} statements wait to be parsed, and no more are taken; try later")
        self._waiting[threads] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, parse_subscribe, text)
        finally:
            self._waiting[threads] -= 1

    def close(self) -> None:
        """End the threads once they have parsed the statements that they have begun."""
        for threads in (self._short, self._long):
            threads.shutdown(wait=False, cancel_futures=True)
