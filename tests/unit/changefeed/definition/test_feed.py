"""Feed ids and table names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import DEFINITION, TARGET
from tests.unit.changefeed.tables import FOO
from tidegate.changefeed.definition.feed import FeedTarget, TableName, feed_id
from tidegate.changefeed.definition.sql_identifier import _RESERVED
from tidegate.changefeed.statement.grammar import KEYWORDS
from tidegate.changefeed.statement.statement import parse_statement
from tidegate.errors import StatementError


def test_an_unqualified_table_is_in_the_default_database_and_schema() -> None:
    assert TableName("foo") == TableName.of(FOO)
    assert str(TableName("foo")) == "defaultdb.public.foo"


def test_names_that_are_not_plain_identifiers_show_their_quotes() -> None:
    assert str(TableName('Big "T"', "public", "db-1")) == '"db-1".public."Big ""T"""'


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
names = st.builds(TableName, texts, texts, texts)


@given(names)
@example(TableName("order", "user", "database"))
@example(TableName("\x80\xa0", "\x80\x80", "\xa0"))
@example(TableName("K", "İ", "é"))
def test_a_name_is_written_as_a_statement_reads_it(name: TableName) -> None:
    parsed = parse_statement(f"CREATE CHANGEFEED FOR {name}, TABLE {name} INTO 'kafka://h'")
    assert [target.table for target in parsed.targets] == [name, name]


def test_a_name_that_is_a_keyword_is_written_as_a_statement_reads_it() -> None:
    words = sorted({word.lower() for word in KEYWORDS} | _RESERVED)
    names = [TableName(word, word, word) for word in words]
    parsed = parse_statement(f"CREATE CHANGEFEED FOR {', '.join(map(str, names))} INTO 'kafka://h'")
    assert [target.table for target in parsed.targets] == names


@pytest.mark.parametrize("text", ["", "a/b", "a b", "é", "x" * 65, "a\n"])
def test_a_feed_id_that_would_not_fit_a_record_key_is_refused(text: str) -> None:
    with pytest.raises(StatementError, match="not a feed id"):
        feed_id(text)


@pytest.mark.parametrize("topic", ["a\0b", "a b", "..", "é", "t" * 250])
def test_a_target_whose_topic_kafka_refuses_by_its_name_is_not_read(topic: str) -> None:
    """Whoever may write to the jobs or the control topic can store it; clients of Kafka end by some."""
    with pytest.raises(ValueError, match="no name of a topic"):
        FeedTarget.from_json(replace(TARGET, topic=topic).to_json())
    for kept in (TARGET, replace(TARGET, topic="")):
        assert FeedTarget.from_json(kept.to_json()) == kept


def test_a_definition_does_not_show_its_secrets() -> None:
    assert "hush" in DEFINITION.sink_uri
    assert "hush" not in repr(DEFINITION)
