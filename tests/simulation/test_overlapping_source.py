"""Two ranges with one key in the log: from its bytes to markers that wait, and to what people are told."""

from __future__ import annotations

import json
from dataclasses import replace

from agents.frontier import overlap_report
from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at
from tests.unit.client.why.hand_evidence import evidence
from tests.unit.processor.driving import Driven
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.client.why.evidence import FrontierEvidence, read_workers
from tidegate.client.why.explanation import Explanation, explain
from tidegate.client.why.finding import Cause
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.checkpoint import PartitionProgress, decode_report, encode_checkpoint
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.reference import ReferenceEngine
from tidegate.spans import Span
from tidegate.worker.markers.checkpoint_routes import CheckpointRoutes
from tidegate.worker.operations.report import WorkerReport

_TABLE = HandTable.of(104, "plain")
_LEFT, _RIGHT = _TABLE.split(100)
_COUNT = 3
_FEED = activation([_TABLE.descriptor], feed_id="bank")


class _Feed:
    """A publisher that does all but its writing."""

    def __init__(self, feed: Activate) -> None:
        self.definition = feed.definition
        spans = [span for target in feed.targets for span in target.spans]
        self.frontier: FeedFrontier | None = FeedFrontier(spans, ZERO, 0)

    @property
    def high_water(self) -> Timestamp:
        assert self.frontier is not None
        return self.frontier.high_water

    def apply(self, report: PartitionProgress) -> None:
        assert self.frontier is not None
        columns = (report.starts, report.ends, report.resolved)
        self.frontier.apply_columns(report.partition, report.offset, *columns)


class _Worker:
    """The partitions of a log and the frontier behind them, through the bytes of both topics."""

    def __init__(self) -> None:
        self.log = HandLog(_COUNT)
        self.feed = _Feed(_FEED)
        self._partitions = [Driven(PartitionProcessor(number, _COUNT)) for number in range(_COUNT)]
        self._read = [0] * _COUNT
        self._routes: CheckpointRoutes[_Feed] = CheckpointRoutes(lambda _: False)
        self._routes.begin(self.feed)
        for partition in self._partitions:
            partition.control(_FEED)

    def go_on(self) -> Timestamp:
        """Take what the log has; returns the high-water."""
        for number, records in enumerate(self.log.partitions):
            result = self._partitions[number].step(records[self._read[number] :])
            self._read[number] = len(records)
            if result.checkpoint is not None:
                self._routes.deliver([decode_report(encode_checkpoint(result.checkpoint))])
        return self.feed.high_water

    def why(self) -> Explanation:
        """Return what ``tidegate why`` says, by what this worker shows at ``/status``."""
        overlaps = tuple(map(overlap_report, self._routes.claims.overlaps))
        report = WorkerReport("app", None, "raftlog", _COUNT, 1, overlaps=overlaps)
        told = read_workers(FeedId("bank"), {"http://w": json.loads(json.dumps(report.as_json()))})
        assert self.feed.frontier is not None
        lowest = self.feed.frontier.spans.lowest_entry()
        assert lowest is not None
        span, resolved = lowest
        frontier = FrontierEvidence("http://w", resolved, span, resolved)
        found = evidence(frontier=frontier, overlaps=told.overlaps)
        return explain(replace(found, ranges={}))


def test_the_reference_engine_holds_markers_as_well() -> None:
    log = HandLog(1)
    log.describe(_TABLE)
    left, right, wrong = log.open_range(1, _LEFT), log.open_range(2, _RIGHT), log.open_range(3, _RIGHT)
    engine = ReferenceEngine(1, [_FEED])
    engine.step(0, log.partitions[0])
    taken = len(log.partitions[0])
    for second in (3, 5, 9):
        for each in (left, right, wrong):
            each.heartbeat(second)
        engine.step(0, log.partitions[0][taken:])
        taken = len(log.partitions[0])
        assert engine.high_water(_FEED.feed_id) == ZERO
    wrong.end()
    right.heartbeat(10)
    left.heartbeat(10)
    engine.step(0, log.partitions[0][taken:])
    assert engine.high_water(_FEED.feed_id) == at(10)


def test_markers_wait_while_two_ranges_have_a_key_and_go_on_when_one_has_ended() -> None:
    worker = _Worker()
    log = worker.log
    log.describe(_TABLE)
    left, right = log.open_range(1, _LEFT), log.open_range(2, _RIGHT)
    left.apply(_TABLE.put(2, 7, "a"), close=3)
    right.apply(_TABLE.put(2, 700, "b"), close=3)
    before = worker.go_on()
    assert before > ZERO
    assert Cause.OVERLAP not in {each.cause for each in worker.why().findings}

    wrong = log.open_range(3, _RIGHT)
    wrong.apply(_TABLE.put(3.5, 900, "c"), close=3.8)
    worker.go_on()
    for second in (5, 9):
        left.heartbeat(second)
        right.heartbeat(second)
        assert worker.go_on() == before
    answer = worker.why().answer
    assert answer.cause is Cause.OVERLAP
    assert "Ranges 2 (generation 1) and 3 (generation 1) have the keys from plain/1/100" in answer.sentence
    named = Span(bytes.fromhex(answer.facts["start"]), bytes.fromhex(answer.facts["end"]))
    assert named == _RIGHT.intersect(_FEED.targets[0].spans[0])

    wrong.end()
    right.heartbeat(10)
    left.heartbeat(10)
    worker.go_on()
    assert worker.go_on() > before
    assert Cause.OVERLAP not in {each.cause for each in worker.why().findings}


def test_very_many_ranges_over_the_same_keys_are_told_in_short_and_hold_markers_until_they_end() -> None:
    worker = _Worker()
    log = worker.log
    log.describe(_TABLE)
    left, right = log.open_range(1, _LEFT), log.open_range(2, _RIGHT)
    right.apply(_TABLE.put(2, 700, "b"), close=3)
    left.heartbeat(3)
    before = worker.go_on()
    assert before > ZERO

    wrong = [log.open_range(100 + number, _RIGHT) for number in range(200)]
    for second in (5, 9):
        for each in (left, right, *wrong):
            each.heartbeat(second)
        assert worker.go_on() == before
    answer = worker.why().answer
    assert answer.cause is Cause.OVERLAP
    assert "and 185 others have the keys" in answer.sentence
    assert len(answer.sentence) < 1_000

    for each in wrong:
        each.end()
    for second in (10, 11):
        left.heartbeat(second)
        right.heartbeat(second)
        worker.go_on()
    assert worker.go_on() > before
    assert Cause.OVERLAP not in {each.cause for each in worker.why().findings}
