"""A store that began anew, or was restored, goes on in the log of its former self: no marker covers its rows.

Its raft indexes begin again below those that ranges have applied, and such commands look like copies.
"""

from __future__ import annotations

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, at, intent, txn
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import AbortIntent, AbortTxn, Op, RangeId, SnapshotReason

_ROWS = 50


class _Former:
    """A log of a range with rows up to second 51, all read, and the same range of the store's new life."""

    def __init__(self, mode: KernelMode) -> None:
        self.log = HandLog(1)
        self.log.describe(PLAIN)
        self.former = former = self.log.open_range(1, PLAIN.span)
        for number in range(1, _ROWS + 1):
            former.apply(PLAIN.put(1 + number, number, "old"), close=number + 0.5)
        config = ProcessorConfig(kernel=kernels_for(mode))
        self.driven = Driven(PartitionProcessor(0, 1, config))
        self.driven.control(activation([PLAIN.descriptor]))
        self._read = 0
        self.run()
        assert len(self.driven.rows) == _ROWS
        self.anew = HandRange(self.log, RangeId(1), PLAIN.span)
        self.log.wait_for(at(100))

    def run(self) -> None:
        records = self.log.partitions[0]
        self.driven.run(records[self._read :])
        self._read = len(records)

    @property
    def resolved(self) -> float:
        (checkpoint,) = self.driven.checkpoints.values()
        return float(checkpoint.resolved.wall)


@pytest.mark.parametrize("mode", [KernelMode.OFF, KernelMode.ON, KernelMode.CHECK])
@pytest.mark.parametrize("closing", [True, False], ids=["commands close", "heartbeats alone close"])
@pytest.mark.parametrize("told", [True, False], ids=["with a Snapshot", "without a Snapshot"])
def test_no_marker_covers_rows_that_look_like_copies(mode: KernelMode, closing: bool, told: bool) -> None:
    store = _Former(mode)
    if told:
        store.anew.snapshot(reason=SnapshotReason.INITIAL, close=100)
    for number in range(1, 21):
        close = 100 + number - 0.5 if closing else None
        store.anew.apply(PLAIN.put(100 + number, 500 + number, "new"), close=close)
    store.anew.heartbeat(130)
    store.run()
    assert store.resolved < at(100).wall
    assert ["the store began anew" in cause for cause in store.driven.causes] == [True]


@pytest.mark.parametrize("mode", [KernelMode.OFF, KernelMode.ON, KernelMode.CHECK])
@pytest.mark.parametrize("told", [True, False], ids=["with a Snapshot", "without a Snapshot"])
def test_no_marker_covers_an_intent_that_looks_like_a_copy(mode: KernelMode, told: bool) -> None:
    """The intent is committed at an index above all that the former store had."""
    store = _Former(mode)
    if told:
        store.anew.snapshot(reason=SnapshotReason.INITIAL, close=0)
    for _ in range(_ROWS - 1):
        store.anew.apply()
    store.anew.apply(intent(7, 101))
    store.anew.apply(PLAIN.commit(7, 101, 500, "new"), close=105)
    store.run()
    assert store.resolved < at(100).wall
    assert ["the store began anew" in cause for cause in store.driven.causes] == [True]


@pytest.mark.parametrize("mode", [KernelMode.OFF, KernelMode.ON, KernelMode.CHECK])
@pytest.mark.parametrize("ops", [(intent(7, 101),), None], ids=["an intent", "no op log"])
def test_no_heartbeat_closes_behind_entries_that_look_like_copies(
    mode: KernelMode, ops: tuple[Op, ...] | None
) -> None:
    store = _Former(mode)
    store.anew.index += 1
    store.log.write(store.anew.command()._replace(ops=ops))
    store.anew.heartbeat(105)
    store.run()
    assert store.resolved < at(100).wall
    assert ["the store began anew" in cause for cause in store.driven.causes] == [True]


@pytest.mark.parametrize("mode", [KernelMode.OFF, KernelMode.ON, KernelMode.CHECK])
def test_copies_of_all_entries_change_nothing(mode: KernelMode) -> None:
    store = _Former(mode)
    log = store.log.partitions[0]
    before = store.resolved
    store.driven.run([record._replace(offset=record.offset + len(log)) for record in log])
    assert len(store.driven.rows) == _ROWS
    assert store.resolved == before
    assert store.driven.causes == []


@pytest.mark.parametrize("mode", [KernelMode.OFF, KernelMode.ON, KernelMode.CHECK])
@pytest.mark.parametrize("end", [AbortIntent(txn(8)), AbortTxn(txn(8))])
def test_copies_of_an_intent_that_was_aborted_change_nothing(mode: KernelMode, end: Op) -> None:
    """As a source writes them again that has crashed."""
    store = _Former(mode)
    former, log = store.former, store.log.partitions[0]
    before = len(log)
    former.apply(intent(8, 101))
    former.apply(end)
    former.heartbeat(105)
    copies = log[before:]
    store.run()
    resolved = store.resolved
    store.driven.run([record._replace(offset=record.offset + len(copies)) for record in copies])
    assert store.driven.causes == []
    assert store.resolved == resolved == at(105).wall
