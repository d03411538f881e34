"""Statements: what they mean, and how a mistake in one is shown."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.statement.option_clauses import OptionClause
from tidegate.changefeed.statement.statement import CreateChangefeed, TableTarget, parse_statement
from tidegate.errors import StatementError

SINK = "INTO 'kafka://h'"


def tables(statement: str) -> list[TableName]:
    return [target.table for target in parse_statement(statement).targets]


def values(statement: str) -> dict[str, str | None]:
    return {option.name: option.value for option in parse_statement(statement).options}


def test_a_whole_statement() -> None:
    text = (
        "CREATE CHANGEFEED FOR TABLE a, db.schema.\"Quoted b\" INTO 'kafka://h?x=''1'''\n"
        "WITH updated, resolved = '10s', format=json, n = -1.5;"
    )
    assert parse_statement(text) == CreateChangefeed(
        targets=(
            TableTarget(TableName("a"), text.index("a,")),
            TableTarget(TableName("Quoted b", "schema", "db"), text.index("db.")),
        ),
        sink_uri="kafka://h?x='1'",
        sink_position=text.index("'kafka"),
        options=(
            OptionClause("updated", None, text.index("updated")),
            OptionClause("resolved", "10s", text.index("resolved")),
            OptionClause("format", "json", text.index("format")),
            OptionClause("n", "-1.5", text.index("n =")),
        ),
    )


def test_keywords_have_no_case_and_table_is_optional() -> None:
    assert tables(f"create Changefeed for a, TABLE b {SINK.lower()}") == [TableName("a"), TableName("b")]


def test_plain_names_are_folded_and_quoted_names_are_not() -> None:
    assert tables(f'CREATE CHANGEFEED FOR Foo, "Foo", "a ""b""", ÄTA$1 {SINK}') == [
        TableName("foo"),
        TableName("Foo"),
        TableName('a "b"'),
        TableName("äta$1"),
    ]


def test_two_parts_are_a_database_and_a_table() -> None:
    assert tables(f"CREATE CHANGEFEED FOR movr.users {SINK}") == [TableName("users", database="movr")]


def test_keywords_that_are_not_in_their_place_are_names() -> None:
    names = ["changefeed", "family", "job", "options", "alter", "table_1", "intox", "forest"]
    assert [name for name, *_ in tables(f"CREATE CHANGEFEED FOR {', '.join(names)} {SINK}")] == names


def test_a_reserved_word_is_a_name_in_quotes() -> None:
    assert tables(f'CREATE CHANGEFEED FOR "table", "INTO" {SINK}') == [TableName("table"), TableName("INTO")]


def test_comments_and_line_breaks_are_space() -> None:
    text = f"-- first\nCREATE/* a\nb */CHANGEFEED FOR a -- 'x'\n{SINK} -- last"
    assert tables(text) == [TableName("a")]


@pytest.mark.parametrize(
    "clause",
    [
        "WITH a, b='X', c=Word, options",
        "WITH (a, b='X', c=Word, options)",
        "WITH OPTIONS (a, b = 'X', c = word, options)",
    ],
)
def test_options_in_any_of_three_forms(clause: str) -> None:
    statement = f"CREATE CHANGEFEED FOR a {SINK} {clause}"
    assert values(statement) == {"a": None, "b": "X", "c": "word", "options": None}


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8")))
def test_quoted_text_comes_through_unchanged(name: str, value: str) -> None:
    quoted_name, quoted_value = name.replace('"', '""'), value.replace("'", "''")
    parsed = parse_statement(
        f"CREATE CHANGEFEED FOR \"{quoted_name}\" INTO '{quoted_value}' WITH topic_prefix='{quoted_value}'"
    )
    assert parsed.targets[0].table.name == name
    assert parsed.sink_uri == parsed.options[0].value == value


ERRORS = {
    "CREATE CHANGEFEED FOR INTO 'kafka://h'": """\
        expected a table name, but found INTO
          CREATE CHANGEFEED FOR INTO '*********'
                                ^""",
    "CREATE CHANGEFEED FOR TABLE a b INTO 'kafka://h'": """\
        expected INTO, WITH, a comma, a dot or the end of the statement, but found b
          CREATE CHANGEFEED FOR TABLE a b INTO '*********'
                                        ^""",
    "CREATE CHANGEFEED FOR a\n  INTO kafka://h\n  WITH updated": """\
        expected the sink's URI in single quotes, but found another word
            INTO *********
                 ^""",
    "CREATE CHANGEFEED FOR a INTO 'kafka://h?sasl_password=hush": """\
        the quote that opens here is never closed
          CREATE CHANGEFEED FOR a INTO '****************************
                                       ^""",
    "CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH updated resolved": """\
        expected =, a comma or the end of the statement, but found resolved
          CREATE CHANGEFEED FOR a INTO '*********' WITH updated resolved
                                                                ^""",
    "CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH (updated": """\
        expected a closing parenthesis, but the statement ends
          CREATE CHANGEFEED FOR a INTO '*********' WITH (updated
                                                                ^""",
    "CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH updated,": """\
        expected an option name, but the statement ends
          CREATE CHANGEFEED FOR a INTO '*********' WITH updated,
                                                                ^""",
    "CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH resolved = ;": """\
        expected a value, but found ;
          CREATE CHANGEFEED FOR a INTO '*********' WITH resolved = ;
                                                                   ^""",
    "CREATE CHANGEFEED FOR a INTO 'kafka://h'; DROP TABLE a": """\
        expected the end of the statement, but found DROP
          CREATE CHANGEFEED FOR a INTO '*********'; DROP TABLE *
                                                    ^""",
    "CREATE CHANGEFEED FOR a /* INTO 'kafka://h'": """\
        the comment that opens here is never closed
          CREATE CHANGEFEED FOR a /* **** ***********
                                  ^""",
    "CREATE TABLE a (b INT)": """\
        expected CHANGEFEED, but found TABLE
          CREATE TABLE * (* ***)
                 ^""",
    "SELECT 1": """\
        expected CREATE CHANGEFEED, but found SELECT
          SELECT *
          ^""",
    "": """\
        expected CREATE CHANGEFEED, but the statement ends

          ^""",
    "CREATE CHANGEFEED FOR \"\" INTO 'kafka://h'": """\
        expected a table name, but found text in double quotes
          CREATE CHANGEFEED FOR "" INTO '*********'
                                ^""",
    "CREATE CHANGEFEED FOR a.b.c.d INTO 'kafka://h'": """\
        a table name has at most three parts: database.schema.table
          CREATE CHANGEFEED FOR a.b.c.d INTO '*********'
                                ^""",
}


@pytest.mark.parametrize("statement", ERRORS)
def test_a_mistake_is_shown_where_it_is(statement: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse_statement(statement)
    shown = "\n".join(line.rstrip() for line in dedent(str(caught.value)).splitlines())
    assert shown == "\n".join(line.rstrip() for line in dedent(ERRORS[statement]).splitlines())


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("ALTER CHANGEFEED 12 ADD bar SET sink='x'", "ALTER CHANGEFEED"),
        ("SHOW CHANGEFEED JOBS", "SHOW CHANGEFEED JOBS"),
        ("SHOW CHANGEFEED JOB 12", "SHOW CHANGEFEED JOBS"),
        ("DROP CHANGEFEED 12", "DROP CHANGEFEED"),
        ("CANCEL JOB 12", "CANCEL"),
        ("PAUSE JOB 12;", "PAUSE"),
        ("resume changefeed 12", "RESUME"),
        ("CREATE CHANGEFEED INTO 's3://x' WITH diff AS SELECT a, b FROM foo", "AS SELECT"),
        ("CREATE CHANGEFEED AS SELECT 1", "AS SELECT"),
        ("CREATE SCHEDULE s FOR CHANGEFEED a INTO 'x' RECURRING '@daily'", "CREATE SCHEDULE"),
        ("EXPERIMENTAL CHANGEFEED FOR a", "EXPERIMENTAL CHANGEFEED"),
        ("CREATE CHANGEFEED FOR TABLE a FAMILY most INTO 'kafka://h'", "TABLE ... FAMILY"),
        ("CREATE CHANGEFEED FOR DATABASE d INTO 'kafka://h'", "CHANGEFEED FOR DATABASE"),
        ("CREATE CHANGEFEED FOR a", "CREATE CHANGEFEED without INTO"),
    ],
)
def test_what_is_known_but_missing_is_refused_by_its_name(statement: str, name: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse_statement(statement)
    message = str(caught.value)
    assert name in message
    assert "supported; supported: CREATE CHANGEFEED FOR" in message.replace(" yet", "")


@given(st.text())
def test_any_text_is_a_statement_or_a_statement_error(text: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse_statement(text)
    assert -1 <= caught.value.position <= len(text)


FRAGMENTS = st.sampled_from(
    [
        "CREATE",
        "CHANGEFEED",
        "FOR",
        "TABLE",
        "a",
        '"b"',
        ".",
        ",",
        "INTO",
        "'x'",
        "WITH",
        "=",
        "(",
        ")",
        ";",
        "--",
    ]
)


@given(st.lists(FRAGMENTS, max_size=14).map(" ".join))
def test_any_order_of_its_words_is_a_statement_or_a_statement_error(text: str) -> None:
    try:
        parse_statement(text)
    except StatementError as error:
        told = str(error)
    else:
        told = ""
    assert "_" not in told.partition("\n")[0]  # the grammar's names are not for people


def test_a_long_line_is_cut_around_the_caret() -> None:
    statement = f"CREATE CHANGEFEED FOR {'a, ' * 100}INTO 'kafka://{'h' * 500}'"
    with pytest.raises(StatementError) as caught:
        parse_statement(statement)
    _, line, caret = str(caught.value).splitlines()
    assert len(line) < 110
    assert line[caret.index("^") :].startswith("INTO")
