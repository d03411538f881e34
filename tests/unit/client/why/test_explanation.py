"""Why a feed's resolved timestamp stands still: each cause is told from the others, with its place."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.feeds import activation
from tests.hand_log import at, txn
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.job_records import DropRecord, ProgressRecord, StateRecord
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
    OverlapEvidence,
    PartitionEvidence,
    RegistryEvidence,
    Workers,
    read_workers,
)
from tidegate.client.why.explanation import Explanation
from tidegate.client.why.finding import Cause, size
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp
from tidegate.processor.push_policy import LastPush
from tidegate.processor.range_facts import Condition, OpenTxn, RangeFacts, ScanFacts
from tidegate.processor.status import RangesIn, RangeSpan
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span
from tidegate.verify import TopicPartition
from tidegate.worker.operations.report import (
    DeliveryReport,
    ForeignReport,
    LaggingReport,
    PartitionReport,
    WorkerReport,
)

_NOW: Final = 100.0
_FEED: Final = activation([PLAIN.descriptor], feed_id="bank")
(_SPAN,) = _FEED.targets[0].spans
_LOW, _HIGH = (Span(max(part.start, _SPAN.start), min(part.end, _SPAN.end)) for part in PLAIN.split(100))
_STUCK: Final = at(20)
_URL: Final = "http://127.0.0.1:9464"


def view(state: FeedState = FeedState.RUNNING, error: str = "") -> FeedView:
    """The feed as the jobs topic tells it."""
    epoch = _FEED.definition.epoch
    return FeedView(
        _FEED.definition,
        state=StateRecord(_FEED.feed_id, epoch, state, ZERO, _FEED.targets, error=error),
        progress=ProgressRecord(_FEED.feed_id, epoch, ResolvedTimestamp(_STUCK), {}),
    )


def live(range_id: int, span: Span, **more: Any) -> RangeFacts:
    """A range of generation 2 that is as far as the frontier, and closed 3 s behind the present."""
    facts = RangeFacts(
        RangeId(range_id), Generation(2), Condition.LIVE, span, resolved=_STUCK, closed=at(_NOW - 3)
    )
    return replace(facts, **more)


def ranges(*facts: RangeFacts) -> dict[int, RangesIn]:
    """These ranges, in the partitions where they belong."""
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
    present = PartitionEvidence(number, "running", _URL, 500 + number, 0, at(_NOW).wall_ms)
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
        _URL, _STUCK, _SPAN, _STUCK, persisted=_STUCK, marker=_STUCK, resolved_interval_ms=0
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
        _FEED.feed_id,
        feed or view(),
        at(_NOW).wall_ms,
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
    """What ``tidegate why`` prints; no part of it is a Python value that nobody meant to show."""
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


# ---- nothing holds it back


def test_a_high_water_at_the_closed_timestamp_is_held_back_by_nothing() -> None:
    fresh = at(_NOW - 3)
    frontier = FrontierEvidence(_URL, fresh, _SPAN, fresh, resolved_interval_ms=0)
    found = evidence(live(7, _SPAN, resolved=fresh), frontier=frontier)
    explanation = answer(found, Cause.NOTHING, "Nothing holds it back", "3.0 s behind the present")
    assert explanation.lag_ms == 3_000
    assert len(explanation.findings) == 1


def test_a_frontier_that_is_a_moment_behind_its_ranges_is_held_back_by_nothing() -> None:
    frontier = FrontierEvidence(_URL, at(_NOW - 4), _SPAN, at(_NOW - 4), resolved_interval_ms=0)
    answer(evidence(live(7, _SPAN, resolved=at(_NOW - 3)), frontier=frontier), Cause.NOTHING)


# ---- transactions and pushes


def held(**more: Any) -> RangeFacts:
    """A range with a transaction that is open since second 21, with three intents."""
    open_txn = OpenTxn(txn(5), PLAIN.key(17), at(21), at(21), 3)
    return live(7, _SPAN, txn=open_txn, open_transactions=4, **more)


def push(**more: Any) -> LastPush:
    """The transaction was pushed four times, the last time three seconds ago."""
    return replace(LastPush(at(_NOW - 3).wall_ms, 4, txn(5), at(21), 1, 0, 0), **more)


def test_an_open_transaction_is_named_with_age_intents_and_anchor() -> None:
    explanation = answer(
        evidence(held(push=push())),
        Cause.TRANSACTION,
        f"Transaction {txn(5).hex()} has been open for 79.0 s",
        "3 intents",
        "range 7 (generation 2, log partition 1)",
        "3 more are open",
        "plain/1/17",
        "pushed 4 times, the last time 3.0 s ago, and no answer has come",
        "reads requests",
    )
    facts = explanation.answer.facts
    assert (facts["partition"], facts["offset"], facts["range_id"], facts["generation"]) == (1, 501, 7, 2)
    assert facts["transaction"]["age_ms"] == 79_000
    assert facts["last_push"]["tries"] == 4


def test_that_pushing_is_switched_off_is_said() -> None:
    answer(evidence(held(), push_enabled=False), Cause.TRANSACTION, "Pushing is switched off (push_enabled)")


def test_a_push_that_was_answered_says_that_the_transaction_is_alive() -> None:
    answered = push(oldest_at=at(20.5), moved=1)
    answer(evidence(held(push=answered)), Cause.TRANSACTION, "the answer moved it", "commit or roll back")


def test_a_push_of_others_is_told_with_its_outcome() -> None:
    others = push(oldest=txn(4), txns=3, ended=1, moved=1)
    answer(evidence(held(push=others)), Cause.TRANSACTION, "1 ended, 1 moved, 1 without an answer")


def test_a_young_transaction_is_said_to_be_usual() -> None:
    young = OpenTxn(txn(5), b"", at(_NOW - 5), at(_NOW - 5), 1)
    resolved = at(_NOW - 5).prev().floor()
    frontier = FrontierEvidence(_URL, resolved, _SPAN, resolved, resolved_interval_ms=0)
    found = evidence(live(7, _SPAN, txn=young, resolved=resolved), frontier=frontier)
    answer(found, Cause.TRANSACTION, "It has not been pushed", "a transaction this young is usual")


def test_a_transaction_above_the_closed_timestamp_holds_nothing() -> None:
    later = OpenTxn(txn(5), b"", at(60), at(60), 1)
    answer(evidence(live(7, _SPAN, txn=later, closed=_STUCK)), Cause.CLOSED)


# ---- the closed timestamp


def test_a_source_that_closes_nothing_is_named_with_the_lag() -> None:
    explanation = answer(
        evidence(live(7, _SPAN, closed=_STUCK)),
        Cause.CLOSED,
        f"the source has not closed a timestamp since {_STUCK}, 80.0 s behind the present",
        "log partition 1 was read up to offset 501",
        "its end",
    )
    assert explanation.answer.facts["closed_lag_ms"] == 80_000


# ---- ranges that are not live


def test_a_quarantined_range_is_named_with_cause_and_offset() -> None:
    hole = live(7, _SPAN, condition=Condition.QUARANTINED, offset=Offset(312), cause="index 5 is missing")
    explanation = answer(
        evidence(hole), Cause.QUARANTINED, "Range 7", "since offset 312", "index 5 is missing", "Snapshot"
    )
    assert explanation.answer.facts["offset"] == 312


def test_a_scan_is_told_with_how_far_it_is() -> None:
    scan = ScanFacts(_SPAN, _HIGH.start, at(20), at(90), at(_NOW - 12).wall_ms)
    healing = live(
        7, _SPAN, condition=Condition.HEALING, offset=Offset(312), cause="a gap", entries=9, scan=scan
    )
    answer(
        evidence(healing),
        Cause.HEALING,
        "heals after a hole (a gap)",
        "has come to plain/1/100/0 of the keys",
        "12.0 s ago",
        "9 entries wait",
    )


def test_a_scan_that_has_brought_nothing_is_told_as_such() -> None:
    scan = ScanFacts(_SPAN, _SPAN.start, at(20), at(90), at(_NOW - 1).wall_ms)
    answer(
        evidence(live(7, _SPAN, condition=Condition.HEALING, scan=scan)), Cause.HEALING, "has brought nothing"
    )


def parked(**more: Any) -> RangeFacts:
    """A child that has waited for 45 s for the hand-off of range 5, which is in partition 2."""
    return live(
        7,
        _SPAN,
        condition=Condition.PARKED,
        resolved=ZERO,
        offset=Offset(312),
        entries=9,
        since_ms=at(_NOW - 45).wall_ms,
        parents=(RangeId(5),),
        **more,
    )


def test_a_parked_range_is_told_with_parents_age_and_backlog() -> None:
    explanation = answer(
        evidence(parked()),
        Cause.PARKED,
        "parked at offset 312",
        "45.0 s of the log's time for the hand-off of range 5 (log partition 2, running)",
        "9 entries",
        "scans if 600 s of log time behind that bring nothing of the parent",
    )
    assert (explanation.answer.facts["parents"], explanation.answer.facts["waiting_ms"]) == ([5], 45_000)


def test_a_parent_without_a_worker_is_said_to_have_none() -> None:
    found = evidence(parked(), partitions={2: None})
    answer(found, Cause.PARKED, "range 5 (log partition 2, without a worker)")


def test_a_parent_on_a_worker_that_was_not_asked_names_that_worker() -> None:
    other = GroupMember("w2", "10.0.0.2", frozenset({TopicPartition("raftlog", 2)}))
    found = evidence(parked(), partitions={2: None}, members=(other,))
    answer(found, Cause.PARKED, "log partition 2, on the worker w2 at 10.0.0.2, which was not asked")


@pytest.mark.parametrize(
    ("condition", "cause", "words"),
    [
        (Condition.CATCHING_UP, Cause.CATCHING_UP, "9 entries from offset 312 on"),
        (Condition.CHANGING, Cause.SNAPSHOT, "has split or merged"),
        (Condition.STARTING, Cause.SNAPSHOT, "its first Snapshot is not complete"),
    ],
)
def test_other_conditions_are_told(condition: Condition, cause: Cause, words: str) -> None:
    answer(evidence(live(7, _SPAN, condition=condition, entries=9, offset=Offset(312))), cause, words)


def test_a_hole_is_named_before_what_passes_by_itself() -> None:
    hole = live(7, _HIGH, condition=Condition.QUARANTINED, offset=Offset(3), cause="a gap")
    explanation = answer(evidence(live(6, _LOW), hole), Cause.QUARANTINED)
    assert "Ranges 6 are not further" in explanation.findings[1].sentence


# ---- partitions


def test_rows_without_an_acknowledgement_are_named_with_their_age() -> None:
    waiting = partition(1, inflight_rows=40, oldest_unacknowledged_ms=62_000)
    found = evidence(live(7, _SPAN, resolved=at(90)), partitions={1: waiting})
    explanation = answer(found, Cause.SINK, "40 rows are not acknowledged, the oldest for 62.0 s")
    assert explanation.answer.facts["oldest_unacknowledged_ms"] == 62_000


def test_a_partition_that_waits_for_a_registry_names_it() -> None:
    wait = RegistryEvidence(_URL, "bank", "http://registry:8081", 9_000, "it does not answer")
    found = evidence(
        live(7, _SPAN, resolved=at(90)), partitions={1: partition(1, state="waiting")}, registries=(wait,)
    )
    answer(found, Cause.REGISTRY, "at offset 501", "http://registry:8081 for feed bank (it does not answer)")


def test_a_held_partition_names_the_feed_that_holds_it() -> None:
    found = evidence(
        live(7, _SPAN, closed=_STUCK), partitions={1: partition(1, state="held", held_for=("new",))}
    )
    answer(found, Cause.HELD, "Log partition 1 is held at offset 501 for the start of the new feed new")


def test_a_worker_that_is_behind_with_the_log_is_told_from_a_source_that_closes_nothing() -> None:
    behind = partition(1, lag_records=12_000, log_time_ms=at(21).wall_ms)
    found = evidence(live(7, _SPAN, closed=_STUCK), partitions={1: behind})
    answer(found, Cause.READING, "12000 records behind its end", "79.0 s behind the present")


def test_a_partition_that_is_restored_is_named_when_the_span_may_be_there() -> None:
    found = evidence(live(6, _LOW), partitions={1: partition(1, state="restoring")})
    answer(found, Cause.RESTORING, "Log partition 1 is being restored")


def test_a_partition_without_a_worker_is_named_when_the_span_may_be_there() -> None:
    answer(
        evidence(live(6, _LOW), partitions={1: None}), Cause.WORKERS, "Log partition 1 is without a worker"
    )


def test_a_partition_that_nobody_has_does_not_matter_when_the_span_is_elsewhere() -> None:
    answer(evidence(live(6, _SPAN, closed=_STUCK), partitions={1: None}), Cause.CLOSED)


# ---- the set of ranges


def test_keys_that_no_range_has_are_named() -> None:
    explanation = answer(
        evidence(live(6, _LOW)),
        Cause.UNCOVERED,
        "Keys from plain/1/100/0 to ",
        "were reported by nobody: no range in any of the 3 log partitions has them",
    )
    assert len(explanation.findings) == 1
    assert explanation.answer.facts["gaps"] == [{"start": _HIGH.start.hex(), "end": _HIGH.end.hex()}]


def test_no_gap_is_claimed_where_not_all_ranges_are_told_of() -> None:
    found = evidence(live(6, _LOW, closed=_STUCK))
    cut = {number: replace(each, complete=False) for number, each in found.ranges.items()}
    answer(replace(found, ranges=cut), Cause.CLOSED)


def test_keys_that_two_ranges_have_are_named() -> None:
    explanation = explain(evidence(live(6, _SPAN, closed=_STUCK), live(8, _HIGH)))
    (overlap,) = [each for each in explanation.findings if each.cause is Cause.OVERLAP]
    assert (
        "Ranges 6 (generation 2) and 8 (generation 2) both have the keys from plain/1/100" in overlap.sentence
    )


def test_a_parked_child_and_its_parent_do_not_overlap() -> None:
    explanation = explain(evidence(live(6, _SPAN), replace(parked(), span=_HIGH)))
    assert Cause.OVERLAP not in {each.cause for each in explanation.findings}


# ---- the frontier and its markers


def test_checkpoints_that_the_frontier_has_not_are_named() -> None:
    answer(evidence(live(7, _SPAN, resolved=at(90))), Cause.FRONTIER, "The frontier is behind", str(at(90)))


def fresh(**more: Any) -> FrontierEvidence:
    """A frontier that nothing holds back."""
    high_water = at(_NOW - 3)
    known = FrontierEvidence(
        _URL, high_water, _SPAN, high_water, persisted=high_water, marker=_STUCK, resolved_interval_ms=0
    )
    return replace(known, **more)


@pytest.mark.parametrize(
    ("frontier", "cause", "words"),
    [
        (fresh(markers_wait="the registry is away"), Cause.MARKERS, "markers wait: the registry is away"),
        (fresh(resolved_interval_ms=600_000), Cause.MARKERS, f"The last marker is {_STUCK}"),
        (fresh(resolved_interval_ms=None), Cause.MARKERS, "no option resolved"),
        (fresh(persisted=_STUCK), Cause.FRONTIER, "do not commit"),
    ],
    ids=["registry", "interval", "none", "not durable"],
)
def test_what_markers_wait_for_is_the_answer_when_the_high_water_is_fine(
    frontier: FrontierEvidence, cause: Cause, words: str
) -> None:
    answer(evidence(live(7, _SPAN, resolved=at(_NOW - 3)), frontier=frontier), cause, words)


def test_markers_that_wait_come_second_when_the_high_water_is_stuck() -> None:
    stuck = fresh(high_water=_STUCK, resolved=_STUCK, markers_wait="the registry is away")
    explanation = answer(evidence(live(7, _SPAN, closed=_STUCK), frontier=stuck), Cause.CLOSED)
    assert explanation.findings[-1].cause is Cause.MARKERS


def test_a_frontier_that_nobody_keeps_is_named() -> None:
    answer(evidence(no_frontier=True), Cause.WORKERS, "partition 0 of app-checkpoints has no owner")


def test_a_frontier_on_a_worker_that_was_not_asked_names_that_worker() -> None:
    keeper = GroupMember("w2", "10.0.0.2", frozenset({TopicPartition("app-checkpoints", 0)}))
    found = evidence(no_frontier=True, members=(keeper,))
    answer(found, Cause.WORKERS, "kept by the worker w2 at 10.0.0.2, which was not asked")


def test_workers_that_do_not_answer_are_listed() -> None:
    explanation = explain(evidence(no_frontier=True, silent=("The worker at x does not answer.",)))
    assert [each.sentence for each in explanation.findings[1:]] == ["The worker at x does not answer."]
    assert explanation.high_water == _STUCK


# ---- feeds that lag


def lagging(partition: int, complete_to: Timestamp | None, **more: Any) -> LaggingEvidence:
    """A feed that lacks rows of two ranges of a partition, one of which is being scanned."""
    return replace(LaggingEvidence(partition, 2, complete_to, RangeId(partition), 1, 3_600_000), **more)


def test_a_feed_that_lags_is_told_with_its_partitions_and_ranges_the_least_far_first() -> None:
    """Its ranges are all further than its frontier, which is nobody's fault."""
    places = (lagging(1, at(30)), lagging(2, None, ranges=1, scans=0, gc_reserve_ms=10**9))
    found = evidence(live(7, _LOW, resolved=at(90)), live(8, _HIGH, resolved=at(90)), lagging=places)
    explanation = answer(
        found,
        Cause.LAGGING,
        "lacks rows of 1 range of log partition 2",
        "the initial scan has not come to the end of range 2",
        "No scan is under way there",
    )
    assert [each.cause for each in explanation.findings] == [Cause.LAGGING] * 2
    second = explanation.findings[1].sentence
    assert "lacks rows of 2 ranges of log partition 1" in second
    assert f"of range 1 it has what was committed up to {at(30)}, 70.0 s behind the present" in second
    assert "There is 1 scan under way; should that not change, check that the source reads requests" in second
    assert "is 60 min above what the store has removed" in second
    assert "the store has removed" not in explanation.answer.sentence


def test_a_scan_that_nobody_answers_is_named_with_its_range_request_and_age() -> None:
    scan = {"standing_range": RangeId(2), "standing_request": 61, "standing_ms": 1_200_000}
    answer(
        evidence(lagging=(lagging(1, at(30), **scan),)),
        Cause.LAGGING,
        "that of range 2 has brought nothing for 20 min of the log's time",
        "last by request 61",
        "if it has no such range any more, have it write the range's RangeEnd",
    )
    young = answer(evidence(lagging=(lagging(1, at(30), **scan | {"standing_ms": 90_000}),)), Cause.LAGGING)
    assert "request 61" not in young.answer.sentence


def test_what_keeps_a_lagging_feed_from_catching_up_is_told_as_well() -> None:
    broken = live(7, _SPAN, condition=Condition.QUARANTINED, cause="index 12 is missing", offset=Offset(9))
    explanation = answer(evidence(broken, lagging=(lagging(1, at(30)),)), Cause.LAGGING)
    assert explanation.findings[1].cause is Cause.QUARANTINED


@pytest.mark.parametrize(
    ("count", "rest"), [(5, "log partitions 3, 4"), (4, "log partition 3")], ids=["several", "one"]
)
def test_of_many_partitions_where_a_feed_lags_some_are_told_in_full(count: int, rest: str) -> None:
    explanation = answer(
        evidence(lagging=tuple(lagging(number, at(30)) for number in range(count))), Cause.LAGGING
    )
    sentences = [each.sentence for each in explanation.findings if each.cause is Cause.LAGGING]
    assert len(sentences) == 4
    assert sentences[-1] == f"So it does in {rest}."


def test_a_feed_whose_scan_is_not_done_has_no_high_water() -> None:
    stuck = FrontierEvidence(_URL, None, _SPAN, ZERO, resolved_interval_ms=0)
    explanation = answer(evidence(frontier=stuck, lagging=(lagging(1, None),)), Cause.LAGGING)
    assert (explanation.high_water, explanation.lag_ms) == (None, None)
    assert explanation.to_json()["high_water"] is None


def test_a_reserve_that_nobody_knows_is_no_figure() -> None:
    explanation = answer(evidence(lagging=(lagging(1, at(30), gc_reserve_ms=None),)), Cause.LAGGING)
    assert "the store has removed" not in explanation.answer.sentence
    assert explanation.answer.facts["gc_reserve_ms"] is None


# ---- sinks that do not follow


def delivery(partition: int, state: str, **more: Any) -> DeliveryEvidence:
    """How the feed's rows leave a partition: 2 KiB wait in memory, 3 MiB on disk."""
    return replace(DeliveryEvidence(partition, state, _URL, 2 << 10, 3 << 20), **more)


def test_a_spooling_sink_is_told_before_what_the_feed_lacks_and_before_its_frontier() -> None:
    """The gaps of a feed that is detached are not scanned for, so nothing is to be sought at the source."""
    further = (live(7, _LOW, resolved=at(90)), live(8, _HIGH, resolved=at(90)))
    places = (lagging(1, at(40), scans=0), lagging(2, at(50), scans=0))
    explanation = answer(
        evidence(*further, lagging=places, deliveries=(delivery(1, "spooling"), delivery(2, "catching up"))),
        Cause.SINK,
        "The sink 127.0.0.1:9 does not acknowledge the feed's rows of log partition 1",
        "detached there (spooling), 2.0 KiB of rows wait in its producer and 3.0 MiB in its spool",
        "Nothing is lost",
        "Check that the brokers of that cluster run",
        "docs/operations.md",
    )
    facts = explanation.answer.facts
    assert (facts["partition"], facts["state"], facts["worker"]) == (1, "spooling", _URL)
    assert (facts["waiting_bytes"], facts["spool_bytes"], facts["sink"]) == (2 << 10, 3 << 20, "127.0.0.1:9")
    assert [each.cause for each in explanation.findings] == [Cause.SINK, Cause.LAGGING, Cause.LAGGING]
    detached, attached = (each.sentence for each in explanation.findings[1:])
    assert "log partition 1" in detached
    assert "No scan is under way there: its sink has to follow first" in detached
    assert "others come first" in attached


def test_a_stalled_sink_is_told_before_one_that_is_spooling() -> None:
    both = (delivery(0, "live"), delivery(1, "spooling"), delivery(2, "stalled", spool_bytes=0))
    explanation = answer(
        evidence(live(7, _SPAN), deliveries=both),
        Cause.SINK,
        "log partition 2",
        "detached there (stalled)",
        "2.0 KiB of rows wait in its producer",
        "scans bring what it lacks",
        "gc.ttlseconds",
    )
    assert [each.facts["partition"] for each in explanation.findings if each.cause is Cause.SINK] == [2, 1]


@pytest.mark.parametrize("state", ["live", "catching up"])
def test_a_sink_that_follows_is_not_told_of(state: str) -> None:
    explanation = answer(
        evidence(live(7, _SPAN, closed=_STUCK), deliveries=(delivery(1, state),)), Cause.CLOSED
    )
    assert len(explanation.findings) == 1


def test_of_many_partitions_with_a_sink_that_does_not_follow_some_are_told_in_full() -> None:
    stuck = tuple(delivery(number, "spooling") for number in range(5))
    explanation = answer(evidence(deliveries=stuck), Cause.SINK)
    sentences = [each.sentence for each in explanation.findings if each.cause is Cause.SINK]
    assert len(sentences) == 4
    assert sentences[-1] == "So it is in log partitions 3, 4."


def test_a_sink_is_told_of_when_the_frontier_is_not_known() -> None:
    explanation = answer(evidence(no_frontier=True, deliveries=(delivery(1, "stalled"),)), Cause.WORKERS)
    assert explanation.findings[1].cause is Cause.SINK


def test_what_workers_say_of_the_feed_is_taken_and_not_what_they_say_of_others() -> None:
    partitions = tuple(
        PartitionReport(
            number,
            "running",
            lagging=(
                LaggingReport(number, "bank", 2, None, 7, 0, 0, None),
                LaggingReport(number, "other", 1, str(at(30)), 7, 0, 0, 5),
            ),
            deliveries=(
                DeliveryReport(number, "bank", "spooling", 10, 900),
                DeliveryReport(number, "other", "stalled", 20, 0),
            ),
        )
        for number in range(2)
    )
    reports = {
        f"http://w{each.partition}": WorkerReport("app", None, "raftlog", 2, 1, (each,)).as_json()
        for each in partitions
    }
    told = read_workers(_FEED.feed_id, json.loads(json.dumps(reports)))
    assert told.deliveries == (
        DeliveryEvidence(0, "spooling", "http://w0", 10, 900),
        DeliveryEvidence(1, "spooling", "http://w1", 10, 900),
    )
    assert told.lagging == tuple(LaggingEvidence(number, 2, None, RangeId(7), 0, None) for number in range(2))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 29, "1.5 GiB"),
        (2 << 40, "2048.0 GiB"),
    ],
)
def test_bytes_are_told_in_units(count: int, text: str) -> None:
    assert size(count) == text


# ---- feeds that do not run


def test_a_failed_feed_is_told_with_its_reason() -> None:
    answer(evidence(feed=view(FeedState.FAILED, "the table is gone")), Cause.FEED, "the table is gone")
    answer(evidence(feed=view(FeedState.SUCCEEDED)), Cause.FEED, "The feed has succeeded: its scan is")


def test_a_dropped_feed_is_told_as_such() -> None:
    dropped = replace(view(), drop=DropRecord(_FEED.feed_id, requested_ns=1))
    answer(evidence(feed=dropped), Cause.FEED, "was dropped")


def test_a_pending_feed_names_the_partitions_that_have_no_worker() -> None:
    explanation = answer(
        evidence(feed=replace(view(), state=None, progress=None), partitions={1: None}, no_frontier=True),
        Cause.FEED,
        "pending",
    )
    assert "Log partition 1 is without a worker" in explanation.findings[1].sentence


def test_keys_of_other_tables_are_shown_as_they_are() -> None:
    other = OpenTxn(txn(5), OTHER.key(3), at(21), at(21), 1)
    answer(evidence(live(7, _SPAN, txn=other)), Cause.TRANSACTION, "/Table/105/1/3")


def test_a_timestamp_of_nothing_closed_is_said_in_words() -> None:
    answer(evidence(live(7, _SPAN, closed=Timestamp(0))), Cause.CLOSED, "has not closed any timestamp yet")


# ---- clocks that differ


def test_a_source_whose_clock_is_ahead_of_this_machine_s_is_said_to_be_ahead() -> None:
    """A time that lies ahead is no negative age. Programs get the figure with its sign."""
    ahead = at(_NOW + 0.212)
    frontier = FrontierEvidence(_URL, ahead, _SPAN, ahead, resolved_interval_ms=0)
    explanation = answer(
        evidence(live(7, _SPAN, resolved=ahead, closed=ahead), frontier=frontier),
        Cause.NOTHING,
        "the source closes timestamps 212 ms ahead of this machine's clock",
    )
    assert explanation.lag_ms == -212
    assert re.search(r"^lag +212 ms ahead of this machine's clock$", text(explanation), re.MULTILINE)


def test_a_record_whose_time_is_ahead_of_this_machine_s_clock_is_not_minus_212_ms_old() -> None:
    read = {1: partition(1, log_time_ms=at(_NOW + 0.212).wall_ms)}
    answer(
        evidence(live(7, _SPAN, closed=_STUCK), partitions=read),
        Cause.CLOSED,
        "where a record is 212 ms ahead of this machine's clock, its end",
    )


def test_what_a_range_told_after_its_partition_is_no_negative_duration() -> None:
    """The worker is asked for its partitions first, and then for the ranges of the span."""
    later = at(_NOW + 1)
    read = {1: partition(1, log_time_ms=at(_NOW).wall_ms)}
    scan = ScanFacts(_SPAN, _SPAN.start, at(20), at(90), later.wall_ms)
    answer(
        evidence(live(7, _SPAN, condition=Condition.HEALING, scan=scan), partitions=read),
        Cause.HEALING,
        "went on, 0 ms ago",
    )
    answer(
        evidence(replace(parked(), since_ms=later.wall_ms), partitions=read), Cause.PARKED, "waited for 0 ms"
    )
    open_txn = OpenTxn(txn(5), b"", later, at(30), 1)
    pushed = push(asked_ms=later.wall_ms, oldest_at=at(30))
    answer(
        evidence(live(7, _SPAN, txn=open_txn, push=pushed), partitions=read),
        Cause.TRANSACTION,
        "open for 0 ms",
        "the last time 0 ms ago",
    )


def test_a_partition_that_has_read_no_record_has_no_age() -> None:
    unread = {1: partition(1, log_time_ms=0, next_offset=None, lag_records=70)}
    explanation = answer(
        evidence(live(7, _SPAN, closed=Timestamp(0)), partitions=unread),
        Cause.CLOSED,
        "has not closed any timestamp yet; log partition 1 has not been read yet",
    )
    assert "log            partition 1\n" in re.sub(r" {2,}", " " * 12, text(explanation))


# ---- every finding


def _world(cause: Cause) -> Evidence:
    """A world in which ``cause`` is one of the findings."""
    broken = {"offset": Offset(312), "cause": "a gap"}
    scan = ScanFacts(_SPAN, _SPAN.start, at(20), at(90), at(_NOW - 1).wall_ms)
    far = live(7, _SPAN, resolved=at(90))
    worlds: dict[Cause, Callable[[], Evidence]] = {
        Cause.NOTHING: lambda: evidence(
            live(7, _SPAN, resolved=at(_NOW - 3)), frontier=fresh(marker=at(_NOW - 3))
        ),
        Cause.FEED: lambda: evidence(feed=view(FeedState.FAILED, "the table is gone")),
        Cause.WORKERS: lambda: evidence(no_frontier=True, silent=("The worker at x does not answer.",)),
        Cause.RESTORING: lambda: evidence(
            feed=replace(view(), state=None), partitions={1: partition(1, state="restoring")}
        ),
        Cause.HELD: lambda: evidence(far, partitions={1: partition(1, held_for=("new",))}),
        Cause.REGISTRY: lambda: evidence(far, partitions={1: partition(1, state="waiting")}),
        Cause.SINK: lambda: evidence(deliveries=tuple(delivery(number, "stalled") for number in range(5))),
        Cause.READING: lambda: evidence(
            far, partitions={1: partition(1, lag_records=5, log_time_ms=at(30).wall_ms)}
        ),
        Cause.UNCOVERED: lambda: evidence(live(6, _LOW)),
        Cause.OVERLAP: lambda: evidence(
            live(6, _SPAN, closed=_STUCK), live(8, _HIGH), overlaps=(OverlapEvidence(_HIGH, (6, 8), (2, 2)),)
        ),
        Cause.QUARANTINED: lambda: evidence(live(7, _SPAN, condition=Condition.QUARANTINED, **broken)),
        Cause.HEALING: lambda: evidence(live(7, _SPAN, condition=Condition.HEALING, scan=scan, **broken)),
        Cause.PARKED: lambda: evidence(parked()),
        Cause.CATCHING_UP: lambda: evidence(
            live(7, _SPAN, condition=Condition.CATCHING_UP, entries=9, offset=Offset(312))
        ),
        Cause.LAGGING: lambda: evidence(
            lagging=tuple(lagging(number, at(30) if number else None) for number in range(5))
        ),
        Cause.SNAPSHOT: lambda: evidence(live(7, _SPAN, condition=Condition.CHANGING)),
        Cause.TRANSACTION: lambda: evidence(held(push=push())),
        Cause.CLOSED: lambda: evidence(live(7, _SPAN, closed=_STUCK)),
        Cause.FRONTIER: lambda: evidence(far),
        Cause.MARKERS: lambda: evidence(far, frontier=fresh(resolved_interval_ms=None)),
        Cause.FOREIGN: lambda: evidence(far, foreign=(passed_over("app-handoff"),)),
    }
    return worlds[cause]()


@pytest.mark.parametrize("cause", Cause, ids=lambda cause: cause.value)
def test_every_cause_can_be_printed_as_text_and_as_json(cause: Cause) -> None:
    """``explain`` of this file sends each finding through both, as the answer that it may be."""
    assert cause in {finding.cause for finding in explain(_world(cause)).findings}


def test_the_range_that_a_scanning_feed_waits_for_is_named_without_a_generation() -> None:
    printed = text(explain(evidence(lagging=(lagging(1, None),))))
    lines = [line.split(maxsplit=1) for line in printed.splitlines()]
    assert ["range", "1"] in lines
    assert ["log", "partition 1"] in lines


# ---- foreign records


def passed_over(topic: str, records: int = 3) -> ForeignEvidence:
    """Records that a worker has passed over."""
    return ForeignEvidence(_URL, topic, records, 2, 17, "a record of the topic cannot be read")


def foreign_in(explanation: Explanation) -> list[str]:
    """The topics whose foreign records an explanation names."""
    found = [each.facts["topic"] for each in explanation.findings if each.cause is Cause.FOREIGN]
    assert [each.cause for each in explanation.findings[len(explanation.findings) - len(found) :]] == [
        Cause.FOREIGN
    ] * len(found)
    return found


def test_foreign_records_are_named_behind_what_holds_the_feed_back() -> None:
    explanation = explain(evidence(held(), foreign=(passed_over("app-handoff"), passed_over("app-jobs", 1))))
    assert explanation.answer.cause is Cause.TRANSACTION
    assert foreign_in(explanation) == ["app-handoff", "app-jobs"]
    first, second = (each for each in explanation.findings if each.cause is Cause.FOREIGN)
    assert "3 records of app-handoff were passed over" in first.sentence
    assert "the last one in partition 2 at offset 17: a record of the topic cannot be read" in first.sentence
    assert "A record of app-jobs was passed over" in second.sentence


def test_a_feed_that_is_pending_may_wait_for_a_record_as_well() -> None:
    found = evidence(feed=view(FeedState.PENDING), foreign=(passed_over("app-control-acks"),))
    assert foreign_in(explain(found)) == ["app-control-acks"]


@pytest.mark.parametrize("state", [FeedState.FAILED, FeedState.SUCCEEDED])
def test_a_feed_that_has_ended_waits_for_no_record(state: FeedState) -> None:
    found = evidence(feed=view(state, "why"), foreign=(passed_over("app-jobs"),))
    assert foreign_in(explain(found)) == []


def test_where_nothing_holds_a_feed_back_foreign_records_are_not_named() -> None:
    fresh = at(_NOW - 3)
    frontier = FrontierEvidence(_URL, fresh, _SPAN, fresh, resolved_interval_ms=0)
    found = evidence(
        live(7, _SPAN, resolved=fresh), frontier=frontier, foreign=(passed_over("app-checkpoints"),)
    )
    assert foreign_in(explain(found)) == []


def test_nobody_waits_for_a_record_of_a_changelog_and_a_few_of_many_are_named() -> None:
    topics = ["app-ranges-changelog", "app-jobs", "app-control", "app-handoff", "app-checkpoints"]
    explanation = explain(evidence(held(), foreign=tuple(map(passed_over, topics))))
    assert foreign_in(explanation) == ["app-jobs", "app-control", "app-handoff"]


def test_foreign_records_are_read_from_what_workers_say_and_older_ones_say_nothing() -> None:
    report = WorkerReport(
        "app", None, "raftlog", 3, 1_000, foreign=(ForeignReport("app-jobs", 3, 0, 17, "no JSON"),)
    )
    status = report.as_json()
    told = read_workers(_FEED.feed_id, {_URL: status}).foreign
    assert told == (ForeignEvidence(_URL, "app-jobs", 3, 0, 17, "no JSON"),)
    del status["foreign_records"]
    assert read_workers(_FEED.feed_id, {_URL: status}).foreign == ()
