"""Evidence about one feed that is made by hand, and its explanation as people read it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any, Final

from tests.feeds import activation
from tests.hand_log import at, txn
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.job_records import ProgressRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.cli.why import print_explanation
from tidegate.client.kafka.cluster import GroupMember
from tidegate.client.why import explanation as explanations
from tidegate.client.why.evidence import (
    DeliveryEvidence,
    Evidence,
    ForeignEvidence,
    FrontierEvidence,
    LaggingEvidence,
    PartitionEvidence,
    Workers,
)
from tidegate.client.why.explanation import Explanation
from tidegate.client.why.finding import Cause
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp
from tidegate.processor.push_policy import LastPush
from tidegate.processor.range_facts import Condition, OpenTxn, RangeFacts
from tidegate.processor.status import RangesIn, RangeSpan
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span
from tidegate.verify import TopicPartition

NOW: Final = 100.0
FEED: Final = activation([PLAIN.descriptor], feed_id="bank")
(SPAN,) = FEED.targets[0].spans
LOW, HIGH = (Span(max(part.start, SPAN.start), min(part.end, SPAN.end)) for part in PLAIN.split(100))
STUCK: Final = at(20)
URL: Final = "http://127.0.0.1:9464"


def view(state: FeedState = FeedState.RUNNING, error: str = "") -> FeedView:
    """The feed as the jobs topic tells it."""
    epoch = FEED.definition.epoch
    return FeedView(
        FEED.definition,
        state=StateRecord(FEED.feed_id, epoch, state, ZERO, FEED.targets, error=error),
        progress=ProgressRecord(FEED.feed_id, epoch, ResolvedTimestamp(STUCK), {}),
    )


def live(range_id: int, span: Span, **more: Any) -> RangeFacts:
    """A range of generation 2 that is as far as the frontier, and closed 3 s behind the present."""
    facts = RangeFacts(
        RangeId(range_id), Generation(2), Condition.LIVE, span, resolved=STUCK, closed=at(NOW - 3)
    )
    return replace(facts, **more)


def ranges(*facts: RangeFacts) -> dict[int, RangesIn]:
    """Return these ranges, in the partitions where they belong."""
    found = {}
    for number in range(3):
        here = [each for each in facts if each.range_id % 3 == number]
        spans = [
            RangeSpan(each.range_id, each.generation, each.condition is Condition.LIVE, each.span)
            for each in here
            if each.span is not None
        ]
        found[number] = RangesIn(tuple(here), tuple(spans), complete=True)
    return found


def partition(number: int, **more: Any) -> PartitionEvidence:
    """A log partition that is read to its end."""
    present = PartitionEvidence(number, "running", URL, 500 + number, 0, at(NOW).wall_ms)
    return replace(present, **more)


def evidence(
    *facts: RangeFacts,
    feed: FeedView | None = None,
    partitions: Mapping[int, PartitionEvidence | None] | None = None,
    members: tuple[GroupMember, ...] | None = (),
    frontier: FrontierEvidence | None = None,
    no_frontier: bool = False,
    **workers: Any,
) -> Evidence:
    """A feed whose frontier is stuck at 20 s over all of its span, eighty seconds ago."""
    stuck = frontier or FrontierEvidence(
        URL, STUCK, SPAN, STUCK, persisted=STUCK, marker=STUCK, resolved_interval_ms=0
    )
    seen = {number: partition(number) for number in range(3)} | dict(partitions or {})
    told = Workers(
        "raftlog",
        3,
        tuple(each for each in seen.values() if each is not None),
        None if no_frontier else stuck,
        push_age_ms=10_000,
    )
    return Evidence(
        FEED.feed_id,
        feed or view(),
        at(NOW).wall_ms,
        replace(told, **workers),
        {number: found for number, found in ranges(*facts).items() if seen[number] is not None},
        members,
        TopicPartition("app-checkpoints", 0),
    )


def explain(found: Evidence) -> Explanation:
    """The explanation, of which every finding can be the answer: as text and as JSON."""
    explanation = explanations.explain(found)
    for finding in explanation.findings:
        alone = replace(explanation, findings=(finding,))
        assert finding.sentence in text(alone)
        shown = json.loads(json.dumps(alone.to_json()))
        assert shown["answer"]["sentence"] == finding.sentence
    return explanation


def text(explanation: Explanation) -> str:
    """Return what ``tidegate why`` prints; no part of it is a Python value that nobody meant to show."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        print_explanation(explanation)
    assert not re.search(r"\bNone\b|(?<![\w-])-\d", printed.getvalue()), printed.getvalue()
    return printed.getvalue()


def answer(found: Evidence, cause: Cause, *words: str) -> Explanation:
    """The explanation, whose first finding has this cause and these words."""
    explanation = explain(found)
    assert explanation.answer.cause is cause, explanation
    for word in words:
        assert word in explanation.answer.sentence, explanation.answer.sentence
    assert explanation.to_json()["answer"]["cause"] == cause.value
    return explanation


# ---- transactions and pushes


def held(**more: Any) -> RangeFacts:
    """A range with a transaction that is open since second 21, with three intents."""
    open_txn = OpenTxn(txn(5), PLAIN.key(17), at(21), at(21), 3)
    return live(7, SPAN, txn=open_txn, open_transactions=4, **more)


def push(**more: Any) -> LastPush:
    """The transaction was pushed four times, the last time three seconds ago."""
    return replace(LastPush(at(NOW - 3).wall_ms, 4, txn(5), at(21), 1, 0, 0), **more)


def parked(**more: Any) -> RangeFacts:
    """A child that has waited for 45 s for the hand-off of range 5, which is in partition 2."""
    return live(
        7,
        SPAN,
        condition=Condition.PARKED,
        resolved=ZERO,
        offset=Offset(312),
        entries=9,
        since_ms=at(NOW - 45).wall_ms,
        parents=(RangeId(5),),
        **more,
    )


def fresh(**more: Any) -> FrontierEvidence:
    """A frontier that nothing holds back."""
    high_water = at(NOW - 3)
    known = FrontierEvidence(
        URL, high_water, SPAN, high_water, persisted=high_water, marker=STUCK, resolved_interval_ms=0
    )
    return replace(known, **more)


# ---- feeds that lag


def lagging(partition: int, complete_to: Timestamp | None, **more: Any) -> LaggingEvidence:
    """A feed that misses rows of two ranges of a partition, one of which is being scanned."""
    return replace(LaggingEvidence(partition, 2, complete_to, RangeId(partition), 1, 3_600_000), **more)


# ---- sinks that do not follow


def delivery(partition: int, state: str, **more: Any) -> DeliveryEvidence:
    """Return how the feed's rows leave a partition: 2 KiB wait in memory, 3 MiB on disk."""
    return replace(DeliveryEvidence(partition, state, URL, 2 << 10, 3 << 20), **more)


# ---- foreign records


def passed_over(topic: str, records: int = 3) -> ForeignEvidence:
    """Records that a worker has passed over."""
    return ForeignEvidence(URL, topic, records, 2, 17, "a record of the topic cannot be read")
