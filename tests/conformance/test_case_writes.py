"""Writes of cases: ranges of rows, rows under another key, what happens to intents, where a feed starts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.runner import Outcome, Result, run_case

_START: dict[str, Any] = {"op": "start_feed"}
_INTENT: dict[str, Any] = {"op": "intent", "txn": "t1", "ts": "10"}
_CLOSED: dict[str, Any] = {"op": "closed", "ts": "20"}


def _insert(a: int, b: str = "x", **members: Any) -> dict[str, Any]:
    return {"op": "insert", "table": "foo", "rows": [{"a": a, "b": b}], **members}


def _shown(a: int, b: str = "x") -> str:
    return f'foo: [{a}]->{{"after": {{"a": {a}, "b": "{b}"}}}}'


def _run(writes: list[dict[str, Any]], options: dict[str, Any] | None = None, **expect: Any) -> Result:
    columns = [{"name": "a", "type": "INT"}, {"name": "b", "type": "STRING"}]
    return run_case(
        {
            "id": "cf-basic-99",
            "table": {"name": "foo", "columns": columns, "pk": ["a"]},
            "options": options or {},
            "writes": writes,
            "expect": expect,
        }
    )


def _passes(*arguments: Any, **expect: Any) -> None:
    result = _run(*arguments, **expect)
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


def test_a_range_of_rows_has_both_its_ends() -> None:
    rows = {"op": "insert_range", "table": "foo", "column": "a", "from": 2, "to": 4}
    shown = [f'foo: [{a}]->{{"after": {{"a": {a}, "b": null}}}}' for a in (2, 3, 4)]
    _passes([_START, rows], records=shown, exactly=True)


@pytest.mark.parametrize("new_key", [[2], 2])
def test_a_row_under_another_key_is_a_deletion_and_a_row(new_key: Any) -> None:
    moved = {"op": "update_pk", "table": "foo", "from": [1], "to": new_key, "ts": "T2"}
    records = [
        'foo: [1]->{"after": {"a": 1, "b": "x"}, "updated": "<T1>"}',
        'foo: [1]->{"after": null, "updated": "<T2>"}',
        'foo: [2]->{"after": {"a": 2, "b": "x"}, "updated": "<T2>"}',
    ]
    _passes([_START, _insert(1, ts="T1"), moved], {"updated": True}, records=records, exactly=True)


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ([], "9.0000000000"),
        ([{"op": "update_intent", "txn": "t1", "ts": "15"}], "14.0000000000"),
        ([_INTENT, {"op": "abort_intent", "txn": "t1"}], "9.0000000000"),
        ([_INTENT, {"op": "commit_intent", "txn": "t1", "ts": "10"}], "9.0000000000"),
    ],
)
def test_markers_stay_below_what_is_open(more: list[dict[str, Any]], most: str) -> None:
    writes = [_START, _INTENT, _CLOSED, *more]
    _passes(writes, {"resolved": True}, resolved=f"{most} at most")
    last = str(int(most.partition(".")[0]) - 1)
    assert _run(writes, {"resolved": True}, resolved=f"{last}.0000000000 at most").outcome is Outcome.FAILED


@pytest.mark.parametrize(
    "closing", [{"op": "abort_intent", "txn": "t1"}, {"op": "commit_intent", "txn": "t1", "ts": "21"}]
)
def test_markers_go_on_when_the_last_intent_is_closed(closing: dict[str, Any]) -> None:
    writes = [_START, _INTENT, _CLOSED, closing]
    for reached in ("20.0000000000", "reaches 20 after the last intent is closed", "at least 20.0000000000"):
        _passes(writes, {"resolved": True}, resolved=reached)
        assert _run(writes[:3], {"resolved": True}, resolved=reached).outcome is Outcome.FAILED
    for held_back in ("9.0000000000 at most", "at most 9.0000000000", "stays below 10 while it is open"):
        assert _run(writes, {"resolved": True}, resolved=held_back).outcome is Outcome.FAILED
        _passes(writes[:3], {"resolved": True}, resolved=held_back)


def test_a_marker_that_is_held_back_reaches_its_bound_and_no_more() -> None:
    writes = [_START, _INTENT, _CLOSED]
    _passes(writes, {"resolved": True}, resolved="9.0000000000")
    assert _run(writes, {"resolved": True}, resolved="8.0000000000").outcome is Outcome.FAILED


def test_an_intent_that_is_not_open_is_named() -> None:
    result = _run([_START, {"op": "update_intent", "txn": "t9", "ts": "5"}], records=[])
    assert (result.outcome, result.detail) == (
        Outcome.FAILED,
        "ValueError: the case has no open intent of transaction t9 here",
    )


def test_a_value_at_the_resolved_timestamp_is_refused() -> None:
    late = {"op": "write_value", "ts": "20"}
    _passes([_START, _CLOSED, late], {"resolved": True}, error_regex="at or below")
    above = {"op": "write_value", "ts": "21"}
    records = ['foo: [1]->{"after": {"a": 1, "b": null}}']
    _passes([_START, _CLOSED, above], {"resolved": True}, records=records)


def test_markers_that_are_waited_for_come() -> None:
    waiting = {"op": "wait_resolved", "n": 2}
    _passes(
        [_START, _insert(1), waiting, _insert(2)], records=[_shown(1), _shown(2)], resolved="at least one"
    )


@pytest.mark.parametrize("member", ["ts", "cursor"])
def test_a_start_says_its_time_whatever_the_options_say(member: str) -> None:
    start = {"op": "start_feed", member: "T1", "initial_scan": "yes"}
    writes = [_insert(1, ts="T1"), _insert(2, ts="T2"), start]
    options = {"updated": True, "cursor": "<the first>"} if member == "cursor" else {"updated": True}
    records = [
        'foo: [1]->{"after": {"a": 1, "b": "x"}, "updated": "<T1>"}',
        'foo: [2]->{"after": {"a": 2, "b": "x"}, "updated": "<T2>"}',
    ]
    _passes(writes, options, records=records, exactly=True)


def test_a_start_at_a_time_of_its_own_is_that_of_its_scan() -> None:
    writes = [_insert(1, ts="T1"), {"op": "start_feed", "ts": "T2"}]
    record = 'foo: [1]->{"after": {"a": 1, "b": "x"}, "mvcc_timestamp": "<T1>", "updated": "<T2>"}'
    _passes(writes, {"updated": True, "mvcc_timestamp": True}, records=[record])


@pytest.mark.parametrize(
    "write",
    [
        {"op": "delete", "table": "foo", "key": [1]},
        {"op": "delete", "table": "foo", "where": {"b": "x"}},
        {"op": "delete", "table": "foo", "where": "a = 1 AND b = 'x'"},
    ],
)
def test_a_deletion_names_rows_by_key_or_by_what_they_hold(write: dict[str, Any]) -> None:
    records = [_shown(1), _shown(2, "y"), 'foo: [1]->{"after": null}']
    _passes([_START, _insert(1), _insert(2, "y"), write], records=records, exactly=True)


def test_an_update_changes_the_rows_that_fit() -> None:
    update = {"op": "update", "table": "foo", "where": "b = 'x'", "set": {"b": "z"}}
    records = [_shown(1), _shown(2, "y"), _shown(1, "z")]
    _passes([_START, _insert(1), _insert(2, "y"), update], records=records, exactly=True)
    result = _run([_insert(1), {**update, "where": "a > 0"}], records=records)
    assert "knows no condition 'a > 0'" in result.detail


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO foo VALUES (1, 'x')", "upsert into d.public.foo (b, \"a\") VALUES ('x', 1);"],
)
def test_rows_may_be_inserted_by_a_statement(statement: str) -> None:
    _passes([_START, {"op": "insert_sql", "sql": statement}], records=[_shown(1)], exactly=True)


def test_a_statement_that_inserts_nothing_is_named() -> None:
    result = _run([{"op": "insert_sql", "sql": "INSERT INTO foo SELECT 1"}], records=[])
    assert "inserts no rows that the cases' reader knows" in result.detail


def test_a_transaction_that_is_aborted_holds_no_marker_back() -> None:
    two = [_START, {**_INTENT, "key": 1}, {**_INTENT, "key": 2}, _CLOSED]
    _passes(two, {"resolved": True}, resolved="stays at 9")
    _passes([*two, {"op": "abort_txn", "txn": "t1"}], {"resolved": True}, resolved="at least 20")


def test_a_range_that_is_deleted_lets_markers_go_on_and_gives_no_record() -> None:
    erase = {"op": "delete_range", "ts": "10"}
    _passes([_START, erase, _CLOSED], {"resolved": True}, resolved="at least 20")
    _passes(
        [{**_START, "initial_scan": "no"}, _insert(1, ts="5"), erase, _insert(1, "y", ts="15")],
        {"diff": True, "resolved": True},
        records=[f'{_shown(1, each)[:-1]}, "before": null}}' for each in "xy"],
        exactly=True,
    )


@pytest.mark.parametrize("kind", ["bank transfers", "random inserts, updates and deletes"])
def test_a_workload_is_known_by_its_words(kind: str) -> None:
    writes = [_START, {"op": "workload", "kind": kind}]
    columns = [{"name": "a", "type": "INT"}, {"name": "b", "type": "INT"}]
    case = {
        "id": "cf-resolved-99",
        "table": {"name": "foo", "columns": columns, "pk": ["a"]},
        "options": {"updated": True, "diff": True},
        "writes": writes,
        "expect": {"invariant": "before == row at updated.prev(); after == row at updated"},
    }
    assert run_case(case) == Result("cf-resolved-99", Outcome.PASSED)


def _table_case(table: Any, row: dict[str, Any], record: str) -> Result:
    return run_case(
        {
            "id": "cf-basic-99",
            "table": table,
            "options": {},
            "writes": [{"op": "insert", "table": "foo", "rows": [row]}, _START],
            "expect": {"records_regex": [record]},
        }
    )


@pytest.mark.parametrize(
    ("default", "shown"),
    [("'x'", '"x"'), ("x", '"x"'), (None, "null"), ("NULL", "null"), ("it's", '"it\'s"')],
)
def test_a_default_stands_beside_its_column(default: Any, shown: str) -> None:
    columns = [{"name": "a", "type": "INT"}, {"name": "b", "type": "STRING", "default": default}]
    table = {"name": "foo", "columns": columns, "pk": ["a"]}
    record = rf'foo: \[1\]->{{"after": {{"a": 1, "b": {shown}}}}}'
    assert _table_case(table, {"a": 1}, record) == Result("cf-basic-99", Outcome.PASSED)


@pytest.mark.parametrize("key", [{"pk": []}, {}])
def test_a_table_without_a_key_has_a_rowid(key: dict[str, Any]) -> None:
    table = {"name": "foo", "columns": [{"name": "a", "type": "INT"}], **key}
    record = r'foo: \[(\d+)\]->\{"after": \{"a": 1, "rowid": \1\}\}'
    assert _table_case(table, {"a": 1}, record) == Result("cf-basic-99", Outcome.PASSED)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE foo (a INT PRIMARY KEY, b STRING DEFAULT 'x, y' NOT NULL)",
        "CREATE TABLE d.s.foo (a INT, b STRING DEFAULT 'x, y' UNIQUE, PRIMARY KEY (a), INDEX (b));",
    ],
)
def test_a_table_may_be_a_statement(statement: str) -> None:
    record = r'foo: \[1\]->\{"after": \{"a": 1, "b": "x, y"\}\}'
    assert _table_case(statement, {"a": 1}, record) == Result("cf-basic-99", Outcome.PASSED)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE VIEW foo AS SELECT 1", "creates no table"),
        ("CREATE TABLE foo (a INT PRIMARY KEY, FAMILY f (a))", "column families are not supported yet"),
    ],
)
def test_other_statements_make_no_table(statement: str, said: str) -> None:
    assert said in _table_case(statement, {"a": 1}, "").detail
