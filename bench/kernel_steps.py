"""The whole step by Python and with the kernel, over the same logs: ``python -m bench.kernel_steps``.

Times are processor time of this process. Passes of the two take turns, so that other work on the machine
disturbs both alike. The best pass of each counts.
"""

from __future__ import annotations

import sys
from time import process_time_ns
from typing import Final, NamedTuple

from bench.stages import batches, leave_the_log_alone
from bench.workload import BenchLog, bench_feed, flights_log, orders_log, single_rows_log, updates_log
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import ControlRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset

_ROWS: Final = 20_000
_PASSES: Final = 5


class StepTimes(NamedTuple):
    """Processor time of the whole step, in microseconds a row."""

    python_us: float
    kernel_us: float


def step_times(log: BenchLog, passes: int = _PASSES) -> StepTimes:
    """Measure a log of one partition."""
    python, kernel = [], []
    for _ in range(passes):
        python.append(_step_ns(log, KernelMode.OFF))
        kernel.append(_step_ns(log, KernelMode.ON))
    return StepTimes(min(python) / log.rows / 1e3, min(kernel) / log.rows / 1e3)


def _step_ns(log: BenchLog, mode: KernelMode) -> int:
    log_batches = list(batches(log))
    processor = PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(mode)))
    processor.control([ControlRecord(Offset(0), bench_feed(log.tables))])
    leave_the_log_alone()
    begin = process_time_ns()
    for batch in log_batches:
        processor.step(batch)
    return process_time_ns() - begin


def main() -> None:
    """Print a line for each log."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else _ROWS
    for make in (orders_log, single_rows_log, updates_log, flights_log):
        log = make(rows, 1, 1)
        times = step_times(log)
        ratio = times.kernel_us / times.python_us
        print(
            f"{log.name:12} {times.python_us:6.1f} us, {times.kernel_us:6.1f} us with the kernel: {ratio:.2f}"
        )


if __name__ == "__main__":
    main()
