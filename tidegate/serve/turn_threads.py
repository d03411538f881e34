"""Threads that take turns: a statement that takes long holds up no other client.

Some threads make batches for all clients. Few of them work at a time, since Python runs one of them anyway. A
piece of work that pauses (`pause`) after its time gives its turn to the one that has waited longest.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

_Args = ParamSpec("_Args")
_Made = TypeVar("_Made")

#: How long a turn lasts while others wait.
TURN_S: Final = 0.02


class TurnThreads(ThreadPoolExecutor):
    """Begins up to ``begun`` pieces of work, of which ``working`` work at a time."""

    def __init__(self, begun: int, working: int, name: str) -> None:
        super().__init__(begun, name)
        self._lock = threading.Lock()
        self._free = [0] * working
        self._waiting: deque[threading.Event] = deque()
        self._turn = threading.local()

    def beside(self, begun: int, name: str) -> TurnThreads:
        """Return threads that begin other work, and take turns with these: of both, ``working`` work."""
        threads = TurnThreads(begun, 0, name)
        threads._lock, threads._free = self._lock, self._free
        threads._waiting, threads._turn = self._waiting, self._turn
        return threads

    def submit(
        self, fn: Callable[_Args, _Made], /, *args: _Args.args, **kwargs: _Args.kwargs
    ) -> Future[_Made]:
        """Have a thread call a function in its turn."""
        return super().submit(self._in_turn, fn, *args, **kwargs)  # type: ignore[arg-type]

    def pause(self) -> None:
        """Let others go on if this thread has a turn that has lasted long enough."""
        begun = getattr(self._turn, "begun", None)
        if begun is not None and self._waiting and time.monotonic() - begun >= TURN_S:
            self._end_turn()
            self._begin_turn()

    def _in_turn(self, fn: Callable[..., _Made], *args: object, **kwargs: object) -> _Made:
        self._begin_turn()
        try:
            return fn(*args, **kwargs)
        finally:
            self._end_turn()

    def _begin_turn(self) -> None:
        with self._lock:
            if self._free:
                self._free.pop()
                mine = None
            else:
                mine = threading.Event()
                self._waiting.append(mine)
        if mine is not None:
            mine.wait()  # whoever ends a turn gives it away
        self._turn.begun = time.monotonic()

    def _end_turn(self) -> None:
        self._turn.begun = None
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free.append(0)
