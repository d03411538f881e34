"""Threads that parse statements, so that the event loop goes on for all other clients meanwhile."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tidegate.errors import RetryError
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.statement import SubscribeStatement

#: Characters of a short statement. It takes up to 0.2 s to parse, a statement of 64 KiB up to 4 s.
_SHORT: Final = 4_096
#: The most statements of either kind that may wait for their turn, or be parsed.
_MOST: Final = 64


class StatementThreads:
    """Parses one short and one long statement at a time; others wait for their turn, 63 of either kind.

    Short statements have a thread of their own: nobody waits for the long ones of others. Two threads are
    enough, since Python runs one of them at a time.
    """

    __slots__ = ("_long", "_short", "_waiting")

    def __init__(self) -> None:
        self._short = ThreadPoolExecutor(1, "short statement")
        self._long = ThreadPoolExecutor(1, "long statement")
        self._waiting = {self._short: 0, self._long: 0}

    async def parse(self, text: str) -> SubscribeStatement:
        """Parse a statement. Raises ``SubscribeStatementError``, and ``RetryError`` if too many wait.

        A call that is cancelled before its turn takes no time of the thread.
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
        """End the threads once they have parsed what they have begun."""
        for threads in (self._short, self._long):
            threads.shutdown(wait=False, cancel_futures=True)
