"""Measures a worker's start up to its first rows: by Python, and with the kernel, in turns."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench.process import MeasuredProcess
from bench.store import BenchStore
from bench.topics import BenchTopics
from bench.worker import BenchApplication
from tidegate.errors import RetryError
from tidegate.kernel.kernel_mode import KernelMode

_PARTITIONS: Final = 4
_RANGES: Final = 16
_ROWS: Final = 400
_TIMEOUT_S: Final = 120.0
_LOOK_AGAIN_S: Final = 0.02
_MODES: Final = (KernelMode.OFF, KernelMode.ON)


class WorkerStart(NamedTuple):
    """Medians over ``starts`` starts of a process until it had written all rows that waited for it.

    ``cpu_s`` is the processor time that it had taken by then.
    """

    kernel: str
    starts: int
    seconds: float
    cpu_s: float


def worker_starts(topics: BenchTopics, directory: Path, starts: int, seed: int) -> list[WorkerStart]:
    """Start a worker ``starts`` times in each mode. Each time a few rows of one log wait for it.

    Raises ``RetryError`` when it does not write them.
    """
    store = BenchStore(partitions=_PARTITIONS, ranges=_RANGES, seed=seed)
    application = BenchApplication(topics, directory, _PARTITIONS, [store.table])
    application.write(store.head(time.time_ns()))
    with application.start_worker() as worker:
        application.create_feed(worker)
    found: dict[KernelMode, list[tuple[float, float]]] = {mode: [] for mode in _MODES}
    for _ in range(starts):
        for mode in _MODES:
            now_ns = time.time_ns()
            application.write([*store.rows(_ROWS, now_ns), *store.settle(now_ns), *store.heartbeats(now_ns)])
            before, begin = topics.size(application.outputs), time.monotonic()
            with application.start_worker(kernel=mode.value) as worker:
                _wait_for_rows(topics, application, worker, before + _ROWS)
                found[mode].append((time.monotonic() - begin, worker.cpu_s))
    return [
        WorkerStart(mode.value, starts, median(each[0] for each in some), median(each[1] for each in some))
        for mode, some in found.items()
    ]


def _wait_for_rows(
    topics: BenchTopics, application: BenchApplication, worker: MeasuredProcess, size: int
) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while topics.size(application.outputs) < size:
        worker.require_running()
        if time.monotonic() > deadline:
            raise RetryError(
                f"a worker wrote no rows within {_TIMEOUT_S:.0f} s of its start; see {worker.log}"
            )
        time.sleep(_LOOK_AGAIN_S)
