"""Tells of a step of a task that takes long, while it runs.

A worker's stall alarm does the same (docs/security.md#time-is-linear). All feeds of the query wait for such
a step, and only this process knows which records the step has.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

#: As long as a worker's `stall_alarm_ms` is by default.
ALARM_S: Final = 60.0
_LOOK_S: Final = 1.0

_log = logging.getLogger("tidegate.spark")


class _Running(NamedTuple):
    partition: int
    records: str
    since: float


class LongSteps:
    """Watches the steps of this Python worker from a thread of its own, which begins with the first step.

    ``clock`` is monotonic and counts seconds.
    """

    def __init__(
        self,
        alarm_s: float = ALARM_S,
        look_s: float = _LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._alarm_s = alarm_s
        self._look_s = look_s
        self._clock = clock
        self._running: dict[int, _Running] = {}  # by the thread of the step
        self._told: dict[int, tuple[_Running, float]] = {}  # the same, and when to tell of it next
        self._thread: threading.Thread | None = None

    @contextmanager
    def watched(self, partition: int, records: str) -> Iterator[None]:
        """Log the step within the ``with`` if it takes long. ``records`` names its records, for people: for
        example ``offsets 5 to 9``.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._look_on, name="long steps", daemon=True)
            self._thread.start()
        me = threading.get_ident()
        self._running[me] = _Running(partition, records, self._clock())
        try:
            yield
        finally:
            del self._running[me]

    def look(self) -> None:
        """Log each step that takes long, and again every ``alarm_s`` seconds. One thread calls this."""
        now = self._clock()
        told: dict[int, tuple[_Running, float]] = {}
        for thread, step in list(self._running.items()):
            last, due = self._told.get(thread, (None, 0.0))
            if last is not step:
                due = step.since + self._alarm_s
            if now >= due:
                due = now + self._alarm_s
                _log.error(
                    "partition %d: a step of %s takes long, %d s so far, and all feeds wait for it; please "
                    "report it with its records",
                    step.partition,
                    step.records,
                    now - step.since,
                )
            told[thread] = step, due
        self._told = told

    def _look_on(self) -> None:
        while True:
            time.sleep(self._look_s)
            self.look()


LONG_STEPS: Final = LongSteps()
