"""The checks of invariants can fail: rows and markers of a run, altered, are told from the case's history."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.conformance.case import Case, read_cases
from tests.conformance.case_feed import case_feed
from tests.conformance.expected_invariants import invariant
from tests.conformance.feed_run import FeedRun, Line, run_feed
from tests.conformance.runner import Outcome, run_case

_VECTORS = Path(__file__).parent / "vectors" / "changefeed.jsonl"
_CASES = {case["id"]: case for case in read_cases(_VECTORS)}

_Written: TypeAlias = Sequence[Line | str]
_Change: TypeAlias = Callable[[_Written], _Written]


@cache
def _run(case_id: str) -> FeedRun:
    case = _CASES[case_id]
    return run_feed(case, case_feed(case))


def _after(case_id: str, change: _Change, case: Case | None = None) -> str | None:
    """Return what the check says when each partition is changed like this."""
    run = _run(case_id)
    outputs = tuple(
        replace(output, written={place: change(written) for place, written in output.written.items()})
        for output in run.outputs
    )
    return invariant(case or _CASES[case_id], replace(run, outputs=outputs))


def _rows(written: _Written) -> list[Line]:
    return [each for each in written if isinstance(each, Line)]


def _markers(written: _Written) -> list[str]:
    return [each for each in written if isinstance(each, str)]


def _in_values(pattern: str, replacement: str) -> _Change:
    def change(written: _Written) -> _Written:
        return [
            each if isinstance(each, str) else replace(each, value=re.sub(pattern, replacement, each.value))
            for each in written
        ]

    return change


def _in_markers(pattern: str, replacement: str) -> _Change:
    def change(written: _Written) -> _Written:
        return [each if isinstance(each, Line) else re.sub(pattern, replacement, each) for each in written]

    return change


def _on_two_partitions(written: _Written) -> _Written:
    return [row for each in _rows(written) for row in (each, replace(each, partition=each.partition + 1))]


@pytest.mark.parametrize(
    ("case_id", "change", "detail"),
    [
        ("cf-resolved-03", lambda each: [*_markers(each), *_rows(each)], "comes after the marker"),
        ("cf-resolved-03", lambda each: [*each[2:], *each[:2]], "comes after the marker"),
        ("cf-resolved-03", _rows, "fewer than 2 markers"),
        ("cf-resolved-03", _markers, "no row was written"),
        ("cf-resolved-04", lambda each: [line for line in each if line not in _rows(each)[:1]], "rows give"),
        ("cf-resolved-04", lambda each: [*_markers(each), *_rows(each)], "the rows give {}"),
        ("cf-resolved-04", _rows, "fewer than 2 markers"),
        ("cf-resolved-05", _in_values(r'"before": \{.*?\}', '"before": null'), "before of foo"),
        ("cf-resolved-05", _in_values(r'"after": null', '"after": {"a": 1, "b": "1"}'), "after of foo"),
        ("cf-resolved-05", _in_values(r'"updated": "\d+', '"updated": "1'), "of foo"),
    ],
)
def test_a_broken_invariant_is_found(case_id: str, change: _Change, detail: str) -> None:
    assert invariant(_CASES[case_id], _run(case_id)) is None
    failure = _after(case_id, change)
    assert failure is not None
    assert detail in failure


def _without_last_marker() -> _Change:
    """Take the last marker away, on the first partition that is asked for."""
    left = iter([True])

    def change(written: _Written) -> _Written:
        if not next(left, False):
            return written
        last = max(number for number, each in enumerate(written) if isinstance(each, str))
        return [*written[:last], *written[last + 1 :]]

    return change


@pytest.mark.parametrize(
    ("words", "change", "detail"),
    [
        ("resolved never decreases on a partition", lambda each: each[::-1], "markers fall"),
        ("resolved timestamps are monotonically increasing", _rows, "fewer than 1 markers"),
        ("no resolved timestamp is ever zero", _in_markers(r"\d+\.\d+", "0.0000000000"), "is zero"),
        ("no resolved with timestamp 0 is emitted", _in_markers(r"\d+\.\d+", "0.0000000000"), "is zero"),
        ("every partition of every topic gets each resolved", _without_last_marker(), "lacks the marker"),
        ("each resolved is written to every partition", _without_last_marker(), "lacks the marker"),
        ("first-seen updated is ascending for every key", None, ""),
        ("for each key, first-seen updated is non-decreasing", lambda each: each[::-1], "updated falls"),
        ("all versions of a key are on the same partition", _on_two_partitions, "on the partitions"),
    ],
)
def test_an_invariant_in_words_is_met_and_can_be_broken(
    words: str, change: _Change | None, detail: str
) -> None:
    case = {**_CASES["cf-resolved-03"], "expect": {"invariant": words}}
    assert invariant(case, _run("cf-resolved-03")) is None
    if change is not None:
        failure = _after("cf-resolved-03", change, case)
        assert failure is not None
        assert detail in failure


def test_markers_of_a_feed_without_rows_can_be_looked_at() -> None:
    case = {**_CASES["cf-resolved-03"], "expect": {"invariant": "no resolved timestamp is zero"}}
    assert run_case({**case, "writes": [{"op": "start_feed"}]}).outcome is Outcome.PASSED
    case["expect"] = {"invariant": "all versions of a key are on the same partition"}
    assert run_case({**case, "writes": [{"op": "start_feed"}]}).outcome is Outcome.FAILED


def test_a_row_that_comes_again_behind_a_marker_is_no_new_one() -> None:
    assert _after("cf-resolved-03", lambda each: [*each, *_rows(each)]) is None


def test_rows_of_a_workload_come_twice_now_and_then() -> None:
    assert _run("cf-resolved-03").retries > 1


def test_a_workload_on_a_table_whose_rows_cannot_be_made_up_is_left_out() -> None:
    case = _CASES["cf-resolved-03"]
    columns = [{"name": "a", "type": "INT"}, {"name": "b", "type": "JSONB"}]
    result = run_case({**case, "table": {**case["table"], "columns": columns}})
    assert result.outcome is Outcome.SKIPPED
    assert "workloads on tables with such columns are not supported yet" in result.detail
