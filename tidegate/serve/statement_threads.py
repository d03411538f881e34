"""Threads that parse statements, so that the event loop goes on for all other clients meanwhile."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.statement import SubscribeStatement

#: Characters of a short statement. It takes up to 0.1 s to parse, a statement of 64 KiB up to 2 s.
_SHORT: Final = 4_096


class StatementThreads:
    """Parses one short and one long statement at a time; others wait for their turn.

    Short statements have a thread of their own: nobody waits for the long ones of others. Two threads are
    enough, since Python runs one of them at a time.
    """

    __slots__ = ("_long", "_short")

    def __init__(self) -> None:
        self._short = ThreadPoolExecutor(1, "short statement")
        self._long = ThreadPoolExecutor(1, "long statement")

    async def parse(self, text: str) -> SubscribeStatement:
        """Parse a statement. Raises ``SubscribeStatementError``.

        A call that is cancelled before its turn takes no time of the thread.
        """
        threads = self._short if len(text) <= _SHORT else self._long
        return await asyncio.get_running_loop().run_in_executor(threads, parse_subscribe, text)

    def close(self) -> None:
        """End the threads once they have parsed what they have begun."""
        for threads in (self._short, self._long):
            threads.shutdown(wait=False, cancel_futures=True)
