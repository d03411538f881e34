"""Any single change that breaks a correct stream is found, and named where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.verify.mutations import MUTATIONS, Mutant
from tests.unit.verify.streams import Stream, correct_stream, correct_streams
from tidegate.verify import AuditReport, TopicRecord, Verdict, audit

#: A stream that every mutation applies to: restarts, repeats, several versions of a key, four markers.
_RICH = correct_stream(
    2,
    1,
    [(0, 1, 1, 0), (0, 1, 2, 1), (1, 2, 1, 0), (0, 1, 1, 0), (0, 3, 1, 2), (1, 2, 1, 0), (0, 4, 2, 0)],
    [
        ("emit", 0),
        ("mark", 0),
        ("emit", 0),
        ("emit", 1),
        ("replay", 1),
        ("mark", 0),
        ("repeat", 0),
        ("emit", 0),
    ],
)


def _audit(stream: Stream, records: list[TopicRecord]) -> AuditReport:
    return audit(records, stream.topics, expected=stream.history)


def _names_the_fault(report: AuditReport, mutant: Mutant) -> bool:
    return any(
        violation.kind in mutant.kinds
        and (violation.topic, violation.partition, violation.key)
        == (mutant.topic, mutant.partition, mutant.key)
        for violation in report.violations
    )


@given(correct_streams)
def test_a_correct_stream_passes(stream: Stream) -> None:
    report = _audit(stream, stream.records)
    assert report.verdict is Verdict.PASSED, str(report)
    assert report.counts.rows - report.counts.duplicates == len(stream.history)


@given(correct_streams)
def test_the_verdict_does_not_depend_on_how_partitions_interleave(stream: Stream) -> None:
    by_partition = sorted(stream.records, key=lambda record: (record.topic, record.partition))
    assert _audit(stream, by_partition) == _audit(stream, stream.records)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_each_mutation_of_a_rich_stream_is_named(mutate: Callable[[Stream], Iterator[Mutant]]) -> None:
    mutants = list(mutate(_RICH))
    assert mutants, "the rich stream must give this mutation something to change"
    for mutant in mutants:
        report = _audit(_RICH, mutant.records)
        assert report.verdict is Verdict.VIOLATED
        assert _names_the_fault(report, mutant), f"{mutant}\n{report}"


@settings(deadline=None)
@given(correct_streams, st.sampled_from(MUTATIONS), st.integers(0, 1000))
def test_any_single_mutation_is_caught(
    stream: Stream, mutate: Callable[[Stream], Iterator[Mutant]], pick: int
) -> None:
    mutants = list(mutate(stream))
    assume(mutants)
    mutant = mutants[pick % len(mutants)]
    report = _audit(stream, mutant.records)
    assert report.verdict is Verdict.VIOLATED
    assert _names_the_fault(report, mutant), f"{mutant}\n{report}"


@given(correct_streams, st.integers(0, 1000))
def test_what_was_read_while_the_feed_ran_passes(stream: Stream, pick: int) -> None:
    """A read that stops in the middle of the newest emission sees its markers on some partitions only."""
    records = stream.records[: pick % len(stream.records)]
    report = audit(records, stream.topics, expected=stream.history)
    assert not report.violations, str(report)
