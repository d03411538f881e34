"""Schema changes of cases: rows before and after them, scans above them, and what is not read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.conformance.case import NotClaimed
from tests.conformance.case_ddl import (
    AddColumn,
    AddLabel,
    AlterTable,
    DropColumn,
    RenameColumn,
    RenameLabel,
    RenameTable,
    RenameType,
    SetDefault,
    SetNullable,
    read_ddl,
)
from tests.conformance.enum_types import with_label
from tests.conformance.runner import Outcome, Result, run_case
from tidegate.rows import parse_sql_type

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
        ("ALTER TABLE foo ALTER COLUMN b SET DEFAULT 'd'", SetDefault("foo", "b", "'d'")),
        ("ALTER TABLE foo ALTER b DROP DEFAULT", SetDefault("foo", "b", "")),
        ("ALTER TABLE foo ALTER b DROP NOT NULL", SetNullable("foo", "b", True)),
        ("ALTER TABLE foo ALTER COLUMN b SET NOT NULL", SetNullable("foo", "b", False)),
        (
            "ALTER TABLE foo ADD COLUMN c DECIMAL(10,2), RENAME COLUMN b TO d",
            AlterTable("foo", (AddColumn("foo", "c", "DECIMAL(10,2)"), RenameColumn("foo", "b", "d"))),
        ),
        (
            "ALTER TABLE foo DROP COLUMN b, DROP COLUMN c",
            AlterTable("foo", (DropColumn("foo", "b"), DropColumn("foo", "c"))),
        ),
        ("ALTER TYPE status ADD VALUE 'a' BEFORE 'b'", AddLabel("status", "a", before="b")),
        ("alter type status add value 'a' after 'it''s'", AddLabel("status", "a", after="it's")),
        ("ALTER TYPE d.public.status RENAME TO st", RenameType("status", "st")),
        ("ALTER TYPE d.public.status ADD VALUE IF NOT EXISTS 'it''s'", AddLabel("status", "it's")),
        ("ALTER TYPE status RENAME VALUE 'a' TO 'it''s'", RenameLabel("status", "a", "it's")),
        ("CREATE UNIQUE INDEX ON foo (b)", None),
        ("ALTER TABLE foo SPLIT AT VALUES (5)", None),
        ("GRANT SELECT ON TABLE foo TO reader", None),
        ("COMMENT ON COLUMN foo.b IS 'what it is'", None),
        ("DROP INDEX foo@b_idx CASCADE", None),
        ("ALTER TABLE foo ADD CONSTRAINT c CHECK (a > 0) NOT VALID", None),
        ("ALTER TABLE foo VALIDATE CONSTRAINT c", None),
        ("ALTER TABLE foo DROP CONSTRAINT c", None),
        ("ALTER TABLE foo ALTER COLUMN b SET VISIBLE", None),
        ("ALTER TABLE foo SET (ttl_expire_after = '1h')", None),
        ("ALTER INDEX foo@b_idx RENAME TO b2", None),
        ("CREATE TABLE other (a INT)", None),
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
        "ALTER TABLE foo ADD COLUMN c INT, ADD COLUMN d INT DEFAULT 0",
        "ALTER TABLE foo ADD CONSTRAINT c PRIMARY KEY (b)",
        "ALTER TABLE foo ALTER COLUMN b SET NOT VISIBLE",
        "ALTER TYPE status DROP VALUE 'open'",
        "DROP TABLE foo",
    ],
)
def test_other_statements_leave_the_case_out_by_name(statement: str) -> None:
    with pytest.raises(NotClaimed, match="op ddl is not supported yet for"):
        read_ddl(statement)


def test_a_default_is_that_of_the_time_of_a_row() -> None:
    set_default = _ddl("ALTER TABLE foo ALTER COLUMN b SET DEFAULT 'd'")
    drop_default = _ddl("ALTER TABLE foo ALTER b DROP DEFAULT")
    writes = [_START, _insert(a=1), set_default, _insert(a=2), drop_default, _insert(a=3)]
    records = [
        f'foo: [{a}]->{{"after": {{"a": {a}, "b": {b}}}}}' for a, b in ((1, "null"), (2, '"d"'), (3, "null"))
    ]
    result = _run(writes, records)
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


@pytest.mark.parametrize("type_text", ["status(open,closed)", "status(open,closed)[]"])
def test_a_label_that_is_added_is_known_from_then_on(type_text: str) -> None:
    is_array = type_text.endswith("[]")

    def spelled(label: str) -> Any:
        return [label] if is_array else label

    def shown(a: int, label: str) -> str:
        text = f'["{label}"]' if is_array else f'"{label}"'
        return f'foo: [{a}]->{{"after": {{"a": {a}, "e": {text}}}}}'

    columns = [{"name": "a", "type": "INT"}, {"name": "e", "type": type_text}]
    added = _ddl("ALTER TYPE status ADD VALUE 'pending'")
    case: dict[str, Any] = {
        "id": "cf-schema-99",
        "table": {"name": "foo", "columns": columns, "pk": ["a"]},
        "options": {},
        "writes": [_START, _insert(a=1, e=spelled("closed")), added, _insert(a=2, e=spelled("pending"))],
        "expect": {"records": [shown(1, "closed"), shown(2, "pending")], "exactly": True},
    }
    result = run_case(case)
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")
    case["writes"].remove(added)
    result = run_case(case)
    assert result.outcome is Outcome.FAILED
    assert "'pending' is no label of the enum status" in result.detail


@pytest.mark.parametrize("type_text", ["status(open,closed)", "status"])
def test_a_renamed_label_shows_in_later_records_of_rows_that_were_there(type_text: str) -> None:
    columns = [{"name": "a", "type": "INT"}, {"name": "b", "type": "INT"}, {"name": "e", "type": type_text}]
    case = {
        "id": "cf-schema-99",
        "table": {"name": "foo", "columns": columns, "pk": ["a"]},
        "options": {"diff": True},
        "writes": [
            _START,
            _insert(a=1, b=1, e="open"),
            _ddl("ALTER TYPE status RENAME VALUE 'open' TO 'new'"),
            {"op": "update", "table": "foo", "key": [1], "set": {"b": 2}},
            _insert(a=2, b=1, e="new"),
        ],
        "expect": {
            "records": [
                'foo: [1]->{"after": {"a": 1, "b": 1, "e": "open"}, "before": null}',
                'foo: [1]->{"after": {"a": 1, "b": 2, "e": "new"}, "before": {"a": 1, "b": 1, "e": "new"}}',
                'foo: [2]->{"after": {"a": 2, "b": 1, "e": "new"}, "before": null}',
            ],
            "exactly": True,
        },
    }
    result = run_case(case)
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


def test_a_cursor_below_everything_gives_every_version_by_the_table_of_its_time() -> None:
    writes = [_X, _ddl("ALTER TABLE foo ADD COLUMN c INT"), _insert(a=2, b="y", c=3), _START]
    records = [_SHOWN_X, 'foo: [2]->{"after": {"a": 2, "b": "y", "c": 3}}']
    result = _run(writes, records, {"cursor": "<start>", "note": "two versions of the table"})
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


@pytest.mark.parametrize(
    ("options", "writes", "reason"),
    [
        ({"schema_change_policy": "stop"}, [_START], "option schema_change_policy is not supported yet"),
        ({"query": "SELECT a FROM foo"}, [_START], "a feed of a query"),
        (
            {},
            [_START, {"op": "txn", "writes": [_X, _ddl("ALTER TABLE foo DROP COLUMN b")]}],
            "a schema change inside of a transaction is not supported yet",
        ),
    ],
)
def test_a_schema_change_that_needs_more_than_there_is_leaves_the_case_out(
    options: dict[str, Any], writes: list[dict[str, Any]], reason: str
) -> None:
    case = {
        "id": "cf-schema-99",
        "table": {
            "name": "foo",
            "columns": [{"name": "a", "type": "INT"}, {"name": "b", "type": "STRING"}],
            "pk": ["a"],
        },
        "options": options,
        "writes": writes,
        "expect": {"state": "failed", "error_regex": "schema change occurred at"},
    }
    result = run_case(case)
    assert result.outcome is Outcome.SKIPPED
    assert reason in result.detail


def test_several_changes_in_one_statement_make_one_version() -> None:
    added = _ddl("ALTER TABLE foo ADD COLUMN c STRING, ADD COLUMN d INT")
    records = [_SHOWN_X, 'foo: [2]->{"after": {"a": 2, "b": "y", "c": "z", "d": 3}}']
    result = _run([_X, _START, added, _insert(a=2, b="y", c="z", d=3)], records)
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ("ADD VALUE 'first' BEFORE 'open'", "first"),
        ("ADD VALUE 'middle' AFTER 'open'", "middle"),
        ("RENAME TO st", "closed"),
    ],
)
def test_an_enum_type_changes_its_labels_or_its_name(change: str, label: str) -> None:
    case = {
        "id": "cf-basic-99",
        "table": {
            "name": "foo",
            "columns": [{"name": "a", "type": "status(open,closed)"}],
            "pk": ["a"],
        },
        "options": {},
        "writes": [_START, _insert(a="open"), _ddl(f"ALTER TYPE status {change}"), _insert(a=label)],
        "expect": {
            "records": [f'foo: ["{each}"]->{{"after": {{"a": "{each}"}}}}' for each in ("open", label)],
            "exactly": True,
        },
    }
    result = run_case(case)
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


def test_a_label_beside_one_that_is_not_there_is_a_failure() -> None:
    named = replace(parse_sql_type("ENUM('open','closed')"), name="status")
    labels = [member.label for member in with_label(named, "status", "middle", before="closed").members]
    assert labels == ["open", "middle", "closed"]
    physical = [member.physical for member in with_label(named, "status", "x", before="open").members]
    assert physical == sorted(physical)
    with pytest.raises(ValueError, match="type status has no label gone"):
        with_label(named, "status", "middle", after="gone")
