"""Commands, as clients write them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import RequestRefused
from tidegate.serve.postgres.commands import (
    BeginBlock,
    CloseCursor,
    Command,
    CopyOut,
    Deallocate,
    Declare,
    Discard,
    EndBlock,
    Fetch,
    SetSetting,
    ShowColumns,
    ShowSetting,
    ShowTables,
    Subscribe,
    read_command,
)
from tidegate.serve.postgres.sql_words import statements

ALL = 2**63 - 1


def command(text: str) -> Command:
    (statement,) = statements(text)
    return read_command(statement)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  subscribe t -- end\n", Subscribe("subscribe t", 2)),
        ("SUBSCRIBE (SELECT ';' FROM t);", Subscribe("SUBSCRIBE (SELECT ';' FROM t)", 0)),
        ("COPY (SUBSCRIBE (SELECT a FROM t)) TO STDOUT", CopyOut("SUBSCRIBE (SELECT a FROM t)", 6)),
        ("copy ( subscribe t ) to stdout with (format 'text')", CopyOut("subscribe t", 7)),
        ("BEGIN", BeginBlock()),
        ("START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", BeginBlock()),
        ("COMMIT", EndBlock(True)),
        ("END TRANSACTION", EndBlock(True)),
        ("ROLLBACK WORK", EndBlock(False)),
        ("ABORT", EndBlock(False)),
        ("DECLARE c CURSOR FOR SUBSCRIBE t", Declare("c", "SUBSCRIBE t", 21)),
        ('DECLARE "My c" NO SCROLL CURSOR WITHOUT HOLD FOR TAIL t', Declare("My c", "TAIL t", 49)),
        ("FETCH c", Fetch("c")),
        ("FETCH 0 c", Fetch("c", 0)),
        ("FETCH FORWARD 10 FROM c", Fetch("c", 10)),
        ("FETCH NEXT IN c", Fetch("c")),
        ("FETCH next", Fetch("next")),
        ("FETCH ALL c WITH (timeout = '1s')", Fetch("c", ALL, 1.0)),
        ("FETCH 5 c WITH (TIMEOUT='250 ms')", Fetch("c", 5, 0.25)),
        ("FETCH 5 c WITH (TIMEOUT 2)", Fetch("c", 5, 2.0)),
        ("CLOSE c", CloseCursor("c")),
        ("CLOSE ALL", CloseCursor("")),
        ("SET a.b = 'C''d'", SetSetting("a.b", "C'd")),
        ("SET LOCAL search_path TO public, x", SetSetting("search_path", "public,x")),
        ("SET TIME ZONE 'UTC'", SetSetting("timezone", "UTC")),
        ("SET session = 1", SetSetting("session", "1")),
        ("SET x TO DEFAULT", SetSetting("x", None)),
        ("RESET x", SetSetting("x", None)),
        ("RESET ALL", Discard()),
        ("SHOW x", ShowSetting("x")),
        ("SHOW TABLES", ShowTables()),
        ('SHOW COLUMNS FROM a."B"', ShowColumns(("a", "B"))),
        ("DEALLOCATE PREPARE s", Deallocate("s")),
        ("DEALLOCATE ALL", Deallocate("")),
        ("DISCARD ALL", Discard()),
    ],
)
def test_a_command_is_read(text: str, expected: Command) -> None:
    assert command(text) == expected


@pytest.mark.parametrize(
    ("text", "sqlstate", "sentence"),
    [
        ("COPY t TO STDOUT", "0A000", "COPY .SUBSCRIBE"),
        ("COPY (SELECT 1) TO STDOUT", "0A000", "COPY .SUBSCRIBE"),
        ("COPY () TO STDOUT", "0A000", "COPY .SUBSCRIBE"),
        ("COPY (SUBSCRIBE t TO STDOUT", "42601", "end of input"),
        ("COPY (SUBSCRIBE t) TO STDOUT (FORMAT binary)", "0A000", "it writes text"),
        ("COPY (SUBSCRIBE t) TO 'file'", "42601", "near \"'file'\""),
        ("DECLARE c CURSOR FOR SELECT 1", "0A000", "DECLARE c CURSOR FOR SUBSCRIBE"),
        ("DECLARE c SCROLL CURSOR FOR SUBSCRIBE t", "0A000", "SCROLL"),
        ("DECLARE c BINARY CURSOR FOR SUBSCRIBE t", "0A000", "BINARY"),
        ("DECLARE c CURSOR WITH HOLD FOR SUBSCRIBE t", "0A000", "WITH HOLD"),
        ("FETCH BACKWARD 1 c", "0A000", "goes forward alone"),
        ("FETCH 1.5 c", "42601", "whole number"),
        ("FETCH -1 c", "42601", 'near "-"'),
        ("FETCH 1 c WITH (timeout = 'soon')", "42601", "a duration"),
        ("ROLLBACK TO SAVEPOINT a", "0A000", "savepoints"),
        ("CREATE TABLE t ()", "0A000", "CREATE is not supported"),
        ("SELECT 1 FROM t", "0A000", "for constants"),
        ("SELECT a(1)", "0A000", "for constants"),
        ("SELECT " + ", ".join(["1"] * 101), "54011", "up to 100 columns"),
        ("SET x", "42601", "end of input"),
        ("hello", "42601", 'near "hello"'),
        ("'text'", "42601", "near"),
    ],
)
def test_what_is_not_supported_is_refused_by_a_sentence(text: str, sqlstate: str, sentence: str) -> None:
    with pytest.raises(RequestRefused, match=sentence) as caught:
        command(text)
    assert caught.value.sqlstate == sqlstate


def test_semicolons_in_texts_names_and_comments_end_no_statement() -> None:
    text = "SELECT ';' ; SHOW \"a;b\" /* ; */ ; -- ;\n ;; SELECT 2"
    assert [each.text_from(0) for each in statements(text)] == ["SELECT ';'", 'SHOW "a;b"', "SELECT 2"]


WORDS = [
    "SELECT",
    "SET",
    "SHOW",
    "FETCH",
    "DECLARE",
    "CURSOR",
    "FOR",
    "SUBSCRIBE",
    "COPY",
    "TO",
    *"(),.='\";",
]


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=5))))
def test_any_text_is_commands_or_refused(words: list[str]) -> None:
    for statement in statements(" ".join(words)):
        with contextlib.suppress(RequestRefused):
            read_command(statement)
