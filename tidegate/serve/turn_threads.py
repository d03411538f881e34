"""Threads that take turns, so that a statement that takes long does not hold up other clients.

Some threads make batches for all clients. Few of them work at a time, since Python runs only one of them
anyway. A long piece of work calls `Turns.pause` now and then. If its turn has lasted long enough, it gives
the turn to the thread that has waited longest.
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

#: The time after which a thread gives its turn away if others wait.
TURN_S: Final = 0.02


class Turns:
    """The turns of several pools of threads: at most ``working`` of all their threads work at a time."""

    def __init__(self, working: int) -> None:
        self._lock = threading.Lock()
        self._free = working
        self._turn = threading.local()
        #: Threads that wait for their turn, the first one first.
        self.waiting: deque[threading.Event] = deque()

    def begin(self) -> None:
        """Wait for a turn of this thread."""
        mine: threading.Event | None = None
        with self._lock:
            if self._free:
                self._free -= 1
            else:
                mine = threading.Event()
                self.waiting.append(mine)
        if mine is not None:
            mine.wait()  # the thread that ends a turn gives it to this one
        self._turn.begun = time.monotonic()

    def end(self) -> None:
        """End this thread's turn. The thread that has waited longest begins its turn."""
        self._turn.begun = None
        with self._lock:
            if self.waiting:
                self.waiting.popleft().set()
            else:
                self._free += 1

    def pause(self) -> None:
        """Let others go on if this thread has a turn that has lasted long enough."""
        begun = getattr(self._turn, "begun", None)
        if begun is not None and self.waiting and time.monotonic() - begun >= TURN_S:
            self.end()
            self.begin()


class TurnThreads(ThreadPoolExecutor):
    """Begins up to ``begun`` pieces of work at a time. They take turns with each other and with other pools.

    Attributes:
        turns: the turns that they take.
    """

    def __init__(self, begun: int, turns: Turns, name: str) -> None:
        super().__init__(begun, name)
        self.turns = turns

    def submit(
        self, fn: Callable[_Args, _Made], /, *args: _Args.args, **kwargs: _Args.kwargs
    ) -> Future[_Made]:
        """Let a thread call a function in its turn."""
        return super().submit(self._in_turn, fn, *args, **kwargs)  # type: ignore[arg-type]

    def _in_turn(self, fn: Callable[..., _Made], *args: object, **kwargs: object) -> _Made:
        self.turns.begin()
        try:
            return fn(*args, **kwargs)
        finally:
            self.turns.end()
