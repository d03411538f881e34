"""Control characters in a statement are refused where they stand."""

from __future__ import annotations

import re

import pytest

from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.changefeed.statement.definition import define_feed
from tidegate.errors import StatementError

_SINK = "INTO 'kafka://h:9092'"


def _defined(statement: str) -> FeedDefinition:
    return define_feed(statement, FeedId("f"), 0).definition


@pytest.mark.parametrize("control", ["\0", "\a", "\t", "\n", "\r", "\x1b", "\x7f", "\x85", "\x9b"])
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (f'CREATE CHANGEFEED FOR "a{{0}}" {_SINK}', "a table's name"),
        (f'CREATE CHANGEFEED FOR b, "d{{0}}".a {_SINK}', "a table's name"),
        (f'CREATE CHANGEFEED FOR d."s{{0}}".a {_SINK}', "a table's name"),
        ("CREATE CHANGEFEED FOR a INTO 'kafka://h:9092?topic_prefix=a{0}'", "the sink URI"),
        (f"CREATE CHANGEFEED FOR a {_SINK} WITH topic_prefix='a{{0}}'", "the value of topic_prefix"),
        (f"CREATE CHANGEFEED FOR a {_SINK} WITH key_column='a{{0}}', unordered", "the value of key_column"),
        (
            f"CREATE CHANGEFEED FOR a {_SINK} WITH resolved, resolved_topic='a{{0}}'",
            "the value of resolved_topic",
        ),
        (
            f"CREATE CHANGEFEED FOR a {_SINK} WITH headers_json_column_name='a{{0}}'",
            "the value of headers_json_column_name",
        ),
    ],
)
def test_a_name_or_value_with_one_is_refused_and_shown_by_its_number(
    statement: str, what: str, control: str
) -> None:
    sentence = f"{what} has the control character U+{ord(control):04X}"
    with pytest.raises(StatementError, match=f"^{re.escape(sentence)}") as caught:
        _defined(statement.replace("{0}", control))
    assert caught.value.position > 0


@pytest.mark.parametrize("name", ["a b", "täble", "\xa0", "🍦", "a\u2028", "_u001b_"])
def test_other_characters_are_names(name: str) -> None:
    assert _defined(f'CREATE CHANGEFEED FOR "{name}" {_SINK}').tables[0].name == name


def test_white_space_and_lines_are_free_outside_of_names_and_in_json() -> None:
    headers = """extra_headers='{\n\t"a": "b"\r\n}'"""
    assert _defined(f"CREATE CHANGEFEED\n\tFOR a {_SINK}\r\nWITH {headers} -- \x1b").options.extra_headers
