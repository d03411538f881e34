"""A simulation tied to the wall clock: everything happens when its time has come, never ahead of the
present.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Final, NamedTuple, TypeAlias

from sim.log.sink import LogSink
from sim.request_source import RequestSource
from sim.simulation import Simulation
from sim.store.moments import Moment
from tidegate.hlc import NANOS_PER_MS, NANOS_PER_SECOND
from tidegate.raftlog.request import Push

#: How long the driver sleeps between two looks at the clock.
_TICK_S: Final = 0.005
#: Transactions that could not start for so long are postponed; otherwise a slow machine never catches up.
_LONGEST_BACKLOG_NS: Final = 500 * NANOS_PER_MS
_PROGRESS_EVERY_NS: Final = NANOS_PER_SECOND


class SimProgress(NamedTuple):
    """The progress of a run. ``put_off_s`` is how long transactions were postponed by a slow machine.

    ``moments`` are the moments of the store since the previous progress.
    """

    seconds: float
    versions: int
    committed: int
    aborted: int
    abandoned: int
    pushes: int
    records: int
    bytes: int
    put_off_s: float
    drained: bool
    splits: int = 0
    merges: int = 0
    moments: tuple[Moment, ...] = ()


OnProgress: TypeAlias = Callable[[SimProgress], None]


class RealTimeRun:
    """Runs a simulation until it is told to stop, its workload ends, or its time is over; then drains it."""

    def __init__(
        self,
        simulation: Simulation,
        sink: LogSink,
        requests: RequestSource,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._simulation = simulation
        self._sink = sink
        self._requests = requests
        self._wall_ns = wall_ns
        self._sleep = sleep
        self._start_ns = wall_ns()
        self._pushes = 0
        self._put_off_ns = 0

    def run(
        self, stop: Event, seconds: float | None, on_progress: OnProgress, end: Event | None = None
    ) -> SimProgress:
        """Run, and call ``on_progress`` every second and at the end. When it returns, everything is durable.

        With an ``end``, a drained store goes on answering requests and closing timestamps until ``end`` is
        set, since ranges that heal need answers.
        """
        self._simulation.postpone(self._start_ns)  # the time for setting up is no backlog
        end_ns = None if seconds is None else self._start_ns + int(seconds * NANOS_PER_SECOND)
        stopped = False
        report_ns = self._start_ns + _PROGRESS_EVERY_NS
        while not self._simulation.drained or (end is not None and not end.is_set()):
            now = self._wall_ns()
            self._catch_up(now)
            over = stop.is_set() or self._simulation.exhausted or (end_ns is not None and now >= end_ns)
            if over and not stopped:
                self._simulation.stop()
                stopped = True
            if now >= report_ns:
                on_progress(self._progress())
                report_ns = now + _PROGRESS_EVERY_NS
            self._sleep(_TICK_S)
        self._sink.flush()
        progress = self._progress()
        on_progress(progress)
        return progress

    def _catch_up(self, now: int) -> None:
        simulation = self._simulation
        self._put_off_ns += simulation.postpone(now - _LONGEST_BACKLOG_NS)
        simulation.advance_to(now)
        for request in self._requests.read():
            answered = simulation.answer(request)
            self._pushes += answered and isinstance(request, Push)

    def _progress(self) -> SimProgress:
        simulation = self._simulation
        counts = simulation.store.counts
        return SimProgress(
            seconds=(simulation.present.ns - self._start_ns) / NANOS_PER_SECOND,
            versions=counts["versions"],
            committed=counts["committed"],
            aborted=counts["aborted"],
            abandoned=counts["abandoned"],
            pushes=self._pushes,
            records=simulation.log.records,
            bytes=simulation.log.bytes,
            put_off_s=self._put_off_ns / NANOS_PER_SECOND,
            drained=simulation.drained,
            splits=counts["splits"],
            merges=counts["merges"],
            moments=simulation.store.moments.take_moments(),
        )
