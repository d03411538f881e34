"""Tests why a feed's resolved timestamp stands still: each cause is told from the others, with its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.hand_log import at, txn
from tests.unit.client.why.hand_evidence import (
    HIGH,
    LOW,
    NOW,
    SPAN,
    STUCK,
    URL,
    answer,
    delivery,
    evidence,
    explain,
    fresh,
    held,
    lagging,
    live,
    parked,
    partition,
    passed_over,
    push,
    text,
    view,
)
from tests.unit.processor.logs import OTHER
from tidegate.changefeed.definition.feed import FeedState
from tidegate.client.why.evidence import Evidence, FrontierEvidence, OverlapEvidence
from tidegate.client.why.finding import Cause
from tidegate.hlc import ZERO
from tidegate.processor.range_facts import Condition, OpenTxn, ScanFacts
from tidegate.raftlog.entry import Offset

# ---- nothing holds it back


def test_a_high_water_at_the_closed_timestamp_is_held_back_by_nothing() -> None:
    fresh = at(NOW - 3)
    frontier = FrontierEvidence(URL, fresh, SPAN, fresh, resolved_interval_ms=0)
    found = evidence(live(7, SPAN, resolved=fresh), frontier=frontier)
    explanation = answer(found, Cause.NOTHING, "Nothing holds it back", "3.0 s behind the present")
    assert explanation.lag_ms == 3_000
    assert len(explanation.findings) == 1


def test_a_frontier_that_is_a_moment_behind_its_ranges_is_held_back_by_nothing() -> None:
    frontier = FrontierEvidence(URL, at(NOW - 4), SPAN, at(NOW - 4), resolved_interval_ms=0)
    answer(evidence(live(7, SPAN, resolved=at(NOW - 3)), frontier=frontier), Cause.NOTHING)


def test_a_hole_is_named_before_what_passes_by_itself() -> None:
    hole = live(7, HIGH, condition=Condition.QUARANTINED, offset=Offset(3), cause="a gap")
    explanation = answer(evidence(live(6, LOW), hole), Cause.QUARANTINED)
    assert "Ranges 6 are not further" in explanation.findings[1].sentence


# ---- the set of ranges


def test_keys_that_no_range_has_are_named() -> None:
    explanation = answer(
        evidence(live(6, LOW)),
        Cause.UNCOVERED,
        "Keys from plain/1/100/0 to ",
        "were reported by nobody: no range in any of the 3 log partitions has them",
    )
    assert len(explanation.findings) == 1
    assert explanation.answer.facts["gaps"] == [{"start": HIGH.start.hex(), "end": HIGH.end.hex()}]


def test_no_gap_is_claimed_where_not_all_ranges_are_told_of() -> None:
    found = evidence(live(6, LOW, closed=STUCK))
    cut = {number: replace(each, complete=False) for number, each in found.ranges.items()}
    answer(replace(found, ranges=cut), Cause.CLOSED)


def test_keys_that_two_ranges_have_are_named() -> None:
    explanation = explain(evidence(live(6, SPAN, closed=STUCK), live(8, HIGH)))
    (overlap,) = [each for each in explanation.findings if each.cause is Cause.OVERLAP]
    assert (
        "Ranges 6 (generation 2) and 8 (generation 2) both have the keys from plain/1/100" in overlap.sentence
    )


def test_of_very_many_ranges_that_have_the_same_keys_a_few_are_named() -> None:
    held = OverlapEvidence(SPAN, (6, 8), (2, 3), others=998)
    (overlap,) = explain(evidence(live(6, SPAN, closed=STUCK), overlaps=(held,))).findings[:1]
    assert overlap.cause is Cause.OVERLAP
    assert "Ranges 6 (generation 2) and 8 (generation 3) and 998 others have the keys" in overlap.sentence


def test_a_parked_child_and_its_parent_do_not_overlap() -> None:
    explanation = explain(evidence(live(6, SPAN), replace(parked(), span=HIGH)))
    assert Cause.OVERLAP not in {each.cause for each in explanation.findings}


# ---- the frontier and its markers


def test_checkpoints_that_the_frontier_has_not_are_named() -> None:
    answer(evidence(live(7, SPAN, resolved=at(90))), Cause.FRONTIER, "The frontier is behind", str(at(90)))


def test_a_feed_whose_scan_is_not_done_has_no_high_water() -> None:
    stuck = FrontierEvidence(URL, None, SPAN, ZERO, resolved_interval_ms=0)
    explanation = answer(evidence(frontier=stuck, lagging=(lagging(1, None),)), Cause.LAGGING)
    assert (explanation.high_water, explanation.lag_ms) == (None, None)
    assert explanation.to_json()["high_water"] is None


def test_keys_of_other_tables_are_shown_as_they_are() -> None:
    other = OpenTxn(txn(5), OTHER.key(3), at(21), at(21), 1)
    answer(evidence(live(7, SPAN, txn=other)), Cause.TRANSACTION, "/Table/105/1/3")


# ---- every finding


def _world(cause: Cause) -> Evidence:
    """A world in which ``cause`` is one of the findings."""
    broken = {"offset": Offset(312), "cause": "a gap"}
    scan = ScanFacts(SPAN, SPAN.start, at(20), at(90), at(NOW - 1).wall_ms)
    far = live(7, SPAN, resolved=at(90))
    worlds: dict[Cause, Callable[[], Evidence]] = {
        Cause.NOTHING: lambda: evidence(
            live(7, SPAN, resolved=at(NOW - 3)), frontier=fresh(marker=at(NOW - 3))
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
        Cause.UNCOVERED: lambda: evidence(live(6, LOW)),
        Cause.OVERLAP: lambda: evidence(
            live(6, SPAN, closed=STUCK), live(8, HIGH), overlaps=(OverlapEvidence(HIGH, (6, 8), (2, 2)),)
        ),
        Cause.QUARANTINED: lambda: evidence(live(7, SPAN, condition=Condition.QUARANTINED, **broken)),
        Cause.HEALING: lambda: evidence(live(7, SPAN, condition=Condition.HEALING, scan=scan, **broken)),
        Cause.PARKED: lambda: evidence(parked()),
        Cause.CATCHING_UP: lambda: evidence(
            live(7, SPAN, condition=Condition.CATCHING_UP, entries=9, offset=Offset(312))
        ),
        Cause.LAGGING: lambda: evidence(
            lagging=tuple(lagging(number, at(30) if number else None) for number in range(5))
        ),
        Cause.SNAPSHOT: lambda: evidence(live(7, SPAN, condition=Condition.CHANGING)),
        Cause.TRANSACTION: lambda: evidence(held(push=push())),
        Cause.CLOSED: lambda: evidence(live(7, SPAN, closed=STUCK)),
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
