"""Where the time of a task goes, by stage."""

from __future__ import annotations

from time import perf_counter, process_time
from typing import Final

#: load: the state, and what ranges were behind with. read: waiting for records from Spark, and making Python
#: objects of them. step: the partition processor. produce: handing rows over. wait: until all are
#: acknowledged. store: what the state has changed by.
STAGES: Final = ("load", "read", "step", "produce", "wait", "store")


class TaskClock:
    """Counts seconds by stage from its creation on, and processor time (``cpu_s``), that of the producers'
    own threads included; ``lap`` ends a stage."""

    __slots__ = ("_cpu", "_last", "cpu_s", "seconds")

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.cpu_s = dict.fromkeys(STAGES, 0.0)
        self._last, self._cpu = perf_counter(), process_time()

    def lap(self, stage: str) -> None:
        """What has passed since the last lap was spent on ``stage``."""
        now, cpu = perf_counter(), process_time()
        self.seconds[stage] += now - self._last
        self.cpu_s[stage] += cpu - self._cpu
        self._last, self._cpu = now, cpu
