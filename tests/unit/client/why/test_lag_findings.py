"""Tests what ``tidegate why`` says of feeds that catch up, and of sinks that do not follow."""

from __future__ import annotations

import pytest

from tests.hand_log import at
from tests.unit.client.why.hand_evidence import (
    HIGH,
    LOW,
    SPAN,
    STUCK,
    URL,
    answer,
    delivery,
    evidence,
    lagging,
    live,
)
from tidegate.client.why.finding import Cause
from tidegate.processor.range_facts import Condition
from tidegate.raftlog.entry import Offset, RangeId


def test_a_feed_that_lags_is_told_with_its_partitions_and_ranges_the_least_far_first() -> None:
    """Its ranges are all further than its frontier, which is nobody's fault."""
    places = (lagging(1, at(30)), lagging(2, None, ranges=1, scans=0, gc_reserve_ms=10**9))
    found = evidence(live(7, LOW, resolved=at(90)), live(8, HIGH, resolved=at(90)), lagging=places)
    explanation = answer(
        found,
        Cause.LAGGING,
        "misses versions of 1 range of log partition 2",
        "the initial scan has not come to the end of range 2",
        "No scan is under way there",
    )
    assert [each.cause for each in explanation.findings] == [Cause.LAGGING] * 2
    second = explanation.findings[1].sentence
    assert "misses versions of 2 ranges of log partition 1" in second
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
    broken = live(7, SPAN, condition=Condition.QUARANTINED, cause="index 12 is missing", offset=Offset(9))
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


def test_a_reserve_that_nobody_knows_is_no_figure() -> None:
    explanation = answer(evidence(lagging=(lagging(1, at(30), gc_reserve_ms=None),)), Cause.LAGGING)
    assert "the store has removed" not in explanation.answer.sentence
    assert explanation.answer.facts["gc_reserve_ms"] is None


def test_a_spooling_sink_is_told_before_what_the_feed_lacks_and_before_its_frontier() -> None:
    """The gaps of a feed that is detached are not scanned for, so nothing is to be sought at the source."""
    further = (live(7, LOW, resolved=at(90)), live(8, HIGH, resolved=at(90)))
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
    assert (facts["partition"], facts["state"], facts["worker"]) == (1, "spooling", URL)
    assert (facts["waiting_bytes"], facts["spool_bytes"], facts["sink"]) == (2 << 10, 3 << 20, "127.0.0.1:9")
    assert [each.cause for each in explanation.findings] == [Cause.SINK, Cause.LAGGING, Cause.LAGGING]
    detached, attached = (each.sentence for each in explanation.findings[1:])
    assert "log partition 1" in detached
    assert "No scan is under way there: its sink has to follow first" in detached
    assert "others come first" in attached


def test_a_stalled_sink_is_told_before_one_that_is_spooling() -> None:
    both = (delivery(0, "live"), delivery(1, "spooling"), delivery(2, "stalled", spool_bytes=0))
    explanation = answer(
        evidence(live(7, SPAN), deliveries=both),
        Cause.SINK,
        "log partition 2",
        "detached there (stalled)",
        "2.0 KiB of rows wait in its producer",
        "scans bring what it misses",
        "gc.ttlseconds",
    )
    assert [each.facts["partition"] for each in explanation.findings if each.cause is Cause.SINK] == [2, 1]


@pytest.mark.parametrize("state", ["live", "catching up"])
def test_a_sink_that_follows_is_not_told_of(state: str) -> None:
    explanation = answer(
        evidence(live(7, SPAN, closed=STUCK), deliveries=(delivery(1, state),)), Cause.CLOSED
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
