"""Tests what ``tidegate why`` says of the ranges that hold a feed back."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.hand_log import at, txn
from tests.unit.client.why.hand_evidence import (
    HIGH,
    NOW,
    SPAN,
    STUCK,
    URL,
    answer,
    evidence,
    held,
    live,
    parked,
    partition,
    push,
    text,
)
from tidegate.client.kafka.cluster import GroupMember
from tidegate.client.why.evidence import FrontierEvidence
from tidegate.client.why.finding import Cause
from tidegate.hlc import Timestamp
from tidegate.processor.range_facts import Condition, OpenTxn, ScanFacts
from tidegate.raftlog.entry import Offset
from tidegate.verify import TopicPartition


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
    young = OpenTxn(txn(5), b"", at(NOW - 5), at(NOW - 5), 1)
    resolved = at(NOW - 5).prev().floor()
    frontier = FrontierEvidence(URL, resolved, SPAN, resolved, resolved_interval_ms=0)
    found = evidence(live(7, SPAN, txn=young, resolved=resolved), frontier=frontier)
    answer(found, Cause.TRANSACTION, "It has not been pushed", "a transaction this young is usual")


def test_a_transaction_above_the_closed_timestamp_holds_nothing() -> None:
    later = OpenTxn(txn(5), b"", at(60), at(60), 1)
    answer(evidence(live(7, SPAN, txn=later, closed=STUCK)), Cause.CLOSED)


# ---- the closed timestamp


def test_a_source_that_closes_nothing_is_named_with_the_lag() -> None:
    explanation = answer(
        evidence(live(7, SPAN, closed=STUCK)),
        Cause.CLOSED,
        f"the source has not closed a timestamp since {STUCK}, 80.0 s behind the present",
        "log partition 1 was read up to offset 501",
        "its end",
    )
    assert explanation.answer.facts["closed_lag_ms"] == 80_000


# ---- ranges that are not live


def test_a_quarantined_range_is_named_with_cause_and_offset() -> None:
    hole = live(7, SPAN, condition=Condition.QUARANTINED, offset=Offset(312), cause="index 5 is missing")
    explanation = answer(
        evidence(hole), Cause.QUARANTINED, "Range 7", "since offset 312", "index 5 is missing", "Snapshot"
    )
    assert explanation.answer.facts["offset"] == 312


def test_a_scan_is_told_with_how_far_it_is() -> None:
    scan = ScanFacts(SPAN, HIGH.start, at(20), at(90), at(NOW - 12).wall_ms)
    healing = live(
        7, SPAN, condition=Condition.HEALING, offset=Offset(312), cause="a gap", entries=9, scan=scan
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
    scan = ScanFacts(SPAN, SPAN.start, at(20), at(90), at(NOW - 1).wall_ms)
    answer(
        evidence(live(7, SPAN, condition=Condition.HEALING, scan=scan)), Cause.HEALING, "has brought nothing"
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
    answer(evidence(live(7, SPAN, condition=condition, entries=9, offset=Offset(312))), cause, words)


def test_a_timestamp_of_nothing_closed_is_said_in_words() -> None:
    answer(evidence(live(7, SPAN, closed=Timestamp(0))), Cause.CLOSED, "has not closed any timestamp yet")


# ---- clocks that differ


def test_a_source_whose_clock_is_ahead_of_this_machine_s_is_said_to_be_ahead() -> None:
    """A time that lies ahead is no negative age. Programs get the figure with its sign."""
    ahead = at(NOW + 0.212)
    frontier = FrontierEvidence(URL, ahead, SPAN, ahead, resolved_interval_ms=0)
    explanation = answer(
        evidence(live(7, SPAN, resolved=ahead, closed=ahead), frontier=frontier),
        Cause.NOTHING,
        "the source closes timestamps 212 ms ahead of this machine's clock",
    )
    assert explanation.lag_ms == -212
    assert re.search(r"^lag +212 ms ahead of this machine's clock$", text(explanation), re.MULTILINE)


def test_what_a_range_told_after_its_partition_is_no_negative_duration() -> None:
    """The worker is asked for its partitions first, and then for the ranges of the span."""
    later = at(NOW + 1)
    read = {1: partition(1, log_time_ms=at(NOW).wall_ms)}
    scan = ScanFacts(SPAN, SPAN.start, at(20), at(90), later.wall_ms)
    answer(
        evidence(live(7, SPAN, condition=Condition.HEALING, scan=scan), partitions=read),
        Cause.HEALING,
        "went on, 0 ms ago",
    )
    answer(
        evidence(replace(parked(), since_ms=later.wall_ms), partitions=read), Cause.PARKED, "waited for 0 ms"
    )
    open_txn = OpenTxn(txn(5), b"", later, at(30), 1)
    pushed = push(asked_ms=later.wall_ms, oldest_at=at(30))
    answer(
        evidence(live(7, SPAN, txn=open_txn, push=pushed), partitions=read),
        Cause.TRANSACTION,
        "open for 0 ms",
        "the last time 0 ms ago",
    )
