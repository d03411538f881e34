"""The runner itself: a report that hides nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conformance.__main__ import main
from tests.conformance.case import MinusZero, read_cases
from tests.conformance.registry import CHECKS
from tests.conformance.runner import Outcome, Result, run_case, run_files
from tidegate.rows.value_frame import join_header, seal

ONE = {"id": "one", "kind": "key.varint.asc", "hex": "89", "value": "1"}


class Said(NamedTuple):
    """The exit status of the command, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def listed(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """The command in this process, which has imported it."""

    def say(*arguments: str) -> Said:
        status: int | str | None
        try:
            status = main(["--list-kinds", *arguments])
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        if isinstance(status, str):  # as the interpreter does with it
            return Said(1, out, err + status)
        return Said(status or 0, out, err)

    return say


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, run as people run it."""
    command = [sys.executable, "-m", "tests.conformance", *arguments]
    root = Path(__file__).parents[2]
    return subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"value": "2"}, "expected 2, decoded 1"),
        ({"hex": "8989"}, "EncodingError: 1 bytes are left over"),
        ({"hex": "f601"}, "expected f601, encoded 89"),
        ({"hex": "zz"}, "ValueError"),
        ({"kind": "error.key.varint"}, "expected an error, decoded 1"),
        ({"kind": "key.varint.asc.decode_only"}, "expected another form, encoded 89"),
        ({"kind": "key.pretty", "value": "/Table/2"}, "expected /Table/2, got /Table/1"),
        ({"kind": "key.prefix_end", "value": "89"}, "expected 89, got 8a"),
        ({"kind": "kv.primary"}, "KeyError"),
    ],
)
def test_a_wrong_case_fails_with_what_was_expected_and_what_came(
    changes: dict[str, Any], detail: str
) -> None:
    result = run_case({**ONE, **changes})
    assert result.outcome is Outcome.FAILED
    assert detail in result.detail


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"value": {"id": 1, "owner": "Bob"}}, "column owner: expected 'Bob', decoded 'Alice'"),
        ({"value": {"id": 1}}, "column owner: expected None, decoded 'Alice'"),
        ({"hex": "30c8fbd503416c696365"}, "ChecksumMismatch"),
        ({"key_pretty": "/Table/51/1/2/1/1"}, "expected the key /Table/51/1/2/1/1"),
    ],
)
def test_a_wrong_pair_fails_too(changes: dict[str, Any], detail: str) -> None:
    case = {
        "id": "pair",
        "kind": "kv.primary",
        "hex": "30c8fbd403416c696365",
        "value": {"id": 1, "owner": "Alice"},
        "key_hex": "bb89898989",
        "key_pretty": "/Table/51/1/1/1/1",
        "table": "accounts(id INT PK id1, owner STRING id2, FAMILY f0(id), FAMILY f1(owner)); table id 51",
    }
    assert run_case(case).outcome is Outcome.PASSED
    result = run_case({**case, **changes})
    assert result.outcome is Outcome.FAILED
    assert detail in result.detail


def _sealed(key: str, body: str, *, header: str = "", checksum: bool = True) -> dict[str, Any]:
    """A pair of a table with an INT key and a STRING."""
    whole = seal(bytes.fromhex(key), bytes.fromhex(body))
    stored = whole if checksum else bytes(4) + whole[4:]
    return {
        "id": "pair",
        "kind": "kv.primary",
        "key_hex": key,
        "hex": header + stored.hex(),
        "value": {"a": 1, "b": "hi"},
        "table": "f(a INT PK id1, b STRING id2, c DECIMAL id3); table id 51",
    }


@pytest.mark.parametrize(
    "case",
    [
        _sealed("bb898988", "0a26026869"),
        _sealed("bb898988", "0a26026869", checksum=False),
        _sealed("fe8dbb898988", "0a26026869"),
        _sealed("bb898988", "0a26026869", header="00000004650a020809"),
        _sealed("bb898988", "0a2602686911"),
        _sealed("bb898988", "0a26026869730e"),
    ],
    ids=["written", "no checksum", "tenant", "header", "explicit NULL", "unknown column"],
)
def test_a_pair_may_have_more_than_an_encoder_writes(case: dict[str, Any]) -> None:
    assert run_case(case) == Result("pair", Outcome.PASSED)
    assert run_case({**case, "kind": "kv.primary.decode_only"}) == Result("pair", Outcome.PASSED)
    for wrong in (
        {"value": {"a": 1, "b": "ho"}},
        {"value": {"a": 2, "b": "hi"}},
        {"hex": case["hex"] + "01"},
    ):
        assert run_case({**case, **wrong}).outcome is Outcome.FAILED


def test_a_pair_with_a_datum_twice_is_none_that_an_encoder_writes() -> None:
    twice = _sealed("bb898988", "0a2602686906026869")
    assert run_case(twice).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("case", "wrong"),
    [
        (
            {"kind": "value.jsonb", "hex": "80000001a0000003021a89", "value": [MinusZero()]},
            {"hex": "80000001a00000020127"},
        ),
        (
            {
                "kind": "value.array",
                "hex": "11050304033489960118",
                "value": ["1.50", "NaN", None],
                "element_tag": 5,
            },
            {"value": ["1.50", "1", None]},
        ),
        (
            {"kind": "value.datum", "hex": "047ff8000000000001", "value": "nan", "sql_type": "FLOAT"},
            {"hex": "047ff8000000000000"},
        ),
        (
            {
                "kind": "value.datum",
                "hex": "09020406",
                "value": "1 mon 2 days 00:00:00.000000003",
                "type": "INTERVAL",
            },
            {"value": "1 mon 2 days"},
        ),
        (
            {
                "kind": "mvcc.key",
                "hex": "666f6f00000000000000000109",
                "value": {"key": "foo", "wall": 1, "logical": 0},
            },
            {"value": {"key": "bar", "wall": 1, "logical": 0}},
        ),
    ],
)
def test_spellings_of_values(case: dict[str, Any], wrong: dict[str, Any]) -> None:
    assert run_case({"id": "x", **case}) == Result("x", Outcome.PASSED)
    assert run_case({"id": "x", **case, **wrong}).outcome is Outcome.FAILED


def test_only_minus_zero_keeps_its_sign(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"one": -0, "others": [0, -1, -0.0]}')
    (case,) = read_cases(path)
    assert [type(case["one"]), *map(type, case["others"])] == [MinusZero, int, int, Decimal]


@pytest.mark.parametrize(
    ("members", "header"),
    [
        ({"omit_in_rangefeeds": True}, "1801"),
        ({"import_epoch": 3}, "2003"),
        ({"origin_id": 1}, "2801"),
        ({"local_ts_wall": 9, "origin_id": 1}, "0a0208092801"),
        ({}, ""),
    ],
)
def test_members_of_a_value_header(members: dict[str, Any], header: str) -> None:
    case = {"id": "x", "kind": "mvcc.value", "value": {"header": members, "type": "BYTES", "value": "foo"}}
    data = join_header(bytes.fromhex(header), bytes.fromhex("0000000003666f6f")).hex()
    assert run_case({**case, "hex": data}) == Result("x", Outcome.PASSED)
    other = {"header": {**members, "import_epoch": 4}, "type": "BYTES", "value": "foo"}
    assert run_case({**case, "hex": data, "value": other}).outcome is Outcome.FAILED
    unknown = {"header": {"age": 1}, "type": "BYTES", "value": "foo"}
    assert "no field age" in run_case({**case, "hex": data, "value": unknown}).detail


@pytest.mark.parametrize("spelled", ["001001", "B001001", "B'001001'"])
def test_bits_are_digits_however_they_are_spelled(spelled: str) -> None:
    case = {"id": "bits", "kind": "value.datum", "sql_type": "BIT(6)", "hex": "0f11062400000000000000"}
    assert run_case({**case, "value": spelled}).outcome is Outcome.PASSED
    assert run_case({**case, "value": spelled.replace("001", "011")}).outcome is Outcome.FAILED


def test_a_kind_that_nobody_claims_is_skipped_by_name() -> None:
    result = run_case({"id": "x", "kind": "key.unheard_of"})
    assert (result.outcome, result.detail) == (Outcome.SKIPPED, "kind key.unheard_of is not claimed")


def changefeed_case(options: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A case of the group ``enc`` that expects one record, as the vectors write it."""
    return {
        "id": "cf-enc-99",
        "table": {"name": "foo", "columns": [{"name": "a", "type": "INT"}], "pk": ["a"]},
        "options": options,
        "writes": [{"op": "start_feed"}, {"op": "insert", "table": "foo", "rows": [{"a": 1}]}],
        "expect": {"records": ['foo: [1]->{"after": {"a": 1}}']},
        **changes,
    }


def test_a_case_without_a_kind_is_a_changefeed_case_of_the_group_in_its_id() -> None:
    assert run_case(changefeed_case({})).outcome is Outcome.PASSED
    result = run_case(changefeed_case({}, id="cf-cloud-01"))
    assert (result.outcome, result.detail) == (Outcome.SKIPPED, "kind changefeed.cloud is not claimed")


def test_a_kind_that_is_given_counts_and_not_the_id() -> None:
    assert run_case(changefeed_case({}, id="cf-cloud-01", kind="changefeed.enc")).outcome is Outcome.PASSED
    result = run_case(changefeed_case({}, kind="changefeed"))
    assert (result.outcome, result.detail) == (Outcome.SKIPPED, "kind changefeed is not claimed")


def test_a_feed_that_is_a_scan_only_succeeds_and_later_rows_are_not_its() -> None:
    writes = [{"op": "insert", "table": "foo", "rows": [{"a": a}]} for a in (1, 2)]
    case = changefeed_case(
        {"initial_scan": "only"},
        writes=[writes[0], {"op": "start_feed"}, writes[1]],
        expect={"records": ['foo: [1]->{"after": {"a": 1}}'], "exactly": True, "state": "succeeded"},
    )
    assert run_case(case) == Result(case["id"], Outcome.PASSED)


@pytest.mark.parametrize("op", ["insert", "delete"])
def test_a_scan_finds_the_newest_version_and_live_rows_follow_it(op: str) -> None:
    """What the scan found is said to be updated when the feed was created, the row after it when it was."""
    changes: dict[str, dict[str, Any]] = {"insert": {"rows": [{"a": 1}]}, "delete": {"keys": [[1]]}}
    after = {"insert": '{"a": 1}', "delete": "null"}[op]
    case = changefeed_case(
        {"updated": True, "mvcc_timestamp": True},
        writes=[
            {"op": "insert", "table": "foo", "rows": [{"a": 1}], "ts": "T1"},
            {"op": "insert", "table": "foo", "rows": [{"a": 2}], "ts": "T2"},
            {"op": "start_feed"},
            {"op": op, "table": "foo", "ts": "T3", **changes[op]},
        ],
        expect={
            "records": [
                'foo: [1]->{"after": {"a": 1}, "mvcc_timestamp": "<T1>", "updated": "<T2>"}',
                'foo: [2]->{"after": {"a": 2}, "mvcc_timestamp": "<T2>", "updated": "<T2>"}',
                f'foo: [1]->{{"after": {after}, "mvcc_timestamp": "<T3>", "updated": "<T3>"}}',
            ],
            "exactly": True,
        },
    )
    assert run_case(case) == Result(case["id"], Outcome.PASSED)


@pytest.mark.parametrize("case_id", ["enc", "cf", "cf-", "", None])
def test_a_case_whose_kind_cannot_be_told_fails_and_does_not_end_the_run(
    case_id: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{json.dumps({'id': case_id} if case_id is not None else {})}\n{json.dumps(ONE)}")
    unclear, fine = run_files([path])
    assert unclear.outcome is Outcome.FAILED
    assert "the case has no kind" in unclear.detail
    assert fine.outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"schema_change_policy": "stop"}, "option schema_change_policy is not supported yet"),
        ({"split_column_families": True}, "option split_column_families is not supported yet"),
        ({"end_time": "1"}, "option end_time is not supported yet"),
        ({"sink_params": {"topic_name": "x"}}, "topic_name is not yet supported"),
        ({"target": "TABLE foo FAMILY f"}, "TABLE ... FAMILY (a feed of one column family) is not supported"),
        ({"format": "parquet", "initial_scan": "only"}, "format=parquet is not supported yet"),
    ],
)
def test_a_case_is_left_out_for_an_option_that_is_not_supported_yet(
    options: dict[str, Any], refusal: str
) -> None:
    result = run_case(changefeed_case(options))
    assert result.outcome is Outcome.SKIPPED
    assert result.detail.startswith(refusal)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"updatd": True}, "unknown option; did you mean updated?"),
        ({"resolved": "-1s"}, "negative durations are not accepted"),
        ({"updated": "1"}, "option updated takes no value"),
        ({"unordered": True, "resolved": True}, "unordered is not usable with resolved"),
        ({"sink_params": {"sasl_mechanism": "x"}}, "sasl_mechanism"),
    ],
)
def test_any_other_refusal_of_what_should_be_accepted_is_a_failure(
    options: dict[str, Any], refusal: str
) -> None:
    result = run_case(changefeed_case(options))
    assert result.outcome is Outcome.FAILED
    assert refusal in result.detail


def test_a_case_with_nothing_to_compare_is_a_failure() -> None:
    assert run_case(changefeed_case({}, expect={"state": "running"})).outcome is Outcome.FAILED


def test_the_command_counts_and_names_failures(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    cases = [ONE, {**ONE, "id": "two", "value": "2"}, {"id": "three", "kind": "key.unheard_of"}]
    path.write_text("\n".join(map(json.dumps, cases)), encoding="utf-8")
    done = run(str(path))
    assert done.stdout.splitlines() == ["two: expected 2, decoded 1", "1 passed, 1 failed, 1 skipped"]
    assert done.returncode == 1


def test_the_command_runs_all_vectors_when_no_file_is_named() -> None:
    vectors = (Path(__file__).parent / "vectors").glob("*.jsonl")
    cases = sum(
        1 for path in vectors for line in path.read_text(encoding="utf-8").split("\n") if line.strip()
    )
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    counts = dict(part.split(" ")[::-1] for part in done.stdout.strip().split(", "))
    assert counts["failed"] == "0"
    assert sum(map(int, counts.values())) == cases > 0
    assert "all of tests/conformance/vectors" in " ".join(run("--help").stdout.split())


@pytest.mark.parametrize("line", ['{"id": "one", ', "{]", "[1]", "3", "x" * 10, '{"id": "\\ud800'])
def test_a_line_that_is_no_case_fails_by_file_and_line_and_does_not_end_the_run(
    line: str, tmp_path: Path, listed: Callable[..., Said]
) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{json.dumps(ONE)}\n\n{line}\n{json.dumps(ONE)}\n", encoding="utf-8")
    before, broken, after = run_files([path])
    assert (before.outcome, after.outcome) == (Outcome.PASSED, Outcome.PASSED)
    assert (broken.case_id, broken.outcome) == (f"{path}:3", Outcome.FAILED)
    assert broken.detail.startswith("not ")
    done = listed(str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{path}:3: not ")


def test_a_file_that_cannot_be_read_is_a_failure_and_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\n")
    (tmp_path / "fine.jsonl").write_text(json.dumps(ONE))
    names = ("none.jsonl", "bytes.jsonl", "fine.jsonl")
    outcomes = [result.outcome for result in run_files(tmp_path / name for name in names)]
    assert outcomes == [Outcome.FAILED, Outcome.FAILED, Outcome.PASSED]


def test_a_line_ends_where_the_file_says_and_not_inside_of_a_text(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps({**ONE, "note": "a\u2028b\x85c"}, ensure_ascii=False), encoding="utf-8")
    assert [result.outcome for result in run_files([path])] == [Outcome.PASSED]


def test_the_command_lists_the_claimed_kinds(listed: Callable[..., Said]) -> None:
    done = listed()
    assert done.returncode == 0
    assert done.stdout.split() == sorted(CHECKS)


def test_the_command_tells_of_every_kind_in_a_file_whether_it_is_claimed(
    tmp_path: Path, listed: Callable[..., Said]
) -> None:
    path = tmp_path / "cases.jsonl"
    cases = [ONE, changefeed_case({}), {"id": "cf-cloud-01"}]
    path.write_text("\n".join(map(json.dumps, cases)), encoding="utf-8")
    done = listed(str(path))
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "changefeed.cloud: not claimed",
        "changefeed.enc: claimed",
        "key.varint.asc: claimed",
    ]
