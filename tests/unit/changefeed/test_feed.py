"""Feed ids and table names."""

from __future__ import annotations

import pytest

from tests.unit.changefeed.feeds import DEFINITION
from tests.unit.changefeed.tables import FOO
from tidegate.changefeed.feed import TableName, feed_id
from tidegate.errors import StatementError


def test_an_unqualified_table_is_in_the_default_database_and_schema() -> None:
    assert TableName("foo") == TableName.of(FOO)
    assert str(TableName("foo")) == "defaultdb.public.foo"


def test_names_that_are_not_plain_identifiers_show_their_quotes() -> None:
    assert str(TableName('Big "T"', "public", "db-1")) == '"db-1".public."Big ""T"""'


@pytest.mark.parametrize("text", ["", "a/b", "a b", "é", "x" * 65, "a\n"])
def test_a_feed_id_that_would_not_fit_a_record_key_is_refused(text: str) -> None:
    with pytest.raises(StatementError, match="not a feed id"):
        feed_id(text)


def test_a_definition_does_not_show_its_secrets() -> None:
    assert "hush" in DEFINITION.sink_uri
    assert "hush" not in repr(DEFINITION)
