"""Schema changes of cases: rows before and after them, scans above them, and what is not read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.case import NotClaimed
from tests.conformance.case_ddl import AddColumn, DropColumn, RenameColumn, RenameTable, read_ddl
from tests.conformance.runner import Outcome, Result, run_case

_START: dict[str, Any] = {"op": "start_feed"}
_X: dict[str, Any] = {"op": "insert", "table": "foo", "rows": [{"a": 1, "b": "x"}]}
_SHOWN_X = 'foo: [1]->{"after": {"a": 1, "b": "x"}}'


def _ddl(statement: str) -> dict[str, Any]:
    return {"op": "ddl", "sql": statement}


def _insert(table: str = "foo", **row: Any) -> dict[str, Any]:
    return {"op": "insert", "table": table, "rows": [row]}


def _run(
    writes: list[dict[str, Any]], records: list[str], options: dict[str, Any] | None = None, **expect: Any
) -> Result:
    columns = [{"name": "a", "type": "INT"}, {"name": "b", "type": "STRING"}]
    case = {
        "id": "cf-basic-99",
        "table": {"name": "foo", "columns": columns, "pk": ["a"]},
        "options": options or {},
        "writes": writes,
        "expect": expect or {"records": records, "exactly": True},
    }
    return run_case(case)


@pytest.mark.parametrize(
    ("writes", "records"),
    [
        (
            [_START, _X, _ddl("ALTER TABLE foo RENAME COLUMN b TO c"), _insert(a=2, c="y")],
            [_SHOWN_X, 'foo: [2]->{"after": {"a": 2, "c": "y"}}'],
        ),
        (
            [_X, _START, _ddl("ALTER TABLE foo ADD COLUMN c INT NULL"), _insert(a=2, b="y", c=3)],
            [_SHOWN_X, 'foo: [2]->{"after": {"a": 2, "b": "y", "c": 3}}'],
        ),
        (
            [_START, _ddl("ALTER TABLE foo DROP COLUMN b"), _insert(a=2)],
            ['foo: [2]->{"after": {"a": 2}}'],
        ),
        (
            [_X, _START, _ddl("ALTER TABLE foo RENAME TO bar"), _insert("bar", a=2, b="y")],
            [_SHOWN_X, 'foo: [2]->{"after": {"a": 2, "b": "y"}}'],
        ),
    ],
)
def test_rows_are_written_by_the_version_of_their_time(
    writes: list[dict[str, Any]], records: list[str]
) -> None:
    result = _run(writes, records)
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


@pytest.mark.parametrize(
    ("statements", "record"),
    [
        (["ALTER TABLE foo RENAME COLUMN b TO c"], 'foo: [1]->{"after": {"a": 1, "c": "x"}}'),
        (["ALTER TABLE foo ADD COLUMN c INT"], 'foo: [1]->{"after": {"a": 1, "b": "x", "c": null}}'),
        (["ALTER TABLE foo DROP COLUMN b"], 'foo: [1]->{"after": {"a": 1}}'),
        (["ALTER TABLE foo RENAME TO bar"], 'bar: [1]->{"after": {"a": 1, "b": "x"}}'),
        (
            ["ALTER TABLE foo DROP COLUMN b", "ALTER TABLE foo ADD b STRING"],
            'foo: [1]->{"after": {"a": 1, "b": null}}',
        ),
    ],
)
def test_a_scan_finds_rows_as_the_table_is_then(statements: list[str], record: str) -> None:
    result = _run([_X, *map(_ddl, statements), _START], [record])
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


def test_without_a_scan_older_rows_stay_out() -> None:
    writes = [_X, _ddl("ALTER TABLE foo RENAME COLUMN b TO c"), _START, _insert(a=2, c="y")]
    result = _run(writes, ['foo: [2]->{"after": {"a": 2, "c": "y"}}'], {"initial_scan": "no"})
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


def test_an_update_after_a_change_keeps_the_other_columns() -> None:
    update = {"op": "update", "table": "foo", "key": [1], "set": {"c": 3}}
    records = [
        'foo: [1]->{"after": {"a": 1, "b": "x"}, "before": null}',
        'foo: [1]->{"after": {"a": 1, "b": "x", "c": 3}, "before": {"a": 1, "b": "x", "c": null}}',
    ]
    result = _run([_X, _START, _ddl("ALTER TABLE foo ADD COLUMN c INT"), update], records, {"diff": True})
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


@pytest.mark.parametrize("change", ["RENAME COLUMN b TO c", "DROP COLUMN b"])
def test_a_feed_fails_at_the_first_row_without_its_key_column(change: str) -> None:
    writes: list[dict[str, Any]] = [_X, _START, _ddl(f"ALTER TABLE foo {change}"), _insert(a=2)]
    expect = {"state": "failed", "error_regex": "required column b not present on table foo"}
    result = _run(writes, [], {"key_column": "b", "unordered": True}, **expect)
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("ALTER TABLE bar ADD COLUMN c INT", "the case has no table bar here"),
        ("ALTER TABLE foo ADD COLUMN b INT", "has a column b already"),
        ("ALTER TABLE foo RENAME COLUMN a TO b", "has a column b already"),
        ("ALTER TABLE foo DROP COLUMN c", "has no column c"),
        ("ALTER TABLE foo DROP COLUMN a", "column a is in the primary key"),
    ],
)
def test_a_change_that_the_table_cannot_take_is_a_failure(statement: str, reason: str) -> None:
    result = _run([_START, _ddl(statement)], [])
    assert result.outcome is Outcome.FAILED
    assert reason in result.detail


def test_a_column_is_known_by_its_names_of_the_time_only() -> None:
    result = _run([_START, _ddl("ALTER TABLE foo RENAME COLUMN b TO c"), _X], [])
    assert (result.outcome, result.detail) == (
        Outcome.FAILED,
        "ValueError: table foo has no column b",
    )


@pytest.mark.parametrize(
    ("statement", "change"),
    [
        ("ALTER TABLE foo RENAME COLUMN b TO c", RenameColumn("foo", "b", "c")),
        ('alter table d.public.foo rename column "b c" to "C";', RenameColumn("foo", "b c", "C")),
        (
            "ALTER TABLE IF EXISTS foo ADD IF NOT EXISTS c DECIMAL(10,2)",
            AddColumn("foo", "c", "DECIMAL(10,2)"),
        ),
        ("ALTER TABLE foo DROP COLUMN IF EXISTS b CASCADE", DropColumn("foo", "b")),
        ("ALTER TABLE foo RENAME TO d.public.bar", RenameTable("foo", "bar")),
    ],
)
def test_statements_are_read(statement: str, change: object) -> None:
    assert read_ddl(statement) == change


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE foo ADD COLUMN c INT DEFAULT 0",
        "ALTER TABLE foo ADD COLUMN c INT NOT NULL",
        "ALTER TABLE foo ADD COLUMN c STRING CREATE FAMILY f2",
        "ALTER TABLE foo ADD COLUMN c INT AS (a + 1) STORED",
        "ALTER TABLE foo ADD COLUMN c INT, ADD COLUMN d INT",
        "ALTER TABLE foo ADD CONSTRAINT c CHECK (a > 0)",
        "ALTER TABLE foo DROP CONSTRAINT c",
        "ALTER TABLE foo DROP COLUMN b, DROP COLUMN c",
        "ALTER TYPE status ADD VALUE 'pending'",
        "DROP TABLE foo",
        "CREATE INDEX ON foo (b)",
    ],
)
def test_other_statements_leave_the_case_out_by_name(statement: str) -> None:
    with pytest.raises(NotClaimed, match="op ddl is not supported yet for"):
        read_ddl(statement)
