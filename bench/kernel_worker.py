"""A whole worker with the kernel and without it, beside a raw copy of its rows, in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from bench.endtoend import LOG_PARTITIONS, Throughput, run_copy, run_worker
from bench.topics import BenchTopics
from bench.worker import BenchApplication
from bench.workload import BenchLog
from tidegate.kernel.kernel_mode import KernelMode

_MODES: Final = (KernelMode.OFF, KernelMode.ON)


class KernelWorker(NamedTuple):
    """The result of a worker in one mode of the kernel.

    ``over_copy`` is its rate over that of the raw copy. ``times_copy_cpu`` is its processor time for each row
    over that of the copy, and is disturbed less by other work on the machine.
    """

    kernel: str
    rows: int
    rows_per_s: float
    over_copy: float
    cpu_us_per_row: float
    times_copy_cpu: float


def kernel_workers(log: BenchLog, topics: BenchTopics, directory: Path) -> list[KernelWorker]:
    """Run a worker over the log in each mode, each on topics of its own, then the copy of the last one's
    rows.
    """
    done: list[Throughput] = []
    for mode in _MODES:
        home = directory / mode.value
        home.mkdir()
        application = BenchApplication(topics, home, LOG_PARTITIONS, log.tables)
        done.append(run_worker(application, log, topics, contender=mode.value, kernel=mode))
    copy = run_copy(topics, directory, application.outputs[0], log.name)
    return [over_copy(worker, copy) for worker in done]


def over_copy(worker: Throughput, copy: Throughput) -> KernelWorker:
    """Compare a worker, whose contender is the mode of its kernel, with the copy."""
    cpu_us, copy_us = worker.cpu_us_per_row, copy.cpu_us_per_row
    assert cpu_us is not None
    assert copy_us is not None
    return KernelWorker(
        kernel=worker.contender,
        rows=worker.rows,
        rows_per_s=worker.rows_per_s,
        over_copy=worker.rows_per_s / copy.rows_per_s,
        cpu_us_per_row=cpu_us,
        times_copy_cpu=cpu_us / copy_us,
    )
