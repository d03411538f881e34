"""Tests what an operator sees of a partition."""

from __future__ import annotations

from tests.hand_log import HandLog, aborted, at, intent, txn
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.raftlog.entry import OpenIntent


def test_open_intents_are_counted_beside_the_transactions_that_wrote_them() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    found = [OpenIntent(txn(9), b"anchor", PLAIN.key(number), at(1)) for number in (1, 2)]
    first = log.open_range(1, PLAIN.span, intents=found)
    second = log.open_range(2, OTHER.span)
    first.apply(intent(1, 2), intent(1, 2), intent(1, 3), intent(2, 2))
    second.apply(intent(1, 2))
    driven = Driven()
    driven.run(log.partitions[0])
    for partition in (driven, Driven.restored(driven.state)):
        status = partition.processor.status()
        assert (status.open_transactions, status.tracked_intents) == (4, 7)
    first.apply(aborted(1), aborted(2))
    driven.run(log.partitions[0])
    status = driven.processor.status()
    assert (status.open_transactions, status.tracked_intents) == (3, 5)


def test_a_quarantined_range_tracks_no_intent() -> None:
    log = HandLog(partitions=1)
    handle = log.open_range(1, PLAIN.span)
    handle.apply(intent(1, 2), intent(2, 2))
    handle.index += 1
    handle.apply()
    driven = Driven()
    driven.run(log.partitions[0])
    status = driven.processor.status()
    assert (status.open_transactions, status.tracked_intents) == (0, 0)
