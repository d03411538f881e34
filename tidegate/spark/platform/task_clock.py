"""Measures where the time of a task goes, by stage."""

from __future__ import annotations

from time import perf_counter, process_time
from typing import Final

#: load: reading the state, and the log again for the backlog of ranges. read: waiting for records from Spark,
#: and making Python objects of them. step: the partition processor. produce: handing rows over. wait: until
#: all are acknowledged. store: writing the changes of the state.
STAGES: Final = ("load", "read", "step", "produce", "wait", "store")


class TaskClock:
    """A clock that counts a task's seconds by stage from its creation on; ``lap`` ends a stage.

    ``cpu_s`` is processor time, which includes that of the producers' own threads.
    """

    __slots__ = ("_cpu", "_last", "cpu_s", "seconds")

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.cpu_s = dict.fromkeys(STAGES, 0.0)
        self._last, self._cpu = perf_counter(), process_time()

    def lap(self, stage: str) -> None:
        """Count the time since the last lap as time of ``stage``."""
        now, cpu = perf_counter(), process_time()
        self.seconds[stage] += now - self._last
        self.cpu_s[stage] += cpu - self._cpu
        self._last, self._cpu = now, cpu
