"""Statements with a secret, cut and changed at every place: no text that is shown has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.feed_rows import feed_row, redacted_sink
from tidegate.errors import StatementError

SECRET: Final = "hunter2q"
NOW_NS: Final = 1_700_000_000_000_000_000
STATEMENTS: Final = (
    f"CREATE CHANGEFEED FOR TABLE t INTO 'kafka://h:1?sasl_enabled=true&sasl_user=u&sasl_password={SECRET}'",
    f"CREATE CHANGEFEED FOR t INTO 'kafka://h:1?sasl_password={SECRET}&sasl_user=u' WITH updated",
    f"CREATE CHANGEFEED FOR TABLE t, u INTO 'kafka://u:{SECRET}@h:1' WITH (diff, resolved='1s')",
    f"CREATE CHANGEFEED FOR t INTO 'kafka://h:1?tls_enabled=true&client_key={SECRET}'",
    f"CREATE CHANGEFEED FOR t INTO 'kafka://h:1' WITH format='avro',"
    f"\n confluent_schema_registry='https://u:{SECRET}@reg', updated",
    f"CREATE CHANGEFEED FOR t INTO 'kafka://h:1' WITH format=avro,"
    f" confluent_schema_registry = 'https://reg?client_key={SECRET}', envelope='wrapped'",
    """CREATE CHANGEFEED FOR t INTO 'kafka://h:1' WITH extra_headers='{"X-Api-Key":"hunter2q"}', diff""",
)
#: Parts of a statement: quotes stand alone, so that what they enclose is cut, too.
_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")
#: What follows ``//`` in a URI: a user with a password, and hosts.
_AUTHORITY: Final = re.compile(r"//([^/?#'\"]*)")
_WORD: Final = re.compile(r"'[^']*'|\w+|\s+|[^\w\s]")


def tokens(statement: str) -> list[str]:
    return _TOKEN.findall(statement)


def changes(statement: str) -> Iterator[str]:
    """The statement with every cut at either end, every token left out, doubled, swapped, replaced."""
    for place in range(len(statement) + 1):
        yield statement[:place]
        yield statement[place:]
        yield statement[:place] + statement[place + 1 :]
        for junk in ("'", '"', "/*", "--", ";", "&", "\0", " x "):
            yield statement[:place] + junk + statement[place:]
    parts = tokens(statement)
    for index, token in enumerate(parts):
        for other in ("", token * 2, "'", '"', "INTO", "=", ",", "x", "WITH", "("):
            yield "".join([*parts[:index], other, *parts[index + 1 :]])
    words = _WORD.findall(statement)  # a password that stands where a host does is taken for one
    for index, (one, other) in enumerate(pairwise(words)):
        yield "".join([*words[:index], other, one, *words[index + 2 :]])
    for quote in ("", '"', "`", "''"):
        yield statement.replace("'", quote)
    for word in ("INTO ", "WITH ", "=", ",", "'", "FOR ", "TABLE "):
        yield statement.replace(word, "")


def shown_texts(statement: str) -> list[str]:
    """All that anybody is shown of the statement: the error, or the feed that it defines."""
    try:
        definition = define_feed(statement, FeedId("f"), NOW_NS).definition
    except StatementError as error:
        return [str(error), repr(error)]
    rows = repr(feed_row(definition.id, FeedView(definition)))
    return [definition.description, repr(definition), redacted_sink(definition.sink_uri), rows]


def is_taken_for_host(statement: str) -> bool:
    """Whether the secret stands where a URI names its host: nothing tells such a password from a host."""
    for authority in _AUTHORITY.findall(statement):
        hosts = authority.rpartition("@")[2].split(",")
        if any(SECRET in host.partition(":")[0] for host in hosts):
            return True
    return False


def assert_hidden(statement: str) -> None:
    for text in shown_texts(statement):
        assert SECRET not in text, (statement, text)


@pytest.mark.long
@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_change_of_a_statement_makes_an_error_show_its_secret(statement: str) -> None:
    for changed in changes(statement):
        assert_hidden(changed)


@st.composite
def changed_twice(draw: st.DrawFn) -> str:
    statement = draw(st.sampled_from(STATEMENTS))
    for _ in range(draw(st.integers(2, 4))):
        parts = tokens(statement)
        index = draw(st.integers(0, max(0, len(parts) - 1)))
        change = draw(st.sampled_from(["", "'", '"', "INTO", "WITH", "=", ",", " ", "/*", ";", "twice"]))
        replaced = parts[index : index + 1] * 2 if change == "twice" else [change]
        statement = "".join([*parts[:index], *replaced, *parts[index + 1 :]])
    return statement


@given(changed_twice())
def test_no_changes_of_a_statement_make_an_error_show_its_secret(statement: str) -> None:
    assume(not is_taken_for_host(statement))
    assert_hidden(statement)
