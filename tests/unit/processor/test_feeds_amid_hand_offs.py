"""Feeds that come while ranges wait for their parents: they are given what was not handed to the ranges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import rows_of, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN
from tests.unit.processor.partitions import MIDDLE, UPPER, Partitions, row_of, scans_of
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate, ControlMessage, Remove
from tidegate.hlc import Timestamp
from tidegate.processor import log_step
from tidegate.processor.batch import ExchangeRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import Offset, RangeId, SnapshotReason
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.spans import Span


class _NeededAgain:
    """Range 2 breaks behind 6 s. Its row of key 150 at 8 s cannot be read; then range 3 has its upper keys.

    Feed "f" begins at 5.5 s. Partition 0 has activated it before range 2 answers: "complete up to 6 s, and f
    misses nothing". Partition 1, with range 3, hears of it later.
    """

    def __init__(self, first: Activate, *, chunks: int = 1) -> None:
        self.log = log = HandLog(2)
        log.describe(PLAIN, OTHER)
        self.parent = log.open_range(2, PLAIN.span)
        self.parent.apply(PLAIN.put(5, 150, "old"), close=6)
        broken = len(log.partitions[0])
        log.write_bytes(0, encode_key(RangeId(2)), b"\xff\xff")
        self.parent.index += 1
        self.child = HandRange(log, RangeId(3), Span(MIDDLE, PLAIN.span.end))
        self.child.generation, self.child.high = 2, 8
        for chunk in range(chunks):
            self.child.snapshot(
                reason=SnapshotReason.SPLIT,
                close=9,
                high=8,
                parents=(self.parent.as_parent(),),
                chunk=chunk,
                chunks=chunks,
            )
        self.feed = activation(
            [PLAIN.descriptor], replace(WITH_MARKERS, cursor=at(5.5)), start=at(5.5), feed_id="f"
        )
        self.run = Partitions(log, first)
        self.run.read(1, len(log.partitions[1]) - (chunks - 1))
        self.run.read(0, broken)
        self.run.driven[0].control(self.feed)
        self.run.read(0)
        self.run.exchange(0)
        (answer,) = self.run.sent[1]
        assert isinstance(answer, HandOff)
        assert (answer.complete, answer.resolved) == (False, at(6))
        assert [each.gaps for each in answer.told_gaps or () if each.feed == "f"] == [()]

    def hand_off(self) -> None:
        """Partition 1 takes the answer up, and applies nothing yet."""
        driven = self.run.driven[1]
        (message,) = self.run.sent[1]
        driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), message)]))

    def hear_of(self, *messages: ControlMessage) -> None:
        """Partition 1 takes up messages about feeds, in one step."""
        self.run.driven[1].control(*messages)

    def go_on(self) -> None:
        """The source answers everything that is asked for."""
        answered: set[int] = set()
        for now in range(12, 100, 20):
            self.log.wait_for(at(now + 2))
            self.child.heartbeat(now)
            self.run.read(1)
            for scan in scans_of(self.run, 1):
                if scan.request_id not in answered and scan.range_id == 3:
                    answered.add(scan.request_id)
                    self.child.scanned(scan, *([row_of(8, 150, "new")] if scan.span.contains(_ROW) else []))
        self.run.read(1)

    def require_complete(self) -> None:
        """Every marker of "f" is true, and they come to the end."""
        given: set[Timestamp] = set()
        resolved = at(0)
        for result in self.run.driven[1].results:
            given |= {timestamp_of(row) for row in rows_of(result, self.feed.feed_id)}
            checkpoint = result.checkpoint
            if checkpoint is None or self.feed.feed_id not in [each.feed_id for each in checkpoint.feeds]:
                continue
            for item in checkpoint.ranges:
                resolved = item.resolved
                assert resolved < at(8) or at(8) in given, "a marker covers a row that f was not given"
        assert resolved >= at(12)


_GONE = activation([PLAIN.descriptor], feed_id="g")
_ROW = PLAIN.key(150)


@pytest.mark.parametrize("steps", [1, 2], ids=["in one step", "in two"])
@pytest.mark.parametrize("answered", [True, False], ids=["while it scans", "while it waits for its parent"])
def test_a_range_that_was_let_go_on_waits_again_for_a_feed_that_comes_before_it_has_gone_on(
    answered: bool, steps: int
) -> None:
    case = _NeededAgain(_GONE)
    if answered:
        case.hand_off()
    forget = Remove(_GONE.feed_id, _GONE.definition.epoch)
    if steps == 1:
        case.hear_of(forget, case.feed)
    else:
        case.hear_of(forget)
        case.hear_of(case.feed)
    if not answered:
        case.hand_off()
    case.go_on()
    case.require_complete()


@pytest.mark.parametrize("scanned", [False, True], ids=["before its scan", "behind its scan"])
def test_a_feed_that_comes_when_a_range_has_its_answers_and_not_its_snapshot_is_given_what_they_lack(
    scanned: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Feed "g" begins at 7 s, so what is scanned for is not enough for "f"; or at 8 s, and misses nothing."""
    start = at(7) if scanned else at(8)
    options = replace(WITH_MARKERS, initial_scan=InitialScan.YES) if not scanned else WITH_MARKERS
    first = activation([PLAIN.descriptor], options, start=start, feed_id="g")
    case = _NeededAgain(first)
    case.hand_off()
    if scanned:
        (scan,) = scans_of(case.run, 1)
        case.child.scanned(scan, row_of(8, 150, "new"))
        with monkeypatch.context() as patch:
            patch.setattr(log_step, "_DRAIN_MAX", 0)  # other ranges' backlogs have used up the step's room
            case.run.driven[1].step(
                case.log.partitions[1][int(case.run.driven[1].processor.next_offset or 0) :]
            )
    assert case.run.driven[1].processor.ready
    case.hear_of(case.feed)
    case.go_on()
    case.require_complete()


@pytest.mark.parametrize("detached", [False, True])
def test_a_feed_that_comes_between_two_chunks_of_a_snapshot_is_given_what_the_range_was_not_handed(
    detached: bool,
) -> None:
    """The range waited for nobody at the first chunk, and takes what it is told by the last one for true."""
    case = _NeededAgain(activation([OTHER.descriptor], feed_id="other"), chunks=2)
    assert case.run.parked() == []
    case.hand_off()
    driven = case.run.driven[1]
    if detached:
        rows = ((table, key, value) for (table, key), value in driven.state.items())
        driven.processor = PartitionProcessor.restore(1, 2, ProcessorConfig(detachable=True), rows)
    case.hear_of(case.feed)
    if detached:
        driven.note(driven.processor.detach(case.feed.feed_id, []))
        driven.note(driven.processor.resume(case.feed.feed_id))
    case.go_on()
    case.require_complete()


@pytest.mark.parametrize("breaks", [False, True])
def test_what_a_parent_said_for_a_snapshot_that_was_left_out_says_nothing_of_keys_that_left_and_came_back(
    breaks: bool,
) -> None:
    """Range 1 takes 3 over while it is in a hole, splits its keys off as range 2, and takes that over.

    Feed "f" misses nothing that range 3 wrote, and everything of range 2, in whose partition it began later.
    """
    log = HandLog(3)
    log.describe(PLAIN)
    low, rest = PLAIN.split(100)
    heir, first = log.open_range(1, low), log.open_range(3, rest)
    heir.apply(PLAIN.put(2, 1, "heir"), close=3)
    first.apply(PLAIN.put(2, 150, "first"), close=3)
    log.write_bytes(1, encode_key(RangeId(1)), b"\xff\xff")
    heir.index += 1
    heir.merge(first, close=4)
    second = heir.split(MIDDLE, 2, close=5)
    late = activation([PLAIN.descriptor], replace(WITH_MARKERS, cursor=at(1)), start=at(1), feed_id="f")
    run = Partitions(log, _GONE)
    for number in (0, 1):
        run.driven[number].control(late)
    run.read(1)
    assert [type(message) for message in run.sent[0]] == [Claim]
    assert run.parked() == []
    run.read(2)
    run.exchange(1)
    run.exchange(2)
    (scan,) = scans_of(run, 2)
    second.scanned(scan, row_of(2, 150, "first"))
    second.apply(PLAIN.put(6, 150, "second"), close=6)
    if breaks:
        log.write_bytes(2, encode_key(RangeId(2)), b"\xff\xff")
        second.index, second.high = second.index + 1, 7
    heir.merge(second, close=8)
    run.read(2)
    run.read(1)
    assert run.parked() == [(1, (2,))]
    for number in (0, 2) if breaks else (2, 0):
        run.read(number)
        run.exchange(number)
    run.driven[2].control(late)
    run.exchange(1)
    assert run.parked() == ([(1, ())] if breaks else [])
    heir.heartbeat(12)
    run.read(1)
    assert [(each.feed_id, each.complete_to) for each in run.driven[1].processor.status().with_gaps] == [
        ("f", at(1))
    ]


def test_what_a_parent_said_counts_for_the_scan_that_takes_the_place_of_the_first() -> None:
    """A feed that missed nothing there is not scanned for from its start when the range's span changes."""
    case = _NeededAgain(_GONE)
    case.hear_of(case.feed)
    case.hand_off()
    (scan,) = scans_of(case.run, 1)
    assert scan.after == at(6)
    case.child.split(UPPER, 4, close=10)
    case.run.read(1)
    assert [each.after for each in scans_of(case.run, 1)] == [at(6), at(6)]
    assert case.run.driven[1].processor.status().with_gaps == ()
    case.go_on()
    assert {each.after for each in scans_of(case.run, 1)} == {at(6)}
    case.require_complete()
