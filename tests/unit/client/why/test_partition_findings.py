"""Tests what ``tidegate why`` says of the log partitions that hold a feed back."""

from __future__ import annotations

import re

from tests.hand_log import at
from tests.unit.client.why.hand_evidence import (
    LOW,
    NOW,
    SPAN,
    STUCK,
    URL,
    answer,
    evidence,
    live,
    partition,
    text,
)
from tidegate.client.why.evidence import RegistryEvidence
from tidegate.client.why.finding import Cause
from tidegate.hlc import Timestamp

# ---- partitions


def test_rows_without_an_acknowledgement_are_named_with_their_age() -> None:
    waiting = partition(1, inflight_rows=40, oldest_unacknowledged_ms=62_000)
    found = evidence(live(7, SPAN, resolved=at(90)), partitions={1: waiting})
    explanation = answer(found, Cause.SINK, "40 rows are not acknowledged, the oldest for 62.0 s")
    assert explanation.answer.facts["oldest_unacknowledged_ms"] == 62_000


def test_a_partition_that_waits_for_a_registry_names_it() -> None:
    wait = RegistryEvidence(URL, "bank", "http://registry:8081", 9_000, "it does not answer")
    found = evidence(
        live(7, SPAN, resolved=at(90)), partitions={1: partition(1, state="waiting")}, registries=(wait,)
    )
    answer(found, Cause.REGISTRY, "at offset 501", "http://registry:8081 for feed bank (it does not answer)")


def test_a_held_partition_names_the_feed_that_holds_it() -> None:
    found = evidence(
        live(7, SPAN, closed=STUCK), partitions={1: partition(1, state="held", held_for=("new",))}
    )
    answer(found, Cause.HELD, "Log partition 1 is held at offset 501 for the start of the new feed new")


def test_a_worker_that_is_behind_with_the_log_is_told_from_a_source_that_closes_nothing() -> None:
    behind = partition(1, lag_records=12_000, log_time_ms=at(21).wall_ms)
    found = evidence(live(7, SPAN, closed=STUCK), partitions={1: behind})
    answer(found, Cause.READING, "12000 records behind its end", "79.0 s behind the present")


def test_a_partition_that_is_restored_is_named_when_the_span_may_be_there() -> None:
    found = evidence(live(6, LOW), partitions={1: partition(1, state="restoring")})
    answer(found, Cause.RESTORING, "Log partition 1 is being restored")


def test_a_partition_without_a_worker_is_named_when_the_span_may_be_there() -> None:
    answer(evidence(live(6, LOW), partitions={1: None}), Cause.WORKERS, "Log partition 1 is without a worker")


def test_a_partition_that_nobody_has_does_not_matter_when_the_span_is_elsewhere() -> None:
    answer(evidence(live(6, SPAN, closed=STUCK), partitions={1: None}), Cause.CLOSED)


def test_a_record_whose_time_is_ahead_of_this_machine_s_clock_is_not_minus_212_ms_old() -> None:
    read = {1: partition(1, log_time_ms=at(NOW + 0.212).wall_ms)}
    answer(
        evidence(live(7, SPAN, closed=STUCK), partitions=read),
        Cause.CLOSED,
        "where a record is 212 ms ahead of this machine's clock, its end",
    )


def test_a_partition_that_has_read_no_record_has_no_age() -> None:
    unread = {1: partition(1, log_time_ms=0, next_offset=None, lag_records=70)}
    explanation = answer(
        evidence(live(7, SPAN, closed=Timestamp(0)), partitions=unread),
        Cause.CLOSED,
        "has not closed any timestamp yet; log partition 1 has not been read yet",
    )
    assert "log            partition 1\n" in re.sub(r" {2,}", " " * 12, text(explanation))
