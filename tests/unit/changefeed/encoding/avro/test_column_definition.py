"""The SQL definition of a column, as ``__crdb__`` carries it."""

from __future__ import annotations

import pytest

from tidegate.changefeed.definition.sql_identifier import sql_identifier
from tidegate.changefeed.encoding.avro.column_definition import column_definition
from tidegate.rows.descriptor import Column
from tidegate.rows.sql_type import parse_sql_type


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a", "a"),
        ("_a$1", "_a$1"),
        ("🍦", "🍦"),
        ("é", "é"),
        ("e\u0301", '"e\u0301"'),  # not in the form that an unquoted name is brought into
        ("É", '"É"'),
        ("Total", '"Total"'),
        ("1st", '"1st"'),
        ("$1", '"$1"'),
        ("a b", '"a b"'),
        ('say "x"', '"say ""x"""'),
        ("", '""'),
        ("order", '"order"'),
        ("time", '"time"'),
        ("generated", '"generated"'),
        ("name", "name"),
        ("orders", "orders"),
    ],
)
def test_a_name_is_quoted_only_where_sql_would_not_read_it_back(name: str, written: str) -> None:
    assert sql_identifier(name) == written


@pytest.mark.parametrize(
    ("sql", "nullable", "definition"),
    [
        ("INT", False, "c INT8 NOT NULL"),
        ("INT2", True, "c INT2 NULL"),
        ("FLOAT4", True, "c FLOAT4 NULL"),
        ("DECIMAL(10,2)", True, "c DECIMAL(10,2) NULL"),
        ("DECIMAL(10)", True, "c DECIMAL(10) NULL"),
        ("VARCHAR(20)", True, "c VARCHAR(20) NULL"),
        ("CHAR", True, "c CHAR NULL"),
        ("STRING COLLATE fr", True, "c STRING COLLATE fr NULL"),
        ("VARCHAR(20) COLLATE de[]", True, "c VARCHAR(20)[] COLLATE de NULL"),
        ("BOOL[]", True, "c BOOL[] NULL"),
        ("BIT", True, "c BIT NULL"),
        ("VARBIT(3)", True, "c VARBIT(3) NULL"),
        ("TIMESTAMPTZ(3)", True, "c TIMESTAMPTZ(3) NULL"),
        ("season('spring','autumn')", True, "c season NULL"),
    ],
)
def test_a_definition_has_name_type_and_nullability(sql: str, nullable: bool, definition: str) -> None:
    assert column_definition(Column(1, "c", parse_sql_type(sql), nullable)) == definition
