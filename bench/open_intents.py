"""Measures open transactions: the memory that a worker needs for them, and how fast it takes them."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench.process import MeasuredProcess
from bench.store import BenchStore
from bench.topics import BenchTopics
from bench.worker import BenchApplication
from tidegate.errors import RetryError
from tidegate.kernel.kernel_mode import KernelMode

_PARTITIONS: Final = 4
_RANGES: Final = 16
_TAKEN_US: Final = 1_000  # at most, for each transaction; more means that something is wrong
_LEAST_S: Final = 120.0
_LOOK_AGAIN_S: Final = 0.5


class OpenIntents(NamedTuple):
    """The most memory that was seen, in a mode of the kernel: of the worker process before it has the
    intents, of the same process with them, and of a process that restored them. ``intents_per_s`` counts from
    the worker's first assignment on, and includes the work for its state on disk."""

    kernel: str
    intents: int
    before_mib: float
    with_mib: float
    intents_per_s: float
    spilled: int
    restored_mib: float
    restore_s: float


def open_intents(
    topics: BenchTopics,
    directory: Path,
    seed: int,
    intents: int = 100_000,
    kernel: KernelMode = KernelMode.OFF,
) -> OpenIntents:
    """Measure ``intents`` open transactions with one intent each, under a feed.

    Raises ``RetryError`` when the worker does not take them in time.
    """
    store = BenchStore(partitions=_PARTITIONS, ranges=_RANGES, seed=seed)
    application = BenchApplication(topics, directory, _PARTITIONS, [store.table])
    application.write(store.head(time.time_ns()))
    with application.start_worker(kernel=kernel.value) as worker:
        application.create_feed(worker)
        before = worker.rss_mib
    application.write(store.open_intents(intents, time.time_ns()))
    with application.start_worker(kernel=kernel.value) as worker:
        worker.wait_for("partition restored", _PARTITIONS)
        began = time.monotonic()
        with_intents = _wait_until_open(application, worker, intents)
        taken_s = time.monotonic() - began
        spilled = _sum_of(application, "tidegate_spilled_transactions")
    with application.start_worker(kernel=kernel.value) as worker:
        restored = _wait_until_open(application, worker, intents)
        restore_s = _highest_of(application, "tidegate_restore_ms") / 1000
    rate = intents / taken_s
    return OpenIntents(kernel.value, intents, before, with_intents, rate, spilled, restored, restore_s)


def _wait_until_open(application: BenchApplication, worker: MeasuredProcess, intents: int) -> float:
    """Wait until the worker has that many open transactions. Return the most memory that it had meanwhile, in
    MiB."""
    deadline = time.monotonic() + max(_LEAST_S, intents * _TAKEN_US / 1_000_000)
    worker.wait_for("partitions assigned")
    highest = worker.rss_mib
    while _sum_of(application, "tidegate_open_transactions") < intents:
        worker.require_running()
        if time.monotonic() > deadline:
            raise RetryError(f"{intents} intents were not taken in time; see {worker.log}")
        time.sleep(_LOOK_AGAIN_S)
        highest = max(highest, worker.rss_mib)
    return highest


def _sum_of(application: BenchApplication, metric: str) -> int:
    return round(sum(_values(application, metric)))


def _highest_of(application: BenchApplication, metric: str) -> float:
    return max(_values(application, metric), default=0.0)


def _values(application: BenchApplication, metric: str) -> list[float]:
    """Return the values of a metric, one of each partition."""
    found = re.findall(rf"^{metric}{{.*}} (\S+)$", application.metrics(), re.MULTILINE)
    return [float(value) for value in found]
