"""Columns and rows are two forms of one result, for every history and every value of a topic."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.client.subscribe.columnar.two_forms import (
    DIFFS,
    PLACE,
    UPSERTS,
    plan_of,
    records_of,
    relation_of,
    require_one_result,
)
from tests.unit.client.subscribe.columnar.two_forms import given as given_of
from tests.unit.subscribe.consumer_run import plan_of as plan_of_accounts
from tests.unit.subscribe.topic_histories import RELATION, TopicHistory, marker_record, times, topic_histories
from tidegate.client.subscribe.columnar import wrapped_arrays
from tidegate.client.subscribe.columnar.columnar_changes import columnar_changes
from tidegate.hlc import Timestamp
from tidegate.rows.sql_type import parse_sql_type
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord

pytest.importorskip("pyarrow")

ACCOUNTS = replace(RELATION, types=tuple(map(parse_sql_type, ("INT8", "INT8", "STRING"))))
#: Texts of JSON that a value of a type may be, and texts that it should not be.
VALUES: dict[str, tuple[st.SearchStrategy[str], list[str]]] = {
    "INT8": (st.integers(-(2**63), 2**63 - 1).map(str), ["1.0", "1e2", '"7"', str(2**63), "true"]),
    "BOOL": (st.sampled_from(("true", "false")), ["1", '"true"']),
    "FLOAT8": (
        st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
        ['"NaN"', '"-Infinity"', "1e400", "NaN", "Infinity", "3", "-0", '"1.5"'],
    ),
    "DECIMAL(12,3)": (
        st.decimals(-(10**8), 10**8, places=3).map(str),
        [
            *("1.5", "1.5000", "1.2345", "1e2", "0e10", "-0", "1e9", "NaN"),
            *('"NaN"', '"sNaN"', '"1.5"', '" 1.5"', "1" + "0" * 12, "123456789012", "999999999.9990"),
        ],
    ),
    "STRING": (st.text(max_size=6).map(json.dumps), ["1", '"\\ud800"', "[]", "{}", '"a\\":"']),
    "TIMESTAMPTZ": (
        st.datetimes().map(lambda time: f'"{time.isoformat()}Z"'),
        ['"2020-01-01T00:00:00"', '"infinity"', '"2020-02-30T00:00:00Z"', '"20200101T000000Z"', "5"],
    ),
    "BYTES": (st.binary(max_size=4).map(lambda each: f'"\\\\x{each.hex()}"'), ['"x"', "5"]),
    "DATE": (st.dates().map(lambda day: f'"{day}"'), ['"infinity"', '"2020-02-30"', "7"]),
    "UUID": (st.uuids().map(lambda each: f'"{each}"'), ['"none"', "7"]),
}


@pytest.mark.parametrize("tells_before", [True, False])
@pytest.mark.parametrize("mode", ["", "ENVELOPE UPSERT (KEY (id))"])
@given(history=topic_histories(), as_of=times(), snapshot=st.booleans())
def test_histories_are_the_same_in_both_forms(
    mode: str, tells_before: bool, history: TopicHistory, as_of: Timestamp, snapshot: bool
) -> None:
    options = "" if snapshot else "WITH (SNAPSHOT = false)"
    accounts = plan_of_accounts(f"SUBSCRIBE accounts {mode} {options} AS OF {as_of}")
    plan = replace(accounts, relation=ACCOUNTS)
    one_topic = [(place, record) for place, record in history.records if place.topic == "accounts"]
    columnar = require_one_result(plan, one_topic, tells_before=tells_before)
    can_be = columnar_changes(plan, tells_before=tells_before) is not None
    assert can_be == (tells_before == (mode == ""))
    assert can_be or not columnar


def _row(draw: st.DrawFn, columns: dict[str, str], key: int, *, odd: bool) -> str:
    members = {"id": str(key)}
    for name, sql in columns.items():
        usual, others = VALUES[sql]
        if draw(st.integers(0, 9)) == 0:
            members[name] = "null"
        else:
            members[name] = draw(st.sampled_from(others) if odd and draw(st.booleans()) else usual)
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in members.items()) + "}"


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, str], list[tuple[bytes, str, str, Timestamp]]]:
    """The columns of a table beside its key, and versions: the key, ``after``, ``before``, the time."""
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=4))
    columns = {f"{'aco'[at % 3]}{at}": sql for at, sql in enumerate(types)}
    odd = draw(st.booleans())
    versions: list[tuple[bytes, str, str, Timestamp]] = []
    rows: dict[int, str] = {}
    for wall in range(1, draw(st.integers(1, 4)) + 1):
        for key in sorted(draw(st.sets(st.integers(0, 5), max_size=5))):
            before = rows.get(key, "null")
            if draw(st.integers(0, 4)) == 0:
                after = "null"
            elif before != "null" and draw(st.integers(0, 4)) == 0:
                after = before
            else:
                after = _row(draw, columns, key, odd=odd)
            rows[key] = after
            versions.append((b"[%d]" % key, after, before, Timestamp(wall)))
    return columns, versions


@given(tables(), st.randoms(use_true_random=False), st.booleans())
def test_values_of_every_type_are_the_same_in_both_forms(
    table: tuple[dict[str, str], list[tuple[bytes, str, str, Timestamp]]], random: Random, snapshot: bool
) -> None:
    columns, versions = table
    ordered = [("id", "INT8"), *columns.items()]
    random.shuffle(ordered)  # diffs are ordered by the first column
    relation = relation_of(**dict(ordered))
    as_of = "2" if snapshot else "0"
    for statement, tells_before in ((UPSERTS, False), (DIFFS, True)):
        values = [
            (key, _wrapped(after, before if tells_before else None, time).encode("utf-8", "surrogatepass"))
            for key, after, before, time in versions
        ]
        plan = plan_of(f"{statement} AS OF {as_of}", relation)
        require_one_result(plan, records_of(values, marker=Timestamp(9)), tells_before=tells_before)


def _wrapped(after: str, before: str | None, time: Timestamp) -> str:
    told = "" if before is None else f', "before": {before}'
    return f'{{"after": {after}{told}, "updated": "{time.decimal()}"}}'


COLUMNS = {"id": "INT8", "a": "FLOAT8", "b": "STRING", "c": "DECIMAL(12,3)"}


def _usual_values(count: int, time: Timestamp, *, with_before: bool) -> list[bytes]:
    texts = []
    for key in range(count):
        row = f'{{"a": {key / 4}, "b": "x{key}", "c": {key}.250, "id": {key}}}'
        texts.append(_wrapped("null" if key == 2 else row, row if with_before else None, time).encode())
    return texts


#: Values of which each is damaged. Put together, some of them would be sound.
DAMAGED = [
    [b'{"after": null}{"after": null, ', b'"updated": "1.0000000000"}'],
    [b'{"after": null, "updated": "1.0000000000"}{', b'"after": null, "updated": "1.0000000000"}'],
    [b'{"after": null, "updated": "1.0000000000"}{"after": null', b', "updated": "1.0000000000"}'],
    [b'{"after": {"a": 1, "b": "x", "c": 1, "id": 90}', b', "updated": "1.0000000000"}'],
    [b'{"after": null, "updated": "1.0000000000"}{"after": null, "updated": "1.0000000000"}'],
    [b'{"after": {"a": 1, "b": "\n", "c": 1, "id": 90}, "updated": "1.0000000000"}'],
    [b'{"after": {"a": 1, "b": "x", "c": 1},\n"updated": "1.0000000000"}'],
    [b'{"after": {"a": 1, "b": "x\\":", "c": 1}, "updated": "1.0000000000"}'],
    [b'{"after": {"a": 1, "b": "x", "c": 1, "id" : 90}, "updated": "1.0000000000"}'],
    [b'{"after": {"a": 1, "b": "x", "c": 1, "id": 90, "id": 91}, "updated": "1.0000000000"}'],
    [b'{"after": {"a": 1, "b": "x", "c": 1, "d": 90}, "updated": "1.0000000000"}'],
    [b'{"after": {"a": 1, "b": "\xff", "c": 1, "id": 90}, "updated": "1.0000000000"}'],
    [b'{"after": {"a": NaN, "b": "x", "c": 1, "id": 90}, "updated": "1.0000000000"}'],
    [b'{"after": {"a": -Infinity, "b": "x", "c": 1, "id": 90}, "updated": "1.0000000000"}'],
    [b'{"after": {"a": 1, "b": "x", "c": 1, "\\u0069d": 90}, "updated": "1.0000000000"}'],
    [b'{"after": {}, "updated": "1.0000000000"}'],
    [b'\xef\xbb\xbf{"after": null, "updated": "1.0000000000"}'],
    [b'{"after": null, "topic": null, "updated": "1.0000000000"}'],
    [b'{"after": null, "key": [1], "updated": "1.0000000000"}'],
    [b'{"updated": "1.0000000000"}'],
    [b'{"after": 5, "updated": "1.0000000000"}'],
    [b'{"after": [], "updated": "1.0000000000"}'],
    [b'{"after": ' + b"[" * 5_000 + b', "updated": "1.0000000000"}'],
    [b'{"after": null, "updated": "1.0000000000", "updated": "1.0000000000"}'],
]


@pytest.mark.parametrize("at", [0, 2, 6])
@pytest.mark.parametrize("damaged", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_values_end_both_forms_alike(damaged: list[bytes], at: int) -> None:
    usual = _usual_values(6, Timestamp(1), with_before=False)
    texts = [*usual[:at], *damaged, *usual[at:]]
    values = [(b"[%d]" % key, text) for key, text in enumerate(texts)]
    plan = plan_of(f"{UPSERTS} AS OF 0", relation_of(**COLUMNS))
    require_one_result(plan, records_of(values, marker=Timestamp(2)), tells_before=False)


#: Each set has as many objects and members as values, but not one object in each value.
NOT_ONE_EACH = [
    [
        b'{"after": {"id": 7, "updated": "1.0000000000"}',
        b', "updated": "1.0000000000"}',
        b'{"after": null, "updated": "1.0000000000"}{"after": null, "updated": "1.0000000000"}',
    ],
    [
        b'{"after": null, "updated": "1.0000000000"}{"after": {"id": 7, "updated": "1.0000000000"}',
        b', "updated": "1.0000000000"}',
    ],
    [b'{"after": null}{"updated": "1.0000000000"}'],
]


@pytest.mark.parametrize("values", NOT_ONE_EACH, ids=range(len(NOT_ONE_EACH)))
def test_objects_that_go_over_the_end_of_a_value_end_both_forms_alike(values: list[bytes]) -> None:
    plan = plan_of(f"{UPSERTS} AS OF 0", relation_of(id="INT8", updated="STRING"))
    texts = [b'{"after": null, "updated": "1.0000000000"}', *values]
    records = records_of([(b"[%d]" % key, text) for key, text in enumerate(texts)], marker=Timestamp(2))
    require_one_result(plan, records, tells_before=False)
    assert given_of(plan, records, tells_before=False, columnar=True).error


@pytest.mark.parametrize("row", ['{"id": 7}', "{}", '{"b": "\\":"}', '{"id": 7, "b": "\\"x\\":"}'])
def test_a_row_without_a_column_ends_both_forms_alike(row: str) -> None:
    """No column is a DECIMAL, whose quotes are counted too."""
    rows = ('{"b": "x", "id": 1}', row)
    values = [(b"[%d]" % key, _wrapped(each, None, Timestamp(1)).encode()) for key, each in enumerate(rows)]
    plan = plan_of(f"{UPSERTS} AS OF 0", relation_of(id="INT8", b="STRING"))
    records = records_of(values, marker=Timestamp(2))
    columnar = require_one_result(plan, records, tells_before=False)
    is_whole = '"id"' in row and '"b"' in row
    assert columnar == is_whole
    assert bool(given_of(plan, records, tells_before=False, columnar=True).error) != is_whole


@pytest.mark.parametrize("name", ["topic", "mvcc_timestamp"])
@pytest.mark.parametrize("text", ["null", "5", '"2.0000000000"'])
def test_other_members_are_the_same_in_both_forms(name: str, text: str) -> None:
    values = [
        (b"[%d]" % key, f'{{"after": null, "{name}": {each}, "updated": "1.0000000000"}}'.encode())
        for key, each in enumerate(('"1.0000000000"', text, '"1.0000000000"'))
    ]
    for columns in (COLUMNS, {"id": "INT8"}):  # with a DECIMAL texts are counted
        plan = plan_of(f"{UPSERTS} AS OF 0", relation_of(**columns))
        require_one_result(plan, records_of(values, marker=Timestamp(2)), tells_before=False)


ODD_KEYS = [
    *(b"[]", b"[9223372036854775808]", b"[1, 2]", b'[{"a": 1}]', b"7", b"[1", b'["2"]', b"[true]", b"[2.0]"),
    *(b"[2 ]", b"[1]", b"[null]", b"[[2]]"),
]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_keys_are_the_same_in_both_forms(key: bytes) -> None:
    usual = _usual_values(4, Timestamp(1), with_before=False)
    values = [(key if at == 2 else b"[%d]" % at, text) for at, text in enumerate(usual)]
    plan = plan_of(f"{UPSERTS} AS OF 0", relation_of(**COLUMNS))
    require_one_result(plan, records_of(values, marker=Timestamp(2)), tells_before=False)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sampled(4)
def test_values_with_a_wrong_byte_are_the_same_in_both_forms(seed: int) -> None:
    random = Random(seed)
    for tells_before, statement in ((False, UPSERTS), (True, DIFFS)):
        plan = plan_of(f"{statement} AS OF 0", relation_of(**COLUMNS))
        for _ in range(12):
            texts = _usual_values(5, Timestamp(1), with_before=tells_before)
            for _ in range(random.randint(1, 2)):
                at = random.randrange(5)
                texts[at] = _damaged(random, texts[at])
            values = [(b"[%d]" % key, text) for key, text in enumerate(texts)]
            require_one_result(plan, records_of(values, marker=Timestamp(2)), tells_before=tells_before)


def _damaged(random: Random, text: bytes) -> bytes:
    begin = random.randrange(len(text))
    end = min(len(text), begin + random.choice((0, 0, 1, 1, 8)))
    put = random.choice((b"", b'"', b"{", b"}", b"\n", b"\\", b",", b":", b"0", b"-", b" ", b"null", b'\\":'))
    return text[:begin] + put + text[end:]


@pytest.mark.parametrize("read_rows", [1, 7, 100])
def test_usual_values_are_columns_first(read_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrapped_arrays, "_READ_ROWS", read_rows)
    for statement, tells_before in ((UPSERTS, False), (DIFFS, True)):
        texts = _usual_values(30, Timestamp(1), with_before=tells_before)
        values = [(b"[%d]" % key, text) for key, text in enumerate(texts)]
        plan = plan_of(f"{statement} AS OF 0", relation_of(**COLUMNS))
        records = records_of(values, marker=Timestamp(2))
        assert require_one_result(plan, records, tells_before=tells_before) == 1


#: For each type that is read as a column, the text of a value in JSON.
READ = {
    "INT8": "7",
    "BOOL": "true",
    "FLOAT8": "-1.25",
    "DECIMAL(12,3)": "1.250",
    "STRING": '"é\\n\\""',
    "TIMESTAMPTZ": '"2020-01-01T00:00:00.5Z"',
    "TIMESTAMP": '"2020-01-01T00:00:00"',
    "DATE": '"2020-01-01"',
    "TIME": '"10:26:40"',
    "TIMETZ": '"10:26:40+02:00:00"',
    "INTERVAL": '"1 day"',
    "BYTES": '"\\\\x00ff"',
    "UUID": '"63616665-6630-3064-6465-616462656568"',
    "INET": '"127.0.0.1"',
    "BIT(3)": '"101"',
}


@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize("sql", READ)
def test_each_type_is_read_as_a_column(sql: str, in_chunks: bool) -> None:
    for statement, tells_before in ((UPSERTS, False), (DIFFS, True)):
        values = []
        for key in range(40):
            row = f'{{"id": {key}, "v": {READ[sql] if key % 3 else "null"}}}'
            time = Timestamp(5 if in_chunks else 1 + key % 2)
            before = row if key % 4 == 0 else "null"
            values.append((b"[%d]" % key, _wrapped(row, before if tells_before else None, time).encode()))
        plan = plan_of(f"{statement} AS OF {7 if in_chunks else 0}", relation_of(id="INT8", v=sql))
        columnar = require_one_result(
            plan, records_of(values, marker=Timestamp(9)), tells_before=tells_before, in_chunks=in_chunks
        )
        assert columnar > 1 if in_chunks else columnar == 1


@pytest.mark.parametrize(
    ("sql", "first", "text"),
    [
        ("DECIMAL(12,3)", "1", "123456789012"),
        ("DECIMAL(12,3)", "1", "1e9"),
        ("DECIMAL(12,3)", "2", '"1.5"'),
        ("DECIMAL(12,3)", "1", "0e10"),
        ("FLOAT8", "1", "-0"),
        ("FLOAT8", "1", "-0.0"),
    ],
)
def test_numbers_that_arrow_reads_otherwise_are_as_in_rows(sql: str, first: str, text: str) -> None:
    for statement, tells_before in ((UPSERTS, False), (DIFFS, True)):
        values = [
            (b"[%d]" % key, _wrapped(row, "null" if tells_before else None, Timestamp(1)).encode())
            for key, row in enumerate(
                (f'{{"a": {first}, "id": 0, "s": "\\""}}', f'{{"a": {text}, "id": 1, "s": ""}}')
            )
        ]
        plan = plan_of(f"{statement} AS OF 0", relation_of(a=sql, id="INT8", s="STRING"))
        require_one_result(plan, records_of(values, marker=Timestamp(2)), tells_before=tells_before)


@pytest.mark.parametrize(
    ("sql", "old", "new"),
    [("FLOAT8", "1", "1.0"), ("DECIMAL(12,3)", "1.5", "1.500"), ("INT8", "1", "1"), ("INT8", "null", "null")],
)
def test_rows_that_are_written_otherwise_are_changes(sql: str, old: str, new: str) -> None:
    values = [
        (
            b"[%d]" % key,
            _wrapped(f'{{"id": {key}, "v": {new}}}', f'{{"id": {key}, "v": {old}}}', Timestamp(1)).encode(),
        )
        for key in range(3)
    ]
    plan = plan_of(f"{DIFFS} AS OF 0", relation_of(id="INT8", v=sql))
    records = records_of(values, marker=Timestamp(2))
    assert require_one_result(plan, records, tells_before=True) == 1
    shown = given_of(plan, records, tells_before=True, columnar=True).rows
    assert sum(map(len, shown)) == (0 if old == new else 6)


@pytest.mark.parametrize("statement", [UPSERTS, "SUBSCRIBE t ENVELOPE UPSERT (KEY (b, a))"])
def test_keys_of_several_columns_are_in_the_order_of_the_statement(statement: str) -> None:
    statement = statement.replace("(id)", "(a, b)")
    relation = replace(relation_of(a="INT8", v="STRING", b="STRING"), primary_key=("b", "a"))
    rows = [(a, b, a != 2) for a in range(3) for b in "yx"]
    values = [
        (
            f'["{b}", {a}]'.encode(),
            _wrapped(f'{{"a": {a}, "b": "{b}", "v": "v"}}' if there else "null", None, Timestamp(1)).encode(),
        )
        for a, b, there in rows
    ]
    plan = plan_of(f"{statement} AS OF 0", relation)
    assert require_one_result(plan, records_of(values, marker=Timestamp(2)), tells_before=False) == 1


@pytest.mark.parametrize("up_to", [1, 2, 5])
def test_a_bound_is_the_same_in_both_forms(up_to: int) -> None:
    values = [
        (b"[%d]" % key, text)
        for time in (1, 2, 3)
        for key, text in enumerate(_usual_values(3, Timestamp(time), with_before=False))
    ]
    plan = plan_of(f"{UPSERTS} AS OF 1 UP TO {up_to}", relation_of(**COLUMNS))
    require_one_result(plan, records_of(values, marker=Timestamp(9)), tells_before=False)


def test_after_failures_some_openings_go_by_rows() -> None:
    plan = plan_of(f"{UPSERTS} AS OF 0", relation_of(**COLUMNS))
    records: list[tuple[FeedPartition, FeedRecord]] = []
    for time in range(1, 30):
        texts = _usual_values(3, Timestamp(time), with_before=False)
        if time < 4:
            texts[1] = texts[1].replace(b"0.25", b'"NaN"')
        for key, text in enumerate(texts):
            records.append((PLACE, FeedRecord(len(records), b"[%d]" % key, text)))
        records.append((PLACE, marker_record(len(records), Timestamp(time))))
    # The openings 1, 3 and 7 are tried (1 and 3 fail), and all from 7 on.
    assert require_one_result(plan, records, tells_before=False) == 29 - 6


@pytest.mark.parametrize(
    ("statement", "tells_before", "columns"),
    [
        (f"{DIFFS} WITH (PROGRESS)", True, COLUMNS),
        ("SUBSCRIBE (SELECT id FROM t)", True, COLUMNS),
        ("SUBSCRIBE t ENVELOPE DEBEZIUM (KEY (id))", True, COLUMNS),
        ("SUBSCRIBE t ENVELOPE UPSERT (KEY (b))", False, COLUMNS),
        (UPSERTS, True, COLUMNS),
        (DIFFS, False, COLUMNS),
        (DIFFS, True, {"id": "INT8", "j": "JSONB"}),
        (DIFFS, True, {"id": "INT8", "j": "INT8[]"}),
        (DIFFS, True, {"id": "INT8", "d": "DECIMAL"}),
        (DIFFS, True, {"id": "INT8", 'q"': "INT8"}),
        (UPSERTS, False, {"id": "DECIMAL(9,2)", "a": "INT8"}),
    ],
)
def test_other_statements_and_tables_go_by_rows(
    statement: str, tells_before: bool, columns: dict[str, Any]
) -> None:
    relation = relation_of(**columns)
    if "DECIMAL(9,2)" in columns["id"]:
        relation = replace(relation, composite=frozenset({"id"}))
    assert columnar_changes(plan_of(statement, relation), tells_before=tells_before) is None


def test_versions_of_an_older_table_go_by_rows() -> None:
    relation = replace(relation_of(**COLUMNS, d="INT8"), added=frozenset({"d"}), exact_from=Timestamp(5))
    usual = _usual_values(3, Timestamp(4), with_before=False)
    later = [
        text.replace(b'"id"', b'"d": 7, "id"') for text in _usual_values(3, Timestamp(5), with_before=False)
    ]
    old = [(b"[%d]" % key, text) for key, text in enumerate(usual)]
    new = [(b"[%d]" % key, text) for key, text in enumerate(later)]
    plan = plan_of(f"{UPSERTS} AS OF 0", relation)
    assert require_one_result(plan, records_of([*old, *new], marker=Timestamp(9)), tells_before=False) == 0
    assert require_one_result(plan, records_of(new, marker=Timestamp(9)), tells_before=False) == 1
