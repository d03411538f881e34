"""A log that was cut before it was read: what the hole decides, and what the records behind it decide."""

from __future__ import annotations

from typing import Any

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.partitions import FEED, MIDDLE, Partitions, scans_of, split_log
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Failed
from tidegate.processor.batch import StepResult
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    Generation,
    Offset,
    Parent,
    RaftIndex,
    RangeId,
    SnapshotReason,
    Trigger,
)
from tidegate.raftlog.request import Scan
from tidegate.spans import Span


class _WaitingChild:
    """Range 3 waits for range 2, and the entries for which it waits are cut from their partition's log.

    The feed "early" starts at 1 s, the feed "late" at 8 s.
    """

    def __init__(self, **told: Any) -> None:
        self.log = log = HandLog(1)
        log.describe(PLAIN)
        parent = log.open_range(2, PLAIN.span)
        parent.apply(PLAIN.put(5, 150, "parent"), close=5)
        self.child = child = HandRange(log, RangeId(3), Span(MIDDLE, PLAIN.span.end))
        child.generation = 2
        parents = (Parent(RangeId(2), Generation(1), RaftIndex(parent.index + 3)),)
        self.told = {"close": 12, "high": 10, **told}
        child.snapshot(reason=SnapshotReason.SPLIT, parents=parents, **self.told)
        self.driven = Driven()
        for feed_id, start in (("early", 1), ("late", 8)):
            self.driven.control(activation([PLAIN.descriptor], start=at(start), feed_id=feed_id))
        self.driven.run(log.partitions[0])
        assert [each.range_id for each in self.driven.processor.status().parked] == [3]
        for _ in range(5):
            log.write_bytes(0, None, b"cut away")
        self.log_start = Offset(len(log.partitions[0]))

    def cut(self, *, restarts: bool) -> StepResult:
        """Cut the log, and take the step behind that. Returns what came of the step.

        After a restart the child's own Snapshot is cut away too, and the next one of it comes.
        """
        result = self.driven.note(self.driven.processor.missing_below(self.log_start))
        assert not result.acks
        assert not result.requests
        if not restarts:
            return self.driven.step(())
        self.driven = Driven.restored(self.driven.state)
        self.driven.note(self.driven.processor.missing_below(self.log_start))
        self.child.snapshot(**self.told)
        return self.driven.step(self.log.partitions[0][self.log_start :])

    @property
    def active(self) -> list[str]:
        """The feeds that the next owner goes on with, from what is stored by now."""
        processor = Driven.restored(self.driven.state).processor
        return [feed_id for feed_id in ("early", "late") if processor.is_active(FeedId(feed_id))]


def _failed(result: StepResult) -> list[str]:
    return [ack.feed_id for ack in result.acks if isinstance(ack, Failed)]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_range_that_waited_for_what_was_cut_is_scanned(restarts: bool) -> None:
    waiting = _WaitingChild()
    scans = [request for request in waiting.cut(restarts=restarts).requests if isinstance(request, Scan)]
    assert [(scan.range_id, scan.upto) for scan in scans] == [(3, at(10))]
    assert waiting.active == ["early", "late"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_feed_that_the_cut_leaves_with_removed_versions_fails(restarts: bool) -> None:
    """The store has removed versions up to 6 s. A restart right behind the cut must not forget that."""
    waiting = _WaitingChild(gc=6)
    assert _failed(waiting.cut(restarts=restarts)) == ["early"]
    assert waiting.active == ["late"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_feed_whose_history_was_changed_in_what_was_cut_fails(restarts: bool) -> None:
    waiting = _WaitingChild(last_mutation=NEVER_MUTATED._replace(time=at(7)))
    assert _failed(waiting.cut(restarts=restarts)) == ["early"], "the other feed starts above the change"
    assert waiting.active == ["late"]


def test_a_parent_of_which_only_heartbeats_were_cut_hands_off_completely() -> None:
    """Its Snapshot stands right behind the cut. The store has removed what a scan would have to bring."""
    log = HandLog(2)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(4, 150, "parent"), close=5)
    read = len(log.partitions[0])
    parent.heartbeat(6)
    parent.heartbeat(7)
    log_start = Offset(len(log.partitions[0]))
    parent.snapshot(close=20, high=4, gc=15)
    lineage = parent.as_parent()._replace(last_index=RaftIndex(parent.index + 1))
    parent.apply(trigger=Trigger.SPLIT, close=22)
    child = HandRange(log, RangeId(3), Span(MIDDLE, PLAIN.span.end))
    child.generation = 2
    child.snapshot(reason=SnapshotReason.SPLIT, close=22, high=4, gc=15, parents=(lineage,))
    parent.span, parent.generation = Span(PLAIN.span.start, MIDDLE), 2
    parent.snapshot(reason=SnapshotReason.SPLIT, close=22, high=4, gc=15, parents=(lineage,))
    run = Partitions(log, activation([PLAIN.descriptor], start=at(1)))
    run.read(0, read)
    run.read(1)
    run.exchange(0)
    run.note_step(0, run.driven[0].processor.missing_below(log_start))
    run.settle()
    assert run.parked() == []
    assert scans_of(run, 0) == scans_of(run, 1) == []
    assert all(driven.processor.is_active(FEED.feed_id) for driven in run.driven)


def test_a_log_that_begins_at_the_next_offset_has_lost_nothing_of_a_range_that_waits() -> None:
    run = Partitions(split_log())
    run.read(1)
    processor = run.driven[1].processor
    assert run.parked() == [(3, (2,))]
    run.note_step(1, processor.missing_below(Offset(processor.next_offset or 0)))
    run.settle()
    assert run.rows() == {0: [at(5), at(9)], 1: [at(8)]}
    assert run.causes() == []
