"""A feed that fails while a step applies a backlog, and what the rest of the step does about it."""

from __future__ import annotations

from dataclasses import replace

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.partitions import UPPER
from tidegate.changefeed.lifecycle.control import Failed
from tidegate.raftlog.entry import Generation, Parent, RaftIndex, RangeId, SnapshotReason, Trigger
from tidegate.spans import Span


def test_a_feed_that_has_failed_in_the_step_is_not_scanned_for_in_another_range() -> None:
    """Range 1 has a gap of the feed that a scan would close: the range has no version above 2 s.

    Range 3 waits for range 2. In its backlog it comes out of a hole with versions that the store has removed,
    so the feed fails there.
    """
    log = HandLog(1)
    log.describe(PLAIN)
    low, rest = PLAIN.split(100)
    first, second = log.open_range(1, low), log.open_range(2, rest)
    first.apply(PLAIN.put(1, 1, "first"), close=1)
    second.apply(PLAIN.put(1, 150, "second"), close=1)
    first.apply(trigger=Trigger.SPLIT, close=1.5)
    begun = len(log.partitions[0])
    child = HandRange(log, RangeId(3), Span(UPPER, rest.end))
    child.generation = 2
    lineage = Parent(RangeId(2), Generation(1), RaftIndex(second.index + 1))
    child.snapshot(reason=SnapshotReason.SPLIT, close=3, high=3, parents=(lineage,))
    child.unreadable()
    child.snapshot(close=20, high=15, gc=10)
    waiting = len(log.partitions[0])
    for parent, keys in ((first, Span(low.start, PLAIN.key(50))), (second, Span(rest.start, UPPER))):
        if parent is second:
            parent.apply(trigger=Trigger.SPLIT, close=3)
        parents = (parent.as_parent(),)
        parent.generation, parent.span = 2, keys
        parent.snapshot(reason=SnapshotReason.SPLIT, close=3, high=1, parents=parents)
    driven = Driven()
    driven.run(log.partitions[0][:begun])
    driven.control(
        activation([PLAIN.descriptor], replace(WITH_MARKERS, cursor=at(2)), start=at(2), feed_id="late")
    )
    driven.run(log.partitions[0][begun:waiting])
    assert [each.range_id for each in driven.processor.status().parked] == [3]
    result = driven.step(log.partitions[0][waiting:])
    assert [ack.feed_id for ack in result.acks if isinstance(ack, Failed)] == ["late"]
    assert not result.requests
    driven.step(())
    assert driven.processor.status().with_gaps == ()
