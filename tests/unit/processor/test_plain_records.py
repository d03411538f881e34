"""A kernel goes on after records that it refuses. It is given each record a bounded number of times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog
from tests.logs import Record
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.table.breakages import HIGH, LOW
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import LogRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.plain_records import PlainRecords
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import RangeId

pytest.importorskip("wasmtime")

_FEED = activation([PLAIN.descriptor])


def _log(count: int, each: int, *, bytes_each: int = 1) -> Sequence[Record]:
    """The rows of a live range, and between so many of them records of a range in a hole: none, one or two.

    The kernel refuses records of a range in a hole.
    """
    log = HandLog(1)
    log.describe(PLAIN)
    live, broken = log.open_range(1, LOW), log.open_range(2, HIGH)
    broken.unreadable()
    for number in range(count):
        if number % each:
            live.apply(PLAIN.put(1 + number / 100, 1 + number % 9, "v" * bytes_each))
        for _ in range(number // each % 3 if number % each == 0 else 0):
            broken.heartbeat(2)
    live.heartbeat(1 + count / 100)
    return log.partitions[0]


def _driven(mode: KernelMode) -> Driven:
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(mode))))
    driven.control(_FEED)
    return driven


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", [KernelMode.ON, KernelMode.CHECK])
@pytest.mark.parametrize("each", [7, 40, 110, 300])
def test_a_batch_with_many_refused_records_is_taken_as_by_python(each: int, mode: KernelMode) -> None:
    records = _log(4_000, each)
    on, off = _driven(mode), _driven(KernelMode.OFF)
    for driven in (on, off):
        driven.step(records[:5])
        driven.step(records[5:])
    assert on.rows == off.rows
    assert on.state == off.state
    assert on.causes == off.causes
    assert on.checkpoints == off.checkpoints


@pytest.mark.sampled(4)
@pytest.mark.parametrize("each", [2, 20, 110, 400, 2_000])
@pytest.mark.parametrize("bytes_each", [1, 2_000])
def test_the_kernel_reads_a_small_multiple_of_a_batch(
    each: int, bytes_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, driven, given = _log(8_000, each, bytes_each=bytes_each), _driven(KernelMode.ON), 0
    follow = PlainRecords._follow

    def noting(self: PlainRecords, kernel: object, rest: Sequence[LogRecord]) -> object:
        nonlocal given
        given += sum(map(_bytes, rest))
        return follow(self, kernel, rest)  # type: ignore[arg-type]

    driven.step(records[:5])
    monkeypatch.setattr(PlainRecords, "_follow", noting)
    driven.step(records[5:])
    # Nine times all of a portion, while refusals are free. Then about three times, and the shortest rounds.
    assert given < (9 + 3 + 1) * sum(map(_bytes, records))


def _bytes(record: LogRecord) -> int:
    return 64 + len(record.key or b"") + len(record.value or b"")


@pytest.mark.parametrize("batch", [1, 1_000])
def test_python_takes_only_what_the_kernel_refuses(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    records, driven = _log(500, 100), _driven(KernelMode.ON)
    by_python: list[LogRecord] = []
    apply = PlainRecords.apply_records

    def noting(self: PlainRecords, some: Sequence[LogRecord], receivers: Any, take: Any) -> None:
        def noted(given: Sequence[LogRecord]) -> None:
            by_python.extend(given)
            take(given)

        apply(self, some, receivers, noted)

    driven.step(records[:5])
    monkeypatch.setattr(PlainRecords, "apply_records", noting)
    driven.run(records[5:], batch)
    broken = [record for record in records[5:] if record.key == encode_key(RangeId(2))]
    assert len(broken) == 4
    assert [record for record in by_python if record not in broken] == []
