"""A log that was cut before it was read: what the hole decides is decided, and stored, in that very step."""

from __future__ import annotations

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.partitions import MIDDLE, Partitions, split_log
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Failed
from tidegate.processor.batch import StepResult
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    Generation,
    HistoryMutation,
    Offset,
    Parent,
    RaftIndex,
    RangeId,
    SnapshotReason,
)
from tidegate.raftlog.request import Scan
from tidegate.spans import Span


class _WaitingChild:
    """Range 3 waits for range 2, and the entries for which it waits are cut from their partition's log.

    The feed "early" starts at 1 s, the feed "late" at 8 s.
    """

    def __init__(self, gc: float | None = None, last_mutation: HistoryMutation = NEVER_MUTATED) -> None:
        log = HandLog(1)
        log.describe(PLAIN)
        parent = log.open_range(2, PLAIN.span)
        parent.apply(PLAIN.put(5, 150, "parent"), close=5)
        child = HandRange(log, RangeId(3), Span(MIDDLE, PLAIN.span.end))
        child.generation = 2
        parents = (Parent(RangeId(2), Generation(1), RaftIndex(parent.index + 3)),)
        child.snapshot(
            reason=SnapshotReason.SPLIT,
            close=12,
            high=10,
            gc=gc,
            last_mutation=last_mutation,
            parents=parents,
        )
        self.driven = Driven()
        for feed_id, start in (("early", 1), ("late", 8)):
            self.driven.control(activation([PLAIN.descriptor], start=at(start), feed_id=feed_id))
        self.driven.run(log.partitions[0])
        assert [each.range_id for each in self.driven.processor.status().parked] == [3]
        self.log_start = Offset(len(log.partitions[0]) + 5)

    def cut(self) -> StepResult:
        return self.driven.note(self.driven.processor.missing_below(self.log_start))

    def active_after_a_restart(self) -> list[str]:
        """Return the feeds that the next owner goes on with, from what is stored by now."""
        driven = Driven.restored(self.driven.state)
        driven.step(())
        return [feed_id for feed_id in ("early", "late") if driven.processor.is_active(FeedId(feed_id))]


def _failed(result: StepResult) -> list[str]:
    return [ack.feed_id for ack in result.acks if isinstance(ack, Failed)]


def test_a_range_that_waited_for_what_was_cut_is_scanned_at_once() -> None:
    waiting = _WaitingChild()
    scans = [request for request in waiting.cut().requests if isinstance(request, Scan)]
    assert [(scan.range_id, scan.upto) for scan in scans] == [(3, at(10))]
    assert waiting.active_after_a_restart() == ["early", "late"]


def test_a_feed_that_the_cut_leaves_with_removed_versions_fails_in_that_step() -> None:
    """The store has removed versions up to 6 s. A restart right behind the cut must not forget that."""
    waiting = _WaitingChild(gc=6)
    assert _failed(waiting.cut()) == ["early"]
    assert waiting.active_after_a_restart() == ["late"]


def test_a_feed_whose_history_was_changed_in_what_was_cut_fails_in_that_step() -> None:
    waiting = _WaitingChild(last_mutation=NEVER_MUTATED._replace(time=at(7)))
    assert _failed(waiting.cut()) == ["early"], "the other feed starts above the change"
    assert waiting.active_after_a_restart() == ["late"]


def test_a_log_that_begins_at_the_next_offset_has_lost_nothing_of_a_range_that_waits() -> None:
    run = Partitions(split_log())
    run.read(1)
    processor = run.driven[1].processor
    assert run.parked() == [(3, (2,))]
    run.note_step(1, processor.missing_below(Offset(processor.next_offset or 0)))
    run.settle()
    assert run.rows() == {0: [at(5), at(9)], 1: [at(8)]}
    assert run.causes() == []
