"""Expectations of a whole run: each is met, and each can fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.runner import Outcome, run_case

_ONE = 'foo: [1]->{"after": {"a": 1}}'
_TWO = 'foo: [2]->{"after": {"a": 2}}'
_GONE = 'foo: [1]->{"after": null}'
_AFTER = ['{"after": {"a": 1}}', '{"after": {"a": 2}}']
_BAR = 'bar: [1]->{"after": {"a": 1}}'


def _case(expect: dict[str, Any], options: dict[str, Any], tables: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id": "cf-basic-99",
        "table": [
            {"name": name, "columns": [{"name": "a", "type": "INT"}], "pk": ["a"]}
            for name in ("foo", "bar")
            if name in tables
        ],
        "options": {"partitions": 1, **options},
        "writes": [
            {"op": "start_feed"},
            *({"op": "insert_range", "table": name, "column": "a", "from": 1, "to": 2} for name in tables),
            {"op": "delete", "table": "foo", "keys": [[1]]},
        ],
        "expect": {"provenance": "by hand", "example": "two rows", "notes": "", "comment": "", **expect},
    }


def _outcome(
    expect: dict[str, Any], options: dict[str, Any] | None = None, tables: tuple[str, ...] = ("foo",)
) -> Outcome:
    return run_case(_case(expect, options or {}, tables)).outcome


@pytest.mark.parametrize(
    ("expect", "wrong"),
    [
        ({"absent": ['foo: [3]->{"after": {"a": 3}}']}, {"absent": [_TWO]}),
        ({"absent": '"before"'}, {"absent": '"after"'}),
        ({"absent_keys": ["[3]", "bar: [1]"]}, {"absent_keys": ["foo: [1]"]}),
        ({"absent_keys": [[3]]}, {"absent_keys": [[2]]}),
        ({"count_distinct_keys": 2}, {"count_distinct_keys": 3}),
        ({"count_distinct_keys": {"foo": 2}}, {"count_distinct_keys": {"foo": 2, "bar": 1}}),
        ({"order_of": [_ONE, _GONE]}, {"order_of": [_GONE, _ONE]}),
        ({"order_of": [_TWO, _ONE, _GONE]}, {"order_of": [_TWO, _ONE, _BAR]}),
        ({"order_of": [[_ONE, _GONE], [_TWO]]}, {"order_of": [[_TWO], [_GONE, _ONE]]}),
        (
            {"records": [_ONE, _GONE], "order_of": "[1]"},
            {"records": [_ONE], "order_of": "foo: [1]"},
        ),
        ({"topics": ["foo"]}, {"topics": ["bar", "foo"]}),
        ({"keys": ["[1]", [2]]}, {"keys": [[1]]}),
        ({"lines": ['{"after": null}', *_AFTER]}, {"lines": _AFTER}),
        ({"state": "running", "keys": [[1], [2]]}, {"state": "running", "keys": []}),
        ({"headers": [], "keys": [[1], [2]]}, {"headers": [["h", "v"]]}),
        ({"records": [_GONE, _ONE], "order": "any"}, {"records": [_GONE, _ONE], "order": "by updated"}),
        ({"resolved_regex": r'\{"resolved":"[0-9.]+"\}'}, {"resolved_regex": "[0-9.]+"}),
        ({"resolved_topics": ["foo"]}, {"resolved_topics": []}),
    ],
)
def test_an_expectation_of_records_is_met_and_can_fail(expect: dict[str, Any], wrong: dict[str, Any]) -> None:
    assert _outcome(expect) is Outcome.PASSED
    assert _outcome(wrong) is Outcome.FAILED


def test_the_records_of_one_topic_may_be_all_that_is_said() -> None:
    tables = ("foo", "bar")
    listed = {"records": [_ONE, _TWO, _GONE], "exactly_for": "foo"}
    assert _outcome(listed, tables=tables) is Outcome.PASSED
    assert _outcome({**listed, "exactly_for": ["bar"]}, tables=tables) is Outcome.FAILED
    assert _outcome({**listed, "records": [_ONE, _TWO]}, tables=tables) is Outcome.FAILED
    assert _outcome({"topics": ["bar", "foo"], "resolved_topics": ["bar", "foo"]}, tables=tables) is (
        Outcome.PASSED
    )


@pytest.mark.parametrize(
    ("expect", "outcome"),
    [
        ({"monotone": "updated", "per": "key"}, Outcome.PASSED),
        ({"monotone": ["updated", "resolved"], "per": "key"}, Outcome.PASSED),
        ({"monotone": "resolved", "per": "partition"}, Outcome.PASSED),
        ({"monotone": "mvcc_timestamp"}, Outcome.FAILED),
        ({"monotone": "updated", "per": "cluster"}, Outcome.FAILED),
    ],
)
def test_timestamps_that_rise(expect: dict[str, Any], outcome: Outcome) -> None:
    assert _outcome(expect, {"updated": True}) is outcome


def test_a_timestamp_that_falls_is_told() -> None:
    case = _case({"monotone": "updated", "per": "topic"}, {"updated": True}, ("foo",))
    case["writes"][1:] = [
        {"op": "insert", "table": "foo", "rows": [{"a": 1}], "ts": "20"},
        {"op": "insert", "table": "foo", "rows": [{"a": 2}], "ts": "10"},
    ]
    result = run_case(case)
    assert (result.outcome, result.detail) == (
        Outcome.FAILED,
        "updated falls to 10.0000000000 on foo",
    )
    case["expect"]["per"] = "key"
    assert run_case(case).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("options", "expect", "outcome"),
    [
        ({}, {"subjects": ["foo-key", "foo-value"], "namespace": None}, Outcome.PASSED),
        ({}, {"subjects": ["foo-value"]}, Outcome.FAILED),
        ({}, {"namespace": "super"}, Outcome.FAILED),
        ({"avro_schema_prefix": "super"}, {"namespace": {"superfoo-key": "super"}}, Outcome.PASSED),
        ({"avro_schema_prefix": "super"}, {"namespace": {"foo-key": "super"}}, Outcome.FAILED),
        (
            {"avro_schema_prefix": "super"},
            {"subjects": ["superfoo-key", "superfoo-value"], "namespace": "super"},
            Outcome.PASSED,
        ),
    ],
)
def test_schemas_are_registered_under_subjects(
    options: dict[str, Any], expect: dict[str, Any], outcome: Outcome
) -> None:
    assert _outcome(expect, {"format": "avro", **options}) is outcome
