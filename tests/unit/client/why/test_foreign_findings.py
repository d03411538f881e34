"""Tests what ``tidegate why`` says of records that a feed may wait for, and that are not ours."""

from __future__ import annotations

import pytest

from tests.hand_log import at
from tests.unit.client.why.hand_evidence import (
    NOW,
    SPAN,
    URL,
    evidence,
    explain,
    held,
    live,
    passed_over,
    view,
)
from tidegate.changefeed.definition.feed import FeedState
from tidegate.client.why.evidence import FrontierEvidence
from tidegate.client.why.explanation import Explanation
from tidegate.client.why.finding import Cause


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
    fresh = at(NOW - 3)
    frontier = FrontierEvidence(URL, fresh, SPAN, fresh, resolved_interval_ms=0)
    found = evidence(
        live(7, SPAN, resolved=fresh), frontier=frontier, foreign=(passed_over("app-checkpoints"),)
    )
    assert foreign_in(explain(found)) == []


def test_nobody_waits_for_a_record_of_a_changelog_and_a_few_of_many_are_named() -> None:
    topics = ["app-ranges-changelog", "app-jobs", "app-control", "app-handoff", "app-checkpoints"]
    explanation = explain(evidence(held(), foreign=tuple(map(passed_over, topics))))
    assert foreign_in(explanation) == ["app-jobs", "app-control", "app-handoff"]
