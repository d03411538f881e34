"""The runner of changefeed cases can fail: each kind of expectation, altered, is told from what came out."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.case import read_cases
from tests.conformance.runner import Outcome, Result, run_case
from tidegate.changefeed.encoding.partition import fnv1a_32

_VECTORS = Path(__file__).parent / "vectors" / "changefeed.jsonl"
_CASES = {case["id"]: case for case in read_cases(_VECTORS)}

Change = Callable[[dict[str, Any]], None]


def _set(**members: Any) -> Change:
    def change(case: dict[str, Any]) -> None:
        case["expect"] |= members

    return change


def _replace(name: str, old: str, new: str) -> Change:
    """Another text in an expectation, which has to be there."""

    def change(case: dict[str, Any]) -> None:
        value = case["expect"][name]
        texts = value if isinstance(value, list) else [value]
        assert any(old in text for text in texts)
        replaced = [text.replace(old, new) for text in texts]
        case["expect"][name] = replaced if isinstance(value, list) else replaced[0]

    return change


def _reverse(case: dict[str, Any]) -> None:
    case["expect"]["records"].reverse()


def _twice(case: dict[str, Any]) -> None:
    case["expect"]["records"].append(case["expect"]["records"][0])


def _commit_the_second(case: dict[str, Any]) -> None:
    case["writes"].append({"op": "commit_intent", "txn": "t1", "key": 2, "ts": "10"})


def _write(number: int, **members: Any) -> Change:
    def change(case: dict[str, Any]) -> None:
        case["writes"][number] |= members

    return change


def _options(**members: Any) -> Change:
    def change(case: dict[str, Any]) -> None:
        case["options"] |= members

    return change


@pytest.mark.parametrize(
    ("case_id", "change", "detail"),
    [
        # cursors
        ("cf-time-02", _options(cursor="T2"), "missing"),
        ("cf-time-02", _options(initial_scan="no"), "missing"),
        ("cf-time-02", _options(cursor="T3"), "value is neither timestamp, decimal, nor interval"),
        ("cf-time-02", _options(cursor="-1h"), "missing"),
        ("cf-time-03", _options(cursor=["-1h", "1h"]), "value is neither timestamp, decimal, nor interval"),
        ("cf-time-03", _options(cursor=["-1h", "9000000000000000000"]), "timestamp in the future"),
        ("cf-time-03", _options(cursor=[]), "lists no value"),
        # records
        ("cf-basic-01", _replace("records", '"b": "c"', '"b": "x"'), "missing"),
        ("cf-basic-01", _replace("records", '"a": 1, ', '"a": 1,'), "missing"),
        ("cf-basic-01", _replace("records", "foo:", "bar:"), "missing"),
        ("cf-basic-01", _replace("records", "[0]", "[9]"), "missing"),
        ("cf-basic-01", _reverse, "come in another order"),
        ("cf-basic-01", _set(order="by the moon"), "knows no order"),
        ("cf-enc-01", _twice, "missing"),
        ("cf-basic-01", _set(records=[], exactly=True), "unexpected"),
        ("cf-basic-17", _set(allowed=[]), "unexpected"),
        ("cf-env-03", _replace("records", "<T1>", "<T2>"), "missing"),
        ("cf-basic-02", _replace("records", '{"string":"c"}', '{"string":"x"}'), "missing"),
        ("cf-basic-02", _replace("records", '{"string":"c"}', '"c"'), "missing"),
        ("cf-basic-02", _replace("records", '{"long":3}', '{"int":3}'), "missing"),
        ("cf-basic-05", _replace("records", '"before": null', '"before": {}'), "missing"),
        ("cf-basic-13", _replace("records_regex", '"a": 0', '"a": 1'), "no record matches"),
        ("cf-basic-14", _set(each_feed=True, records=['foo: [9]->{"after": null}']), "missing"),
        ("cf-basic-14", _options(feeds=1), "1 feeds ran"),
        ("cf-env-06", _set(ignore=[]), "missing"),
        ("cf-env-06", _set(ignore=["ts_ns", "ts_hlc"]), "no record has the member ts_hlc"),
        ("cf-env-10", _set(headers={}), "expected the headers"),
        ("cf-env-10", _set(headers={"trace_id": "x"}), "expected the headers"),
        ("cf-basic-15", _set(metric={"error_retries": ">=9"}), "expected error_retries"),
        ("cf-basic-15", _set(metric={"failures": 1}), "expected failures"),
        ("cf-basic-15", _set(metric={"lag": 1}), "knows no metric lag"),
        # markers
        ("cf-enc-01", _replace("resolved", "__crdb__", "crdb"), "expected a marker like"),
        ("cf-enc-01", _replace("resolved", ":", ": "), "expected a marker like"),
        ("cf-enc-01", _replace("resolved", "0002", "0003"), "the case resolves"),
        ("cf-enc-23", _replace("resolved", "string", "long"), "expected a marker like"),
        ("cf-env-03", _replace("resolved_shape", "__crdb__", "crdb"), "expected a marker like"),
        ("cf-part-02", _replace("resolved", "8", "7"), "each marker once on each of 7 partitions"),
        ("cf-part-02", _replace("resolved", "8", "9"), "each marker once on each of 9 partitions"),
        ("cf-part-02", _set(resolved="now and then"), "cannot check markers"),
        ("cf-basic-06", _set(resolved="at least ten"), "cannot check markers"),
        ("cf-resolved-07", _replace("resolved", "9.", "8."), "markers on partition 0 of foo"),
        ("cf-resolved-07", _write(1, ts="11"), "markers on partition 0 of foo"),
        ("cf-resolved-11", _replace("resolved", "below 10", "below 9"), "markers on partition 0 of foo"),
        ("cf-resolved-11", _commit_the_second, "no intent is open"),
        # invariants
        ("cf-resolved-03", _set(invariant="all is well"), "cannot check the invariant 'all is well'"),
        ("cf-resolved-03", _write(1, speed="high"), "does not know what speed says"),
        ("cf-resolved-03", _write(1, kind="a storm"), "knows no workload 'a storm'"),
        ("cf-resolved-05", _options(diff=False), "KeyError: 'before'"),
        # Avro
        ("cf-avrotype-12", _replace("avro_json", "0.006", "0.007"), "expected"),
        ("cf-avrotype-15", _replace("avro_json", "bytes.decimal", "bytes"), "expected"),
        ("cf-avrotype-15", _replace("field_type", '"scale":2', '"scale":3'), "expected the schema"),
        (
            "cf-avrotype-15",
            _replace("field_type", '"precision":12,"scale":2', '"scale":2,"precision":12'),
            "expected the schema",
        ),
        ("cf-avrotype-32", _replace("value_row_schema", "INT8", "INT4"), "expected the schema"),
        ("cf-avrotype-32", _set(key_schema="{}"), "expected the schema"),
        ("cf-avrotype-32", _set(value_schema="{}"), "expected the schema"),
        # refusals
        ("cf-avrotype-30", _replace("error_regex", "OID", "INET"), "expected"),
        ("cf-avrotype-07", _set(state="failed", error_regex="STRING"), "nothing was refused"),
        ("cf-avrotype-07", _set(state="failed"), "nothing was refused"),
        ("cf-avrotype-30", _set(records=['foo: {"a":{"long":1}}->']), "missing"),
        ("cf-avrotype-30", _set(state="failed", gone=True), "cannot check what a case expects by gone"),
        ("cf-enc-15", _replace("error", "wrapped", "row"), "expected"),
        ("cf-enc-12", _set(error="anything"), "nothing was refused"),
        # what nobody here knows
        ("cf-basic-01", _set(sizes=["1"]), "cannot check what a case expects by sizes"),
        ("cf-basic-01", _set(state="paused"), "cannot check what a case expects by state"),
        ("cf-basic-01", _set(state="succeeded"), "expected a feed that succeeds, and it goes on"),
        ("cf-env-12", _set(values=["1,Alice"]), "expected the values ['1,Alice'], wrote"),
        ("cf-basic-01", _write(0, op="insrt"), "knows no op 'insrt'"),
        ("cf-basic-01", _write(0, priority="high"), "does not know what priority says"),
        ("cf-basic-15", _write(4, fault="fire"), "knows no fault 'fire'"),
        ("cf-basic-01", _write(0, rows=[{"a": 0, "c": 1}]), "has no column c"),
        ("cf-basic-01", _options(sparkling=True), "unknown option"),
    ],
)
def test_an_altered_case_fails_and_says_why(case_id: str, change: Change, detail: str) -> None:
    assert run_case(_CASES[case_id]).outcome is Outcome.PASSED
    case = copy.deepcopy(_CASES[case_id])
    change(case)
    result = run_case(case)
    assert result.outcome is Outcome.FAILED
    assert detail in result.detail


def _part(expect: Mapping[str, Any], **members: Any) -> dict[str, Any]:
    return {"id": "cf-part-99", "table": None, "options": {"partitions": 8}, "expect": expect, **members}


#: FNV-1a of "[1]", by hand: 32-bit, xor then multiply, over 5b 31 5d.
_HASH = 0x811C9DC5
for _byte in b"[1]":
    _HASH = (_HASH ^ _byte) * 0x01000193 % 2**32
_SIGNED = _HASH - 2**32 if _HASH >= 2**31 else _HASH
_PARTITION = abs(_SIGNED) % 8
_ROW = {
    "table": {"name": "foo", "columns": [{"name": "a", "type": "INT"}], "pk": ["a"]},
    "writes": [{"op": "start_feed"}, {"op": "insert", "table": "foo", "rows": [{"a": 1}]}],
}


def _forms(partition: int, hashed: int) -> list[dict[str, Any]]:
    """One example in every form that a case may have."""
    return [
        _part({"partition": partition}, options={"partitions": 8, "key": "[1]"}),
        _part({"partition": partition, "key_hex": "5b315d"}),
        _part({"partitions": {"[1]": partition}}),
        _part({"partitions": {"[1]": partition}}, **_ROW),
        _part({"partitions": {"[1]": partition}, "records": ['foo: [1]->{"after": {"a": 1}}']}, **_ROW),
        _part({"partition_of": [["[1]", partition]]}),
        _part({"partitions": [partition]}, options={"partitions": 8, "keys": ["[1]"]}),
        _part({"examples": [{"key": "[1]", "partitions": 8, "partition": partition, "hash": hashed}]}),
        _part({"hash": hashed, "key": "[1]"}),
        _part({"hash": {"[1]": f"{hashed:08x}"}}),
        _part({"fnv1a": {"[1]": hashed - 2**32}}),
        _part({"partition_of_8": partition}, options={"key": "[1]"}),
        _part({"partition_of_8": {"[1]": partition}}, options={}),
        _part({"partition_of_8": {"[1]": partition}}, **{**_ROW, "options": {}}),
        _part({"partitions_8": [partition]}, options={"keys": ["[1]"]}),
        _part({"partitions": [partition], "keys": ["[1]"]}),
        _part({"[1]": partition}),
        _part({"[1]": {"8": partition}}, options={}),
        _part({"[1]": {"partition_of_8": partition, "fnv1a_32": f"{hashed:#010x}"}}, options={}),
        _part({"[1]": [0, partition]}, options={"partitions": [1, 8]}),
        _part({"partition": {"[1]": {"hash": hashed, "8": partition}}}, options={}),
        _part({"partition": {"8": {"[1]": partition}}}, options={}),
        _part({"partition_by_count": {"[1]": {"1": 0, "8": partition}}}, options={}),
        _part({"partition_of": {"[1]": {"hash": str(hashed), "partition": str(partition)}}}),
        _part({"fnv1a_32_and_partition_of_8": {"[1]": [f"0x{hashed:08X}", partition]}}, options={}),
        _part({"examples": [{"key": "[1]", "hash": hashed, "partition_of_8": partition}]}, options={}),
        _part({"examples": [{"key": "[1]", "partitions": {"1": 0, "8": partition}}]}, options={}),
        _part({"examples": [{"key": [1], "num_partitions": 8, "partition": partition}]}, options={}),
        _part({"keys": {"[1]": {"partition": partition, "partitions": 8}}}, options={}),
        _part({"partition_of": {"[1]": partition}, "hash": "FNV-1a (32 bit) over the key's bytes"}),
        _part({"algorithm": "fnv1a", "key": "[1]", "partition": partition, "note": "computed"}),
    ]


@pytest.mark.parametrize("form", range(len(_forms(0, 0))))
def test_partition_examples_are_read_in_every_form_and_can_be_wrong(form: int) -> None:
    right = run_case(_forms(_PARTITION, _HASH)[form])
    assert (right.outcome, right.detail) == (Outcome.PASSED, "")
    wrong = run_case(_forms((_PARTITION + 1) % 8, _HASH ^ 1)[form])
    assert wrong.outcome is Outcome.FAILED
    assert "expected" in wrong.detail


@pytest.mark.parametrize(
    "expect",
    [
        {"partition": 3},
        {"partitions": 3},
        {"partitions": [3, 4]},
        {"partitions": {}},
        {"hash": 3},
        {"examples": [{"key": [1], "partition": 3}]},
        {"examples": [{"key": 1, "partition": 4}]},
        {"[1]": "four"},
        {"[1]": {"of_8": 4}},
        {"[1]": [4, 4]},
        {"[1]": True},
        {"partition_of_0": {"[1]": 0}},
        {"hash": {"[1]": "not a number"}},
        {"partition": {"[1]": 4}, "hash": "murmur2"},
        {"partition": {"[1]": 4}, "murmur": 3},
        {"partition": {"[1]": {"murmur": 3}}},
        {"fnv1a_32_and_partition_of_8": {"[1]": 4}},
        {"examples": [{"key": "[1]"}]},
        {"murmur": 3},
        {},
    ],
)
def test_partition_examples_of_an_unknown_form_fail(expect: dict[str, Any]) -> None:
    for table in (None, _ROW["table"]):
        result = run_case(_part(expect, writes=[], table=table))
        assert result.outcome is Outcome.FAILED
        assert not re.match(r"\w+Error: ", result.detail)
    assert run_case(_part({"partition": {"[1]": _PARTITION}})).outcome is Outcome.PASSED


def test_a_hash_of_eight_digits_is_decimal_or_hexadecimal() -> None:
    key = next(text for text in map(str, range(10**6)) if f"{fnv1a_32(text.encode()):08x}".isdecimal())
    shown = f"{fnv1a_32(key.encode()):08x}"
    assert run_case(_part({"hash": {f"{key} ": shown}})).outcome is Outcome.FAILED
    assert run_case(_part({"examples": [{"key": key, "hash": shown}]})).outcome is Outcome.PASSED


def test_an_example_of_how_many_partitions_nobody_says_fails() -> None:
    result = run_case(_part({"partition": {"[1]": _PARTITION}}, options={}))
    assert result.outcome is Outcome.FAILED
    assert result.detail == "the example of key b'[1]' does not say of how many partitions"


def test_examples_of_a_feed_that_writes_nothing_fail() -> None:
    case = copy.deepcopy(_part({"partition_of": {"[1]": _PARTITION}}, **_ROW))
    assert run_case(case).outcome is Outcome.PASSED
    case["options"] |= {"key_column": "c", "unordered": True}
    assert run_case(case).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("expect", "outcome"),
    [
        ({"error": "unordered is not usable with resolved"}, Outcome.PASSED),
        ({"error_regex": "^unordered .* resolved"}, Outcome.PASSED),
        ({"error": "resolved is not usable"}, Outcome.FAILED),
        ({"error_regex": "^resolved"}, Outcome.FAILED),
    ],
)
def test_a_refusal_is_a_text_or_a_pattern(expect: dict[str, Any], outcome: Outcome) -> None:
    case = {**_CASES["cf-opterr-09"], "expect": expect}
    assert run_case(case).outcome is outcome
    assert run_case({**case, "options": {}}).outcome is Outcome.FAILED


def test_a_workload_of_which_nothing_is_said_is_random() -> None:
    case = copy.deepcopy(_CASES["cf-resolved-03"])
    del case["writes"][1]["kind"]
    assert run_case(case).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"op": "pause"}, "op pause is not supported yet"),
        (
            {"op": "ddl", "sql": "ALTER TABLE foo ADD COLUMN c INT DEFAULT 1"},
            "op ddl is not supported yet for ALTER TABLE foo ADD COLUMN c INT DEFAULT 1",
        ),
        (
            {"op": "ddl", "sql": "ALTER TABLE foo DROP COLUMN b"},
            "the backfill after ALTER TABLE foo DROP COLUMN b is not supported yet",
        ),
    ],
)
def test_a_step_of_the_case_that_this_version_cannot_take_leaves_the_case_out(
    step: dict[str, Any], reason: str
) -> None:
    case = copy.deepcopy(_CASES["cf-basic-01"])
    case["writes"].append(step)
    result = run_case(case)
    assert (result.outcome, result.detail) == (Outcome.SKIPPED, reason)


def _typed(sql_type: str, spelled: str, shown: str, **column: Any) -> dict[str, Any]:
    return {
        "id": "cf-jsontype-99",
        "table": {
            "name": "t",
            "columns": [{"name": "a", "type": "INT NOT NULL"}, {"name": "b", "type": sql_type, **column}],
            "pk": ["a"],
        },
        "options": {},
        "writes": [
            {"op": "insert_sql", "table": "t", "values": f"(1, {spelled})"},
            {"op": "start_feed"},
        ],
        "expect": {"records": [f't: [1]->{{"after": {{"a": 1, "b": {shown}}}}}']},
    }


@pytest.mark.parametrize(
    ("sql_type", "spelled", "shown"),
    [
        ("INTERVAL", "'1 year 2 mons 3 days 04:05:06'", '"1 year 2 mons 3 days 04:05:06"'),
        ("DECIMAL(10,2)", "1.005", "1.01"),
        ("DECIMAL(10,2) NOT NULL", "26.3", "26.30"),
        ("TIMESTAMPTZ", "'2025-05-09 21:20:29.25-05:00'", '"2025-05-10T02:20:29.25Z"'),
        ("TIMETZ", "'03:04:05-08'", '"03:04:05-08"'),
        ("DATE", "DATE 'infinity'", '"infinity"'),
        ("BYTES", "'\\x666f6f'", '"\\\\x666f6f"'),
        ("STRING[]", "ARRAY['a','b,c', NULL]::STRING[]", '["a", "b,c", null]'),
        ("JSONB", '\'{"b": 1.0, "a": [null]}\'', '{"a": [null], "b": 1.0}'),
        ("status(open,closed)", "'closed'", '"closed"'),
        ("STRING COLLATE fr", "'it''s (1, 2)' COLLATE fr", '"it\'s (1, 2)"'),
        ("PGVECTOR(2)", "'[1,2]'", '"[1,2]"'),
        ("STRING NULL", "'x'", '"x"'),
    ],
)
def test_literals_are_read_as_sql_means_them(sql_type: str, spelled: str, shown: str) -> None:
    result = run_case(_typed(sql_type, spelled, shown))
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


def test_an_enums_labels_may_stand_beside_its_name() -> None:
    case = _typed("status", "'closed'", '"closed"', labels=["open", "closed"])
    assert run_case(case).outcome is Outcome.PASSED
    case = {**_typed("status", "'closed'", '"closed"'), "types": {"status": ["open", "closed"]}}
    assert run_case(case).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("sql_type", "spelled", "shown"),
    [
        ("switch", "'open'", '"open"'),
        ("public.status", "'open'", '"open"'),
        ("ENUM", "'it''s, open'", '"it\'s, open"'),
        ("switch[]", "ARRAY['open', NULL, 'closed']", '["open", null, "closed"]'),
        ("switch[]", "'{open,closed}'", '["open", "closed"]'),
        ("switch", "NULL", "null"),
        ("ENUM switch ('open', 'closed')", "'closed'", '"closed"'),
        ("switch AS ENUM ('open', 'closed')", "'closed'", '"closed"'),
    ],
)
def test_an_enum_may_go_by_its_name_alone(sql_type: str, spelled: str, shown: str) -> None:
    result = run_case(_typed(sql_type, spelled, shown))
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


def test_a_created_type_has_its_own_labels_and_no_others() -> None:
    case = _typed("status", "'closed'", '"closed"')
    case["writes"].insert(0, {"op": "ddl", "sql": "CREATE TYPE status AS ENUM ('open', 'closed');"})
    assert run_case(case).outcome is Outcome.PASSED
    case["writes"][0]["sql"] = "CREATE TYPE status AS ENUM ('open')"
    result = run_case(case)
    assert result.outcome is Outcome.FAILED
    assert "'closed' is no label of the enum status" in result.detail


@pytest.mark.parametrize("sql_type", ["LTREE", "CITEXT[]", "REGCLASS", "not a type"])
def test_an_unknown_type_is_not_taken_for_an_enum(sql_type: str) -> None:
    result = run_case(_typed(sql_type, "'x'", '"x"'))
    assert result.outcome is Outcome.FAILED
    assert "is not a column type" in result.detail


@pytest.mark.parametrize(
    ("sql_type", "value", "shown"),
    [
        ("BYTES", "beef", '"\\\\x62656566"'),
        ("BYTES", "\\xbeef", '"\\\\xbeef"'),
        ("BYTES", "\\001", '"\\\\x5c303031"'),
        ("INTERVAL", "P1DT2H", '"1 day 02:00:00"'),
        ("TIMETZ", "03:04:05+02:00:00", '"03:04:05+02"'),
        ("TIMESTAMPTZ", "2025-05-09 21:20:29 UTC", '"2025-05-09T21:20:29Z"'),
        ("DATE", "infinity", '"infinity"'),
        ("BOOL", "false", "false"),
        ("DECIMAL", "1.50E+3", "1.50E+3"),
        ("DECIMAL(5,1)", 26.25, "26.3"),
        ("FLOAT", "NaN", '"NaN"'),
        ("JSONB", "1", '"1"'),
        ("VECTOR", [1, 2.5], '"[1,2.5]"'),
        ("BYTES[]", ["beef", None], '["\\\\x62656566", null]'),
        ("INT[]", "{1,NULL}", "[1, null]"),
    ],
)
def test_a_text_in_a_row_means_what_it_means_in_sql(sql_type: str, value: Any, shown: str) -> None:
    case = _typed(sql_type, "NULL", shown)
    case["writes"][0] = {"op": "insert", "table": "t", "rows": [{"a": 1, "b": value}]}
    result = run_case(case)
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


def test_computed_columns_are_computed_and_virtual_ones_are_not_stored() -> None:
    case = copy.deepcopy(_CASES["cf-basic-10"])
    assert run_case(case).outcome is Outcome.PASSED
    del case["options"]["virtual_columns"]
    case["expect"]["records"] = [text.replace(', "c": null', "") for text in case["expect"]["records"]]
    assert run_case(case).outcome is Outcome.PASSED
    case["table"]["columns"][2]["type"] = "INT AS (b+1) STORED NOT NULL"
    case["expect"]["records"] = [
        'cc: [1]->{"after": {"a": 1, "b": 1, "c": 2}, "before": null}',
        'cc: [1]->{"after": {"a": 1, "b": 10, "c": 11}, "before": {"a": 1, "b": 1, "c": 2}}',
    ]
    assert run_case(case).outcome is Outcome.PASSED


def test_the_enriched_envelope_in_avro() -> None:
    case = copy.deepcopy(_CASES["cf-env-06"])
    case["options"] |= {"format": "avro"}
    case["expect"]["records"] = [
        'foo: {"a":{"long":0}}->{"after":{"foo":{"a":{"long":0},"b":{"string":"dog"}}},"op":{"string":"c"}}',
        'foo: {"a":{"long":0}}->{"after":{"foo":{"a":{"long":0},"b":{"string":"cat"}}},"op":{"string":"u"}}',
        'foo: {"a":{"long":0}}->{"after":null,"op":{"string":"d"}}',
    ]
    result = run_case(case)
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")
    case["expect"]["records"][2] = case["expect"]["records"][2].replace('"d"', '"u"')
    assert run_case(case).outcome is Outcome.FAILED


def test_the_schema_of_enriched_records_is_read_as_cockroachdb_prints_it() -> None:
    case = copy.deepcopy(_CASES["cf-env-06"])
    case["options"] |= {"enriched_properties": "schema"}
    case["expect"]["ignore"] = []
    key = (
        '{"payload": {"a": 0}, "schema": {"fields": [{"field": "a", "optional": false, "type": "int64"}], '
        '"name": "foo.key", "optional": false, "type": "struct"}}'
    )
    case["expect"] |= {
        "records": [],
        "records_regex": [re.escape(f"foo: {key}->") + r'\{"payload": \{"after": .*'],
    }
    result = run_case(case)
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


@pytest.mark.parametrize("spelled", [{"team": "blue"}, '{"team": "blue"}'])
def test_the_headers_of_a_feed_are_those_of_every_record(spelled: Any) -> None:
    case = copy.deepcopy(_CASES["cf-env-10"])
    case["options"] |= {"extra_headers": spelled}
    case["expect"]["headers"] |= {"team": "blue"}
    assert run_case(case).outcome is Outcome.PASSED
    del case["options"]["extra_headers"]
    assert run_case(case).outcome is Outcome.FAILED


def test_a_changed_primary_key_is_a_deletion_and_a_new_row() -> None:
    case = copy.deepcopy(_CASES["cf-basic-01"])
    case["writes"] = [
        {"op": "start_feed"},
        {"op": "insert", "table": "foo", "rows": [{"a": 1, "b": "x"}]},
        {"op": "update", "table": "foo", "key": [1], "set": {"a": 2}},
    ]
    case["expect"]["records"] = [
        'foo: [1]->{"after": {"a": 1, "b": "x"}}',
        'foo: [1]->{"after": null}',
        'foo: [2]->{"after": {"a": 2, "b": "x"}}',
    ]
    assert run_case(case).outcome is Outcome.PASSED


def test_full_names_come_from_the_topics_where_the_table_does_not_say_them() -> None:
    case = copy.deepcopy(_CASES["cf-basic-04"])
    case["options"] = {"full_table_name": True}
    case["expect"]["records"] = [f"d.s.{text}" for text in case["expect"]["records"]]
    assert run_case(case).outcome is Outcome.PASSED
    case["expect"]["records"] = [text.replace("d.s.", "") for text in case["expect"]["records"]]
    assert run_case(case).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("options", "expect"),
    [
        ({"full_table_name": True}, {"topics": ["movr.public.foo"]}),
        ({"full_table_name": True}, {"resolved_topics": ["movr.public.foo"]}),
        ({"sink_params": {"topic_prefix": "p_"}}, {"topics": ["p_foo"]}),
        (
            {"full_table_name": True, "format": "avro", "avro_schema_prefix": "super"},
            {"subjects": ["supermovr.public.foo-key", "supermovr.public.foo-value"], "namespace": "super"},
        ),
    ],
)
def test_a_case_of_names_is_run(options: dict[str, Any], expect: dict[str, Any]) -> None:
    case = {**_CASES["cf-basic-01"], "id": "cf-name-99", "options": options, "expect": expect}
    assert run_case(case) == Result("cf-name-99", Outcome.PASSED)
    for name in expect:
        other = {**case, "options": {}, "expect": {name: expect[name]}}
        assert run_case(other).outcome is Outcome.FAILED


def test_what_sql_would_round_away_is_stored_where_a_refusal_is_expected() -> None:
    case = {**_typed("DECIMAL(3,2)", "1.234", "1.23"), "options": {"format": "avro"}}
    case["expect"] = {"state": "failed", "error_regex": "1.234"}
    assert run_case(case).outcome is Outcome.PASSED


def test_a_feed_with_a_cursor_gives_what_came_after_it_and_a_scan_what_there_was_then() -> None:
    case = copy.deepcopy(_CASES["cf-time-02"])
    before = {"op": "insert", "table": "foo", "rows": [{"a": 1, "b": "first"}, {"a": 2, "b": "gone"}]}
    case["writes"].insert(0, before)
    case["writes"][1] = {"op": "txn", "ts": "T1", "writes": [_upsert("before"), _delete(2)]}
    assert run_case(case).outcome is Outcome.PASSED, run_case(case).detail
    case["options"]["initial_scan"] = "no"
    case["expect"]["records"] = case["expect"]["records"][1:]
    assert run_case(case).outcome is Outcome.PASSED, run_case(case).detail


def _upsert(text: str) -> dict[str, Any]:
    return {"op": "upsert", "table": "foo", "rows": [{"a": 1, "b": text}]}


def _delete(key: int) -> dict[str, Any]:
    return {"op": "delete", "table": "foo", "keys": [[key]]}


def test_an_option_that_does_not_exist_yet_leaves_its_case_out_by_name() -> None:
    result = run_case({**_CASES["cf-opt-01"], "options": {"metrics_label": "one"}})
    assert result.outcome is Outcome.SKIPPED
    assert "metrics_label" in result.detail


@pytest.mark.parametrize(
    ("options", "column", "outcome"),
    [
        ({"key_column": "nosuch", "unordered": True}, "nosuch", Outcome.PASSED),
        ({"headers_json_column_name": "nosuch"}, "nosuch", Outcome.PASSED),
        ({"headers_json_column_name": "b"}, "(?i)json", Outcome.PASSED),
        ({"key_column": "b", "unordered": True}, "b", Outcome.FAILED),
    ],
)
def test_a_table_may_be_what_an_option_does_not_fit(
    options: dict[str, Any], column: str, outcome: Outcome
) -> None:
    columns = [{"name": "a", "type": "INT"}, {"name": "b", "type": "STRING"}]
    case = {
        "id": "cf-opterr-99",
        "table": {"name": "foo", "columns": columns, "pk": ["a"]},
        "options": options,
        "writes": [{"op": "start_feed"}],
        "expect": {"error_regex": column},
    }
    assert run_case(case).outcome is outcome
