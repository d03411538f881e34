"""The step over heartbeats of idle ranges, by Python and with the kernel: ``python -m bench.idle_steps``.

All ranges are in one log partition, with one feed. Each closes once a round, in batches as a worker takes
them, and commits nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import ControlRecord, LogRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset
from tidegate.spans import Span

_BATCH: Final = 5_000
_ROUNDS: Final = 5
_RANGES: Final = (10_000,)
_TABLE: Final = HandTable.of(104, "t")


def logs(ranges: int, rounds: int) -> Iterator[list[LogRecord]]:
    """Yield the records that begin so many ranges, and then those of each round."""
    log, read = HandLog(1), 0
    log.describe(_TABLE)
    bounds = [_TABLE.span.start, *(_TABLE.key(number) for number in range(1, ranges)), _TABLE.span.end]
    opened = [
        log.open_range(number + 1, Span(start, end)) for number, (start, end) in enumerate(pairwise(bounds))
    ]
    for seconds in range(rounds + 1):
        if seconds:
            for each in opened:
                each.heartbeat(seconds)
        records = log.partitions[0]
        yield [*records[read:]]
        read = len(records)


def beat_us(mode: KernelMode, log: list[list[LogRecord]]) -> float:
    """Return the processor time of a heartbeat, in microseconds: the best round's."""
    processor = PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(mode)))
    processor.control([ControlRecord(Offset(0), activation([_TABLE.descriptor]))])
    _step(processor, log[0])
    return min(_step(processor, records) / len(records) for records in log[1:]) * 1e6


def _step(processor: PartitionProcessor, records: list[LogRecord]) -> float:
    begun = time.process_time()
    for first in range(0, len(records), _BATCH):
        processor.step(records[first : first + _BATCH])
    return time.process_time() - begun


def main() -> None:
    """Print the cost of a heartbeat for each number of ranges."""
    for ranges in map(int, sys.argv[1:]) if sys.argv[1:] else _RANGES:
        log = list(logs(ranges, _ROUNDS))
        python, native = (beat_us(mode, log) for mode in (KernelMode.OFF, KernelMode.ON))
        print(
            f"{ranges} ranges: {python:.1f} us a heartbeat by Python, {native:.1f} us with the kernel",
            flush=True,
        )


if __name__ == "__main__":
    main()
