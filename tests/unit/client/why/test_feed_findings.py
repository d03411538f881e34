"""Tests what ``tidegate why`` says of a feed itself: its end, markers and frontier, and silent workers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.hand_log import at
from tests.unit.client.why.hand_evidence import (
    FEED,
    NOW,
    SPAN,
    STUCK,
    answer,
    evidence,
    explain,
    fresh,
    live,
    view,
)
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.job_records import DropRecord
from tidegate.client.kafka.cluster import GroupMember
from tidegate.client.why.evidence import FrontierEvidence
from tidegate.client.why.finding import Cause
from tidegate.verify import TopicPartition


@pytest.mark.parametrize(
    ("frontier", "cause", "words"),
    [
        (fresh(markers_wait="the registry is away"), Cause.MARKERS, "markers wait: the registry is away"),
        (fresh(resolved_interval_ms=600_000), Cause.MARKERS, f"The last marker is {STUCK}"),
        (fresh(resolved_interval_ms=None), Cause.MARKERS, "no option resolved"),
        (fresh(persisted=STUCK), Cause.FRONTIER, "do not commit"),
    ],
    ids=["registry", "interval", "none", "not durable"],
)
def test_what_markers_wait_for_is_the_answer_when_the_high_water_is_fine(
    frontier: FrontierEvidence, cause: Cause, words: str
) -> None:
    answer(evidence(live(7, SPAN, resolved=at(NOW - 3)), frontier=frontier), cause, words)


def test_markers_that_wait_come_second_when_the_high_water_is_stuck() -> None:
    stuck = fresh(high_water=STUCK, resolved=STUCK, markers_wait="the registry is away")
    explanation = answer(evidence(live(7, SPAN, closed=STUCK), frontier=stuck), Cause.CLOSED)
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
    assert explanation.high_water == STUCK


# ---- feeds that do not run


def test_a_failed_feed_is_told_with_its_reason() -> None:
    answer(evidence(feed=view(FeedState.FAILED, "the table is gone")), Cause.FEED, "the table is gone")
    answer(evidence(feed=view(FeedState.SUCCEEDED)), Cause.FEED, "The feed has succeeded: its scan is")


def test_a_dropped_feed_is_told_as_such() -> None:
    dropped = replace(view(), drop=DropRecord(FEED.feed_id, requested_ns=1))
    answer(evidence(feed=dropped), Cause.FEED, "was dropped")


def test_a_pending_feed_names_the_partitions_that_have_no_worker() -> None:
    explanation = answer(
        evidence(feed=replace(view(), state=None, progress=None), partitions={1: None}, no_frontier=True),
        Cause.FEED,
        "pending",
    )
    assert "Log partition 1 is without a worker" in explanation.findings[1].sentence
