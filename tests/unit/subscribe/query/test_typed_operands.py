"""Columns are compared and sorted by their SQL types, in both formats alike."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from ipaddress import IPv4Interface
from typing import Any, Final

import pytest

from tests.unit.subscribe.query.typed_column import (
    FORMATS,
    as_read,
    ids_first,
    ids_where,
    ids_within_timestamp,
    plan,
    rows_of,
)
from tidegate.errors import EvaluationError, LimitExceeded, SubscribeStatementError
from tidegate.hlc import Timestamp
from tidegate.rows.types import EnumMember, Interval, Json, JsonValue, Kind, SqlType, TimeTz, TsVector
from tidegate.subscribe.query.column_values import UNORDERED
from tidegate.subscribe.query.shown_bytes import PieceFull, ShownBytes
from tidegate.subscribe.updates.process_share import HeldRows
from tidegate.subscribe.updates.update import Update

_HOUR: Final = 3_600_000_000
_DAY: Final = 24 * _HOUR


def _nanos(*parts: int) -> int:
    return int((datetime(*parts, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 10**9  # type: ignore[arg-type, misc]


_NEW_YEAR: Final = _nanos(2021, 1, 1)
#: Four days BC, and four after the year 9999.
_EARLY, _LATE = -62_170_000_000 * 10**9, 253_500_000_000 * 10**9
_MOMENTS: Final = [_EARLY * 2, _EARLY, -1000, _NEW_YEAR, _NEW_YEAR + 500_000_000, _NEW_YEAR + 10**9, _LATE]
#: A type, its values in the order of SQL, and the fifth of them as a constant.
ORDERED: Final[list[tuple[SqlType, list[Any], str]]] = [
    (SqlType(Kind.TIMESTAMPTZ), _MOMENTS, "2021-01-01 01:00:00.5+01"),
    (SqlType(Kind.TIMESTAMP), _MOMENTS, "2021-01-01T00:00:00.5"),
    (SqlType(Kind.DATE), [-900_000, -800_000, -1, 0, 18_628, 19_000, 3_000_000], "2021-01-01"),
    (SqlType(Kind.TIME), [0, 1, _HOUR, 9 * _HOUR, 10 * _HOUR, 10 * _HOUR + 1, _DAY], "10:00"),
    (
        SqlType(Kind.TIMETZ),
        [
            TimeTz(at * _HOUR, west * 3600)
            for at, west in ((0, -9), (9, -9), (0, 0), (7, 2), (10, 0), (8, 2), (9, 2))
        ],
        "10:00:00Z",
    ),
    (SqlType(Kind.BYTES), [b"", b"\x00", b"a", b"a\x00", b"b", b"b\xff", b"\xff"], "\\x62"),
    (SqlType(Kind.BIT, varying=True), ["", "0", "00", "1", "10", "1" * 64, "1" * 65], "10"),
    (SqlType(Kind.PG_LSN), [0, 9, 16, 2**32 - 1, 10 * 2**32, 16 * 2**32, 2**63], "A/0"),
    (SqlType(Kind.ARRAY, element=SqlType(Kind.INT)), [(), (1,), (1, 2), (1, None), (2,), (9,), (10,)], ""),
    (
        SqlType(Kind.ARRAY, element=SqlType(Kind.TIMESTAMPTZ)),
        [(), *((each,) for each in _MOMENTS[1:])],
        "",
    ),
    (
        SqlType(Kind.UUID),
        [uuid.UUID(int=at << 100) for at in range(7)],
        "{00000040-0000-0000-0000-000000000000}",
    ),
    (SqlType(Kind.STRING), ["", "B", "a", "aa", "b", "é", "\U0001f600"], "b"),
]
#: A type that is not ordered here, with two values.
WITHOUT_ORDER: Final[list[tuple[SqlType, list[Any]]]] = [
    (SqlType(Kind.ENUM, members=(EnumMember(b"\x80", "sad"), EnumMember(b"\xc0", "ok"))), ["sad", "ok"]),
    (SqlType(Kind.COLLATED_STRING, locale="de"), ["a", "B"]),
    (SqlType(Kind.INET), [IPv4Interface("10.0.0.1"), IPv4Interface("9.0.0.0/8")]),
    (SqlType(Kind.JSONB), [Json(Decimal(1)), Json("a")]),
    (SqlType(Kind.TSVECTOR), [TsVector(()), TsVector(())]),
    (SqlType(Kind.INTERVAL), [Interval(0, 9, 0), Interval(0, 0, 36_000 * 10**9)]),
]


class Share:
    """A query's share of its process: its steps have bounds, and ``taken`` are the bytes that it keeps."""

    def __init__(self) -> None:
        self.taken = 0

    def hold(self, rows: HeldRows, count: int) -> None:
        self.taken = count

    def pause(self) -> None:
        pass


both_formats = pytest.mark.parametrize("record_format", FORMATS)
ordered = pytest.mark.parametrize(
    ("sql_type", "datums", "fifth"),
    ORDERED,
    ids=[f"{each[0].kind.value}{each[0].element or ''}"[:20] for each in ORDERED],
)
without_order = pytest.mark.parametrize(
    ("sql_type", "datums"), WITHOUT_ORDER, ids=[each[0].kind.value for each in WITHOUT_ORDER]
)


@pytest.mark.sampled(2)
@both_formats
@ordered
def test_rows_are_sorted_by_the_type(
    record_format: str, sql_type: SqlType, datums: list[Any], fifth: str
) -> None:
    places = (3, 6, 0, 5, 1, 4, 2)
    mixed = [datums[at] for at in places]
    up = [places.index(at) for at in range(7)]
    for order in ("v", "2", "t.v", "coalesce(v, w)", "nullif(v, NULL)"):
        assert ids_first(order, sql_type, mixed, record_format) == up
    assert ids_first("v DESC", sql_type, mixed, record_format) == up[::-1]
    assert ids_first("v", sql_type, [None, *mixed[:2]], record_format) == [1, 2, 0]
    assert ids_within_timestamp("v", sql_type, mixed, record_format) == up
    assert ids_within_timestamp("3 DESC", sql_type, mixed, record_format) == up[::-1]


@both_formats
@ordered
def test_columns_are_compared_by_the_type(
    record_format: str, sql_type: SqlType, datums: list[Any], fifth: str
) -> None:
    for at in range(7):
        some = datums[at:]
        assert ids_where("v > w", sql_type, some, record_format) == [*range(1, 7 - at)]
        assert ids_where("v = w", sql_type, some, record_format) == [0]
        assert ids_where("v IN (w, NULL)", sql_type, some, record_format) == [0]
        assert ids_where("v IS DISTINCT FROM w", sql_type, some, record_format) == [*range(1, 7 - at)]


@both_formats
@pytest.mark.parametrize(
    ("sql_type", "datums", "fifth"),
    [each for each in ORDERED if each[2]],
    ids=[each[0].kind.value for each in ORDERED if each[2]],
)
def test_a_constant_is_read_as_the_type(
    record_format: str, sql_type: SqlType, datums: list[Any], fifth: str
) -> None:
    def found(condition: str) -> list[int]:
        return ids_where(condition.replace("?", f"'{fifth}'"), sql_type, [*datums, None], record_format)

    assert found("v < ?") == [0, 1, 2, 3]
    assert found("? <= v") == [4, 5, 6]
    assert (
        found("v = ?") == found("v IN (?)") == found("v BETWEEN ? AND ?") == found("v IN (?, NULL, ?)") == [4]
    )
    assert found("v IS NOT DISTINCT FROM ?") == [4]
    assert found("coalesce(v, ?) = ?") == [4, 7]
    assert found("nullif(v, ?) IS NULL") == [4, 7]
    assert found("? IN (v, w)") == [4]
    assert found("v NOT IN (?)") == [0, 1, 2, 3, 5, 6]
    assert found("v > NULL") == []


@both_formats
@ordered
def test_a_column_is_shown_as_the_feed_has_it(
    record_format: str, sql_type: SqlType, datums: list[Any], fifth: str
) -> None:
    read = [as_read(sql_type, each, record_format) for each in datums]
    query = "SELECT v, nullif(v, NULL), coalesce(v, w) FROM t WHERE v = v"
    assert rows_of(query, sql_type, datums, record_format) == [(each, each, each) for each in read]


@pytest.mark.parametrize(
    "kind", [Kind.TIMESTAMPTZ, Kind.TIMESTAMP, Kind.DATE, Kind.TIME, Kind.BIT, Kind.BYTES]
)
def test_a_cast_to_text_is_the_text_of_a_feed_in_json(kind: Kind) -> None:
    sql_type, datums = next((each[0], each[1]) for each in ORDERED if each[0].kind is kind)
    in_json = rows_of("SELECT v::text FROM t", sql_type, datums, "json")
    assert in_json == [(as_read(sql_type, each, "json"),) for each in datums]
    for datum, row in zip(datums, in_json, strict=True):
        assert rows_of("SELECT v::text FROM t", sql_type, [datum], "avro") == [row]


def test_moments_of_several_types_are_compared() -> None:
    dates, zoned = SqlType(Kind.DATE), SqlType(Kind.TIMESTAMPTZ)
    condition = "coalesce(v, '2021-01-01') < '2021-01-02' AND v <= '2021-01-01'"
    assert ids_where(condition, dates, [18_627, 18_628, 18_629, None], "json") == [0, 1]
    midnights = ["v >= '2021-01-01'", "v >= '2020-12-31 19:00-05'", "v >= '2021-01-01T00:00:00Z'"]
    for condition in midnights:
        assert ids_where(condition, zoned, [_NEW_YEAR - 1000, _NEW_YEAR], "avro") == [1]


@pytest.mark.parametrize("text", ["infinity", "-infinity"])
def test_infinity_is_a_constant(text: str) -> None:
    days = 2**63 - 1 if text == "infinity" else -(2**63)
    assert ids_where(f"v = '{text}'", SqlType(Kind.DATE), [0, days], "json") == [1]
    assert ids_first("v" if days < 0 else "v DESC", SqlType(Kind.DATE), [0, days, 99], "json")[0] == 1
    assert ids_where(f"v < '{text}'", SqlType(Kind.TIMESTAMPTZ), _MOMENTS, "json") == [*range(7)] * (days > 0)


@pytest.mark.parametrize("condition", ["v = 26", "v = '26'", "v > 9 AND v < 100", "v IN (26, 27)"])
def test_an_oid_is_a_number(condition: str) -> None:
    assert ids_where(condition, SqlType(Kind.OID), [9, 26, 100], "json") == [1]
    assert ids_first("v", SqlType(Kind.OID), [100, 9], "json") == [1, 0]


@both_formats
def test_an_address_is_equal_however_it_is_written(record_format: str) -> None:
    datums = [IPv4Interface("10.0.0.1"), IPv4Interface("10.0.0.1/8")]
    assert ids_where("v = '10.0.0.1/32'", SqlType(Kind.INET), datums, record_format) == [0]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.TIMESTAMPTZ, "last week"),
        (Kind.TIMESTAMP, "2021-02-30"),
        (Kind.DATE, "2021-01-01 10:00"),
        (Kind.TIME, "25:00"),
        (Kind.TIMETZ, "10"),
        (Kind.BYTES, "\\xabc"),
        (Kind.BIT, "102"),
        (Kind.UUID, "1-2"),
        (Kind.INET, "10.0.0"),
        (Kind.PG_LSN, "7"),
        (Kind.OID, "pg_class"),
    ],
)
@pytest.mark.parametrize("condition", ["v = '?'", "'?' = v", "v IN (NULL, '?')", "nullif(v, '?') IS NULL"])
def test_a_constant_that_cannot_be_read_is_an_error_of_the_statement(
    kind: Kind, text: str, condition: str
) -> None:
    with pytest.raises(
        SubscribeStatementError, match=f"invalid input syntax for type {kind.value}"
    ) as caught:
        plan(f"SUBSCRIBE (SELECT id FROM t WHERE {condition.replace('?', text)})", SqlType(kind))
    assert caught.value.code == "invalid_constant"


@pytest.mark.parametrize(
    "condition", ["v > 5", "v = id", "v = v::text", "v IN (id)", "id < v", "nullif(id, v) = 1"]
)
@pytest.mark.parametrize("kind", [Kind.TIMESTAMPTZ, Kind.DATE, Kind.TIME, Kind.BYTES])
def test_values_of_other_types_are_not_compared(kind: Kind, condition: str) -> None:
    with pytest.raises(SubscribeStatementError, match="operator does not exist") as caught:
        plan(f"SUBSCRIBE (SELECT id FROM t WHERE {condition})", SqlType(kind))
    assert caught.value.code == "unknown_function"


@pytest.mark.parametrize(
    ("kind", "condition", "shown"),
    [
        (Kind.STRING, "v = id", "STRING = INT"),
        (Kind.STRING, "5 < v", "INT < STRING"),
        (Kind.STRING, "v IN ('a', 5)", "STRING IN INT"),
        (Kind.UUID, "v BETWEEN 1 AND 2", "UUID >= INT"),
        (Kind.ENUM, "v IS DISTINCT FROM true", "ENUM IS DISTINCT FROM BOOL"),
        (Kind.INT, "v = v::text", "INT = STRING"),
        (Kind.FLOAT, "v >= (id = 1)", "FLOAT >= BOOL"),
        (Kind.DECIMAL, "v IN (1, true)", "DECIMAL IN BOOL"),
        (Kind.BOOL, "v = id", "BOOL = INT"),
        (Kind.BOOL, "nullif(v, 1)", "BOOL nullif INT"),
    ],
)
def test_numbers_truth_values_and_texts_are_not_compared_with_each_other(
    kind: Kind, condition: str, shown: str
) -> None:
    """A row would end the subscription, as late as it comes."""
    with pytest.raises(
        SubscribeStatementError, match=f"operator does not exist: {re.escape(shown)}$"
    ) as caught:
        plan(f"SUBSCRIBE (SELECT id FROM t WHERE {condition})", SqlType(kind))
    assert (caught.value.code, caught.value.sqlstate) == ("unknown_function", "42883")
    assert caught.value.position > 0


@without_order
@pytest.mark.parametrize(
    "statement",
    [
        "SUBSCRIBE (SELECT id FROM t WHERE v < 'a')",
        "SUBSCRIBE (SELECT id FROM t WHERE w >= v)",
        "SUBSCRIBE (SELECT v > coalesce(w, v) FROM t)",
        "SUBSCRIBE (SELECT id FROM t WHERE v BETWEEN 'a' AND 'b')",
        "SUBSCRIBE (SELECT id FROM t ORDER BY v LIMIT 1)",
        "SUBSCRIBE (SELECT v FROM t ORDER BY 1 DESC LIMIT 1)",
        "SUBSCRIBE (SELECT v AS x FROM t ORDER BY x OFFSET 1)",
        "SUBSCRIBE t WITHIN TIMESTAMP ORDER BY v",
        "SUBSCRIBE (SELECT v FROM t) WITHIN TIMESTAMP ORDER BY 2",
    ],
)
def test_what_has_no_order_is_refused_when_the_statement_is_read(
    sql_type: SqlType, datums: list[Any], statement: str
) -> None:
    for each in (sql_type, SqlType(Kind.ARRAY, element=sql_type)):
        with pytest.raises(SubscribeStatementError, match=f"{sql_type.kind.value} have no order") as caught:
            plan(statement, each)
        assert (caught.value.code, caught.value.sqlstate) == ("unordered_type", "0A000")
        assert "column::text" in caught.value.hint
        assert caught.value.position > 0


@without_order
def test_what_has_no_order_can_be_sorted_by_its_text_and_is_equal_to_itself(
    sql_type: SqlType, datums: list[Any]
) -> None:
    ids_first("v::text, id", sql_type, datums, "json")
    assert rows_of("SELECT id FROM t ORDER BY v", sql_type, datums, "json") == [(0,), (1,)]
    if sql_type.kind is not Kind.INTERVAL:
        assert 0 in ids_where("v = w AND v IN (w)", sql_type, datums, "json")


def test_intervals_are_not_compared() -> None:
    for condition in ("v = '1 day'", "v IN (w)", "v IS DISTINCT FROM w", "nullif(v, w) IS NULL"):
        with pytest.raises(SubscribeStatementError, match="INTERVAL have no order"):
            plan(f"SUBSCRIBE (SELECT id FROM t WHERE {condition})", SqlType(Kind.INTERVAL))
    day = [Interval(0, 1, 0), None]
    assert ids_where("v::text = '1 day'", SqlType(Kind.INTERVAL), day, "json") == [0]
    assert ids_where("v IS NULL", SqlType(Kind.INTERVAL), day, "json") == [1]


def test_every_type_has_an_order_or_says_what_to_do_instead() -> None:
    plain = {Kind.BOOL, Kind.INT, Kind.STRING, Kind.UUID}
    read = {each[0].kind for each in ORDERED} | {Kind.FLOAT, Kind.DECIMAL, Kind.OID}
    assert plain | read | {*UNORDERED} == {*Kind}
    assert not (plain | read) & {*UNORDERED}


def test_a_value_that_is_none_of_its_type_is_an_error_of_the_row() -> None:
    selection = plan("SUBSCRIBE (SELECT id FROM t WHERE v > '2021-01-01')", SqlType(Kind.DATE)).selection()
    assert selection is not None
    with pytest.raises(EvaluationError, match="a column of type DATE has the value 'soon', which is none"):
        selection.apply([Update(Timestamp(1), 1, (1, "soon", None))])


@both_formats
def test_values_of_json_are_equal_or_not_whatever_they_are(record_format: str) -> None:
    documents: list[JsonValue] = ["a", Decimal(1), Decimal("1.0"), True, [Decimal(1)], {"a": "a"}]
    values = list(map(Json, documents))
    for at, found in enumerate(([0], [1, 2], [1, 2], [3], [4], [5])):
        some = [values[at], *values]
        expected = [0, *(each + 1 for each in found)]
        if record_format == "avro" and at in (1, 2):  # its texts differ
            expected = [0, at + 1]
        assert ids_where("v = w AND v IN (w, 'x')", SqlType(Kind.JSONB), some, record_format) == expected
        assert ids_where("v IN ('x', 'y')", SqlType(Kind.JSONB), some, record_format) == []


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        (SqlType(Kind.BYTES), "\\x" + "61" * 1_000_000),
        (SqlType(Kind.ARRAY, element=SqlType(Kind.DATE)), ["2021-01-01"] * 10_000),
        (SqlType(Kind.JSONB), ["a"] * 10_000),
    ],
    ids=["bytes", "array", "json"],
)
def test_to_read_long_values_takes_steps(sql_type: SqlType, value: Any) -> None:
    condition = " OR ".join(["v <> w"] * 60)
    selection = plan(f"SUBSCRIBE (SELECT id FROM t WHERE {condition})", sql_type).selection(Share())
    assert selection is not None
    with pytest.raises(LimitExceeded, match="steps for one row"):
        selection.apply([Update(Timestamp(1), 1, (1, value, value))])


def test_what_a_row_is_sorted_by_counts() -> None:
    def kept(order: str) -> int:
        share = Share()
        query = f"SUBSCRIBE (SELECT id, v FROM t ORDER BY {order} LIMIT 1)"
        selection = plan(query, SqlType(Kind.BYTES)).selection(share)
        assert selection is not None
        selection.apply([Update(Timestamp(1), 1, (1, "\\x" + "61" * 100_000, None))])
        return share.taken

    assert kept("v, v, v") > kept("id") + 300_000


def test_a_list_of_constants_that_are_compared_one_by_one_takes_as_many_steps() -> None:
    def steps(kind: Kind, value: Any) -> int:
        items = ", ".join(f"'\\x{at:06x}'" for at in range(3_000))
        query = f"SUBSCRIBE (SELECT id FROM t WHERE v IN ({items}) OR id < 0)"
        selection = plan(query, SqlType(kind)).selection(Share())
        assert selection is not None
        made = ShownBytes(cut=True)
        with suppress(PieceFull):
            selection.apply([Update(Timestamp(1), 1, (1, value, None))] * 500, made)
            return 0
        return 1

    assert (steps(Kind.BYTES, "\\x61"), steps(Kind.JSONB, "a")) == (0, 1)


@pytest.mark.parametrize(
    "condition",
    ["length(v) = 1", "v || v = 'ab'", "'a' || v = 'ab'", "v LIKE 'a'", "v ILIKE 'a'", "upper(v) = lower(w)"],
)
def test_functions_of_letters_take_no_bytes(condition: str) -> None:
    """A feed in JSON has them as a text of hexadecimal digits, and one in Avro has not."""
    with pytest.raises(SubscribeStatementError, match="of bytes does not exist") as refused:
        ids_where(condition, SqlType(Kind.BYTES), [b"a"], "json")
    assert refused.value.code == "unknown_function"
    assert rows_of("SELECT length(v::text) FROM t", SqlType(Kind.BYTES), [b"a"]) == [(4,)]


@pytest.mark.parametrize("kind", [Kind.TIMESTAMP, Kind.STRING, Kind.BOOL, Kind.JSONB])
def test_a_value_of_one_of_several_types_has_no_type(kind: Kind) -> None:
    """It would be compared as a text, whatever it is."""
    with pytest.raises(SubscribeStatementError, match=r"coalesce of .* does not exist") as refused:
        plan("SUBSCRIBE (SELECT id FROM t WHERE coalesce(v, id) = '2021-01-31')", SqlType(kind))
    assert refused.value.code == "unknown_function"


@pytest.mark.parametrize(("kind", "seven"), [(Kind.INT, 7), (Kind.FLOAT, 7.0), (Kind.DECIMAL, Decimal(7))])
def test_numbers_are_of_one_type(kind: Kind, seven: object) -> None:
    assert rows_of("SELECT id FROM t WHERE coalesce(v, id, 2.5) = 7", SqlType(kind), [seven]) == [(0,)]


def test_an_oid_may_have_a_number_for_null() -> None:
    assert rows_of("SELECT coalesce(v, 0) FROM t", SqlType(Kind.OID), [None]) == [(0,)]
