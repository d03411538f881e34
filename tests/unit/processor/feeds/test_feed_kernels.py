"""Kernels of single feeds: a partition has few of them, however many feeds catch up."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import WasmKernels, kernels_for
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.version import Version

pytest.importorskip("wasmtime")

FEEDS: Final = 7
#: More than the rows that Python takes by itself.
VERSIONS: Final = [
    Version(op.key, op.timestamp, op.value or b"", None, False, RangeId(1), RaftIndex(0), 0)
    for op in (PLAIN.put(5, number, "v") for number in range(40))
]


def test_the_kernels_whose_versions_came_longest_ago_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    original = WasmKernels.open

    def opening(kernels: WasmKernels) -> Any:
        opened.append(original(kernels))
        return opened[-1]

    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(KernelMode.ON))))
    driven.control(*(activation([PLAIN.descriptor], feed_id=f"f{number}") for number in range(FEEDS)))
    log = HandLog(1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span).heartbeat(2)
    driven.step(log.partitions[0])
    monkeypatch.setattr(WasmKernels, "open", opening)
    state = driven.processor._state
    assert state.kernel is not None
    feeds = list(state.feeds.active)
    assert len(feeds) == FEEDS
    of_feeds = state.kernel.of_feeds
    for feed in feeds:
        taken = of_feeds.make_records(feed, VERSIONS)
        assert taken is not None
    assert len(opened) == FEEDS
    of_feeds.make_records(feeds[-1], VERSIONS)
    of_feeds.make_records(feeds[-4], VERSIONS)
    assert len(opened) == FEEDS, "the last four are there"
    of_feeds.make_records(feeds[0], VERSIONS)
    assert len(opened) == FEEDS + 1
    of_feeds.make_records(feeds[-4], VERSIONS)
    assert len(opened) == FEEDS + 1, "what came later is kept"
    of_feeds.make_records(feeds[-3], VERSIONS)
    assert len(opened) == FEEDS + 2, "what came longest ago is not"
