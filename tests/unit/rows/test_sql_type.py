"""Column types as SQL text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import StatementError
from tidegate.rows import Kind, SqlType, parse_sql_type, sql_type_text

CANONICAL = (
    *("BOOL", "INT2", "INT4", "INT8", "FLOAT4", "FLOAT8", "DECIMAL", "DECIMAL(10)", "DECIMAL(10,2)"),
    *("STRING", "STRING(20)", "VARCHAR", "VARCHAR(20)", "CHAR", "CHAR(3)", "NAME", "BYTES", "UUID", "INET"),
    *("DATE", "TIME", "TIME(3)", "TIMETZ", "TIMESTAMP", "TIMESTAMP(3)", "TIMESTAMPTZ", "INTERVAL"),
    *("BIT", "BIT(8)", "VARBIT", "VARBIT(8)", "JSONB", "OID"),
    *("PG_LSN", "BOX2D", "TSVECTOR", "TSQUERY", "VECTOR", "VECTOR(3)", "REFCURSOR"),
    *("GEOMETRY", "GEOGRAPHY", "GEOMETRY(POINT)", "GEOMETRY(POLYGONZM,4326)", "GEOMETRY(GEOMETRY,26918)"),
    *("GEOGRAPHY(POINT,4326)", "GEOMETRY(POINT,4326)[]"),
    *("STRING COLLATE fr", "VARCHAR(20) COLLATE en_US", "INT8[]", "DECIMAL(10,2)[]", "STRING COLLATE de[]"),
)


@pytest.mark.parametrize("text", CANONICAL)
def test_a_canonical_text_comes_back(text: str) -> None:
    assert sql_type_text(parse_sql_type(text)) == text


@pytest.mark.parametrize(
    ("alias", "canonical"),
    [
        ("INT", "INT8"),
        ("bigint", "INT8"),
        ("integer", "INT8"),
        ("smallint", "INT2"),
        ("float", "FLOAT8"),
        ("double  precision", "FLOAT8"),
        ("numeric(4, 1)", "DECIMAL(4,1)"),
        ("text", "STRING"),
        ("character varying(9)", "VARCHAR(9)"),
        ("bytea", "BYTES"),
        ("boolean", "BOOL"),
        ("json", "JSONB"),
        ("timestamp with time zone", "TIMESTAMPTZ"),
        ("timestamp(3) with time zone", "TIMESTAMPTZ(3)"),
        ("time without time zone", "TIME"),
        ("bit varying(3)", "VARBIT(3)"),
        ('string collate "en"', "STRING COLLATE en"),
        (" int [] ", "INT8[]"),
        ("geometry( pointz , 3857 )", "GEOMETRY(POINTZ,3857)"),
        ("geography(point)", "GEOGRAPHY(POINT,4326)"),
    ],
)
def test_aliases_mean_their_type(alias: str, canonical: str) -> None:
    assert parse_sql_type(alias) == parse_sql_type(canonical)
    assert sql_type_text(parse_sql_type(alias)) == canonical


def test_a_type_made_by_hand_has_a_text() -> None:
    assert sql_type_text(SqlType(Kind.INT)) == "INT8"
    assert sql_type_text(SqlType(Kind.ENUM, name="city.status")) == "city.status"
    assert sql_type_text(SqlType(Kind.ENUM)) == "ENUM"
    assert sql_type_text(SqlType(Kind.GEOMETRY, width=4326)) == "GEOMETRY(GEOMETRY,4326)"


@pytest.mark.parametrize(
    "text", ["status(open, closed)", "status('open','closed')", "status ( 'open' , 'closed' )"]
)
def test_an_enum_is_spelled_with_its_labels(text: str) -> None:
    status = parse_sql_type(text)
    assert (status.kind, status.name) == (Kind.ENUM, "status")
    assert [member.label for member in status.members] == ["open", "closed"]
    assert parse_sql_type(text.replace("status", "ENUM")).name == ""


@given(labels=st.lists(st.from_regex("[a-z]{1,9}", fullmatch=True), min_size=1, max_size=300, unique=True))
def test_an_enums_physical_values_rise_with_its_labels(labels: list[str]) -> None:
    members = parse_sql_type(f"e({', '.join(labels)})").members
    assert [member.label for member in members] == labels
    physical = [member.physical for member in members]
    assert physical == sorted(set(physical))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "FOO",
        "INT(3)",
        "UUID(1)",
        "STRING(3,2)",
        "INT[][]",
        "INT COLLATE en",
        "DECIMAL(10,2",
        "STRING(",
        "BOX2D(2)",
        "GEOMETRY(4326)",
        "LTREE",
    ],
)
def test_other_texts_are_refused_by_name(text: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse_sql_type(text)
    assert repr(text)[1:-1] in str(caught.value)
