"""The whole step by Python and with the kernel, over the same logs: ``python -m bench.kernel_steps``.

Times are processor time of this process. Passes by Python and with the kernel take turns, so that other work
on the machine disturbs both alike. The best pass of each counts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from time import process_time_ns
from typing import Final, NamedTuple

from bench.stages import batches, leave_the_log_alone
from bench.workload import (
    BENCH_OPTIONS,
    BenchLog,
    MakeLog,
    bench_feed,
    flights_log,
    orders_log,
    single_rows_log,
    updates_log,
)
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.lifecycle.control import Activate
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


def step_times(
    log: BenchLog, passes: int = _PASSES, options: Sequence[FeedOptions] = (BENCH_OPTIONS,)
) -> StepTimes:
    """Measure a log of one partition with a feed of each of these options."""
    python, kernel = [], []
    for _ in range(passes):
        python.append(_step_ns(log, KernelMode.OFF, options))
        kernel.append(_step_ns(log, KernelMode.ON, options))
    return StepTimes(min(python) / log.rows / 1e3, min(kernel) / log.rows / 1e3)


def _step_ns(log: BenchLog, mode: KernelMode, options: Sequence[FeedOptions]) -> int:
    log_batches = list(batches(log))
    processor = PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(mode)))
    for number, each in enumerate(options):
        processor.control([ControlRecord(Offset(number), _feed(log, number, each))])
    leave_the_log_alone()
    begin = process_time_ns()
    for batch in log_batches:
        processor.step(batch)
    return process_time_ns() - begin


def _feed(log: BenchLog, number: int, options: FeedOptions) -> Activate:
    feed = bench_feed(log.tables, options=options, topic_prefix=f"{number}-")
    definition = replace(feed.definition, id=FeedId(f"bench-{number}"))
    return replace(feed, definition=definition)


class _Case(NamedTuple):
    """A log and the feeds on it."""

    name: str
    make: MakeLog
    feeds: tuple[FeedOptions, ...] = (BENCH_OPTIONS,)


_CASES: Final = (
    _Case("orders", orders_log),
    _Case("single rows", single_rows_log),
    _Case("updates", updates_log),
    _Case("updates with the row before", updates_log, (replace(BENCH_OPTIONS, diff=True),)),
    _Case("updates, debezium", updates_log, (FeedOptions(envelope=Envelope.DEBEZIUM),)),
    _Case("flights", flights_log),
    _Case("orders, Avro", orders_log, (replace(BENCH_OPTIONS, format=Format.AVRO),)),
    _Case(
        "updates with the row before, Avro",
        updates_log,
        (replace(BENCH_OPTIONS, diff=True, format=Format.AVRO),),
    ),
    _Case("flights, Avro", flights_log, (replace(BENCH_OPTIONS, format=Format.AVRO),)),
)


def main() -> None:
    """Print a line for each log and its feeds."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else _ROWS
    for name, make, feeds in _CASES:
        times = step_times(make(rows, 1, 1), options=feeds)
        ratio = times.kernel_us / times.python_us
        print(f"{name:34} {times.python_us:6.1f} us, {times.kernel_us:6.1f} us with the kernel: {ratio:.2f}")


if __name__ == "__main__":
    main()
