"""Logs of about n bytes for whole steps with a live feed, each the worst of its kind that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at
from tests.unit.processor.driving import Driven
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.hlc import ZERO
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor

Work: TypeAlias = Callable[[], object]

_TABLE: Final = HandTable.of(104, "t", "id INT, v STRING")
_PLAIN: Final = FeedOptions(updated=True)


def growing_logs() -> Iterator[tuple[str, Callable[[int], Work]]]:
    """Yield each kind of log by its name, with what makes the work of stepping so many bytes."""
    for mode in (KernelMode.OFF, KernelMode.ON):
        yield f"versions of a table between rows, kernel {mode.value}", partial(_versions, mode)


def _driven(mode: KernelMode) -> Driven:
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(mode))))
    driven.control(activation([_TABLE.descriptor], _PLAIN, start=ZERO))
    return driven


def _steps(log: HandLog, mode: KernelMode) -> Work:
    records = log.partitions[0]

    def work() -> None:
        driven, rest = _driven(mode), records
        while rest:
            rest = rest[driven.processor.step_some(rest).taken :]

    return work


def _versions(mode: KernelMode, size: int) -> Work:
    """A new version of the table before each row: the kernel's plan has all of them."""
    log = HandLog(partitions=1)
    log.describe(_TABLE)
    opened, written, number = log.open_range(7, _TABLE.span), 0, 0
    while written < size:
        seconds = 1 + number / 1_000
        changed = replace(_TABLE.descriptor, version=2 + number, modified=at(seconds - 0.0005))
        log.describe(HandTable(changed))
        opened.apply(_TABLE.put(seconds, number, "v"), close=seconds - 0.001)
        written += sum(len(record.value or b"") for record in log.partitions[0][-2:])
        number += 1
    return _steps(log, mode)
