"""The checks of SUBSCRIBE's cases: a wrong case fails, and what no statement causes is brought about."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.runner import Outcome, run_case

FORMAT: dict[str, Any] = {
    "id": "format",
    "kind": "format",
    "sql": "SUBSCRIBE rel WITH (PROGRESS) AS OF 10 UP TO 30",
    "columns": ["d"],
    "mode": "diffs",
    "key": [],
    "order_by": [],
    "progress": True,
    "snapshot": True,
    "as_of": 10,
    "up_to": 30,
    "frontiers": [21, 30],
    "input": [[10, 1, "x"], [29, 1, "y"], [30, 1, "z"]],
    "expect_columns": ["mz_timestamp", "mz_progressed", "mz_diff", "d"],
    "expect": [[10, True, None, None], [10, False, 1, "x"], [21, True, None, None], [29, False, 1, "y"]],
    "compare": "set_within_timestamp",
}
ERROR: dict[str, Any] = {"id": "error", "kind": "error", "sql": "SUBSCRIBE rel", "columns": ["a", "b"]}
CLIENT: dict[str, Any] = {
    "id": "client",
    "kind": "client",
    "columns": ["mz_timestamp", "mz_progressed", "mz_diff", "k"],
    "snapshot": True,
    "input": [[10, True, None, None], [10, False, 1, "a"], [11, True, None, None]],
    "expect_calls": [["snapshot", [["a"]]]],
}
COHORT: dict[str, Any] = {
    "id": "cohort",
    "kind": "cohort",
    "members": ["a", "b"],
    "input": [["a", "progress", 10], ["b", "data", 11, 1, "x"], ["b", "progress", 12], ["a", "progress", 13]],
    "expect": [{"frontier": 10, "a": [], "b": []}, {"frontier": 12, "a": [], "b": [[11, 1, "x"]]}],
}


NOT_A_NUMBER: dict[str, Any] = {
    **FORMAT,
    "sql": "SUBSCRIBE rel WITHIN TIMESTAMP ORDER BY d AS OF 10 UP TO 30",
    "types": ["double"],
    "mode": "within_timestamp_order_by",
    "order_by": [{"col": "d"}],
    "progress": False,
    "input": [[10, 1, "NaN"], [10, 1, "Infinity"]],
    "expect_columns": ["mz_timestamp", "mz_diff", "d"],
    "expect": [[10, 1, "Infinity"], [10, 1, "NaN"]],
    "compare": "exact",
}


def test_not_a_number_is_itself_and_sorts_last() -> None:
    result = run_case(NOT_A_NUMBER)
    assert result.outcome is Outcome.PASSED, result.detail
    assert run_case({**NOT_A_NUMBER, "expect": NOT_A_NUMBER["expect"][::-1]}).outcome is Outcome.FAILED
    assert run_case({**NOT_A_NUMBER, "expect": NOT_A_NUMBER["expect"][:1]}).outcome is Outcome.FAILED


@pytest.mark.parametrize("case", [FORMAT, CLIENT, COHORT], ids=["format", "client", "cohort"])
def test_a_true_case_passes(case: dict[str, Any]) -> None:
    result = run_case(case)
    assert result.outcome is Outcome.PASSED, result.detail


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        (FORMAT, {"expect": FORMAT["expect"][:-1]}),
        (FORMAT, {"expect": [*FORMAT["expect"], [30, True, None, None]]}),
        (FORMAT, {"mode": "upsert"}),
        (FORMAT, {"up_to": 29}),
        (FORMAT, {"progress": False}),
        (FORMAT, {"expect_columns": ["mz_timestamp", "mz_diff", "d"]}),
        (FORMAT, {"compare": "somehow"}),
        (CLIENT, {"expect_calls": []}),
        (CLIENT, {"expect_error": "protocol_error"}),
        (CLIENT, {"input": [*CLIENT["input"], [5, False, 1, "a"]]}),
        (COHORT, {"expect": COHORT["expect"][:-1]}),
        (COHORT, {"expect": [{"frontier": 12, "is_snapshot": True}], "expect_contains_only": True}),
        ({"id": "resume", "kind": "resume", "frontier": 5, "expect_as_of": 5}, {}),
    ],
)
def test_a_wrong_case_fails(case: dict[str, Any], changes: dict[str, Any]) -> None:
    assert run_case({**case, **changes}).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("history_lost", "is not valid for all inputs"),
        ("object_dropped", "relation 'materialize.public.rel' was dropped"),
        ("fell_behind", "fell behind"),
        ("result_too_large", "total result exceeds max size"),
        ("not_subscribable", "'rel' cannot be subscribed to because it is a view"),
        ("unknown_relation", "unknown catalog item 'rel'"),
        ("transaction", "SUBSCRIBE in transactions must be the only read statement"),
    ],
)
def test_what_no_statement_causes_is_brought_about(code: str, text: str) -> None:
    assert run_case({**ERROR, "error_code": code, "expect_error": text}).outcome is Outcome.PASSED
    assert run_case({**ERROR, "error_code": code, "expect_error": "another"}).outcome is Outcome.FAILED


def test_an_error_that_does_not_come_fails() -> None:
    result = run_case({**ERROR, "error_code": "unknown_column", "expect_error": ""})
    assert (result.outcome, result.detail) == (Outcome.FAILED, "expected unknown_column, got a plan")


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SUBSCRIBE rel WITH (PROGRESS) AS OF 10 UP TO 30) TO STDOUT",
        "DECLARE c NO SCROLL CURSOR FOR SUBSCRIBE rel WITH (PROGRESS) AS OF 10 UP TO 30",
        'SUBSCRIBE "Rel" WITH (PROGRESS) AS OF 10 UP TO 30',
        'SUBSCRIBE (SELECT * FROM db."Own".rel) WITH (PROGRESS) AS OF 10 UP TO 30',
    ],
)
def test_a_statement_may_have_a_transport_around_it_and_names_in_quotes(sql: str) -> None:
    result = run_case({**FORMAT, "sql": sql})
    assert result.outcome is Outcome.PASSED, result.detail
    assert run_case({**FORMAT, "sql": sql, "up_to": 29}).outcome is Outcome.FAILED


def test_what_a_case_leaves_out_is_as_subscribe_has_it() -> None:
    case: dict[str, Any] = {
        "id": "format",
        "kind": "format",
        "sql": "SUBSCRIBE rel AS OF 10",
        "columns": ["d"],
        "input": [[9, 1, "x"], [11, 1, "y"]],
        "expect_columns": ["mz_timestamp", "mz_diff", "d"],
        "expect": [[10, 1, "x"], [11, 1, "y"]],
    }
    assert run_case(case).outcome is Outcome.PASSED
    for member, value in {"progress": True, "snapshot": False, "mode": "upsert", "frontiers": [11]}.items():
        assert run_case({**case, member: value}).outcome is Outcome.FAILED
    for compare, outcome in {"set": Outcome.PASSED, "exact": Outcome.FAILED}.items():
        turned = {**case, "compare": compare, "expect": case["expect"][::-1]}
        assert run_case(turned).outcome is outcome
    assert run_case({name: v for name, v in CLIENT.items() if name != "snapshot"}).outcome is Outcome.PASSED


def test_a_cohort_may_expect_an_error() -> None:
    late = {**COHORT, "input": [*COHORT["input"], ["a", "data", 5, 1, "z"]]}
    assert run_case({**late, "expect_error": "protocol_error"}).outcome is Outcome.PASSED
    assert run_case(late).outcome is Outcome.FAILED
    assert run_case({**COHORT, "expect_error": "protocol_error"}).outcome is Outcome.FAILED
