"""Marker lag while every range splits once, beside that of the same store before.

The rows flow on as before; the splits are spread over the whole time. A child's keys go to another partition
of the log most of the time, so that its rows wait for a hand-off over Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.marker_lag import (
    ROUNDS_PER_S,
    WARM_UP_S,
    LagMeter,
    lag_reader,
    percentile,
    wait_until_covered,
    write_rows,
)
from bench.store import BenchStore
from bench.topics import BenchTopics
from bench.worker import BenchApplication
from bench.workload import OUTPUT_PARTITIONS
from sim.log.sink import WrittenRecord
from tidegate.kernel.kernel_mode import KernelMode

_ROWS_PER_S: Final = 5_000
_PARTITIONS: Final = 4
_RANGES: Final = 16
_CLOSED_LAG_MS: Final = 3_000


class SplitLag(NamedTuple):
    """Marker lags in milliseconds at ``rows_per_s`` rows written, in a mode of the kernel; ``ratio`` is the
    p99 with splits over the p99 without."""

    kernel: str
    rows_per_s: float
    splits: int
    quiet_p50_ms: float
    quiet_p99_ms: float
    splitting_p50_ms: float
    splitting_p99_ms: float
    ratio: float


class Splits:
    """The splits of a run: each range that the store has at first splits once, evenly spread over ``steps``
    steps."""

    def __init__(self, store: BenchStore, meter: LagMeter, steps: int) -> None:
        self._store = store
        self._meter = meter
        self._steps = steps
        self._left = list(store.ranges)
        self.done = 0

    def __call__(self, step: int, now_ns: int) -> Iterator[WrittenRecord]:
        """Yield the records of the splits of a step. The meter is told how many ranges the round of the step
        has."""
        total = self.done + len(self._left)
        while self._left and self.done * self._steps < (step + 1) * total:
            self.done += 1
            yield from self._store.split(self._left.pop(0), now_ns)
        self._meter.ranges_of[self._store.closed] = len(self._store.ranges)


def split_lag(
    topics: BenchTopics, directory: Path, seconds: float, seed: int, kernel: KernelMode = KernelMode.OFF
) -> SplitLag:
    """Write for ``seconds`` seconds without splits, and for as long with them."""
    store = BenchStore(partitions=_PARTITIONS, ranges=_RANGES, seed=seed, closed_lag_ms=_CLOSED_LAG_MS)
    application = BenchApplication(topics, directory, _PARTITIONS, [store.table])
    meter = LagMeter(_RANGES, OUTPUT_PARTITIONS)
    splits = Splits(store, meter, int(seconds * ROUNDS_PER_S))
    application.write(store.head(time.time_ns()))
    with application.start_worker(kernel=kernel.value) as worker:
        application.create_feed(worker)
        with lag_reader(topics, application, meter):
            write_rows(store, application, _ROWS_PER_S, WARM_UP_S)
            wait_until_covered(meter, worker.require_running)
            meter.take_lags_ms()
            begin = time.monotonic()
            written = write_rows(store, application, _ROWS_PER_S, seconds)
            rate = written / (time.monotonic() - begin)
            wait_until_covered(meter, worker.require_running)
            quiet = meter.take_lags_ms()
            write_rows(store, application, _ROWS_PER_S, seconds, splits)
            wait_until_covered(meter, worker.require_running)
    return summary(kernel, rate, splits.done, quiet, meter.take_lags_ms())


def summary(
    kernel: KernelMode, rows_per_s: float, splits: int, quiet: list[float], splitting: list[float]
) -> SplitLag:
    """Return a line of the report. Both lists hold lags in milliseconds, the smallest first."""
    before, during = percentile(quiet, 0.99), percentile(splitting, 0.99)
    return SplitLag(
        kernel.value,
        rows_per_s,
        splits,
        percentile(quiet, 0.5),
        before,
        percentile(splitting, 0.5),
        during,
        during / before,
    )
