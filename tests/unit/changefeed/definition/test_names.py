"""Names on Kafka and in Avro schemas."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidegate.changefeed.definition.names import TOPIC_NAME_LIMIT, avro_name, kafka_name, sql_name, topic_name

NAMES = st.text(st.characters(codec="utf-8"), max_size=12) | st.text(
    "_u021.-!é\U00010000\U0001f366", max_size=9
)
#: Text that looks like the start of an escape, before a character that will be escaped.
AMBIGUOUS = re.compile(r"_u[0-9a-fA-F]{2,8}[^a-zA-Z0-9_]")


@given(NAMES)
def test_topic_names_are_what_kafka_allows_and_come_back(name: str) -> None:
    topic = kafka_name(name)
    assert re.fullmatch(r"[a-zA-Z0-9._-]*", topic)
    assert topic not in (".", "..")
    assume(not AMBIGUOUS.search(name))
    assert sql_name(topic) == name


@given(NAMES)
def test_avro_names_are_what_avro_allows_and_come_back(name: str) -> None:
    escaped = avro_name(name)
    assert re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)?", escaped)
    assume(not AMBIGUOUS.search(name))
    assert sql_name(escaped) == name


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("Orders-2.a_b", "Orders-2.a_b"),
        ("_u", "_u"),
        ("_u1_", "_u1_"),
        ("_u12_", "_u005f__u0075__u0031__u0032__u005f_"),
        ("\U00010000", "_u10000_"),
        ("\U00010001", "_u00010001_"),
        ("x" * 248 + "é", "x" * 248 + "_"),
    ],
)
def test_topic_name_by_example(name: str, topic: str) -> None:
    assert kafka_name(name) == topic


def test_a_name_that_runs_into_an_escape_does_not_come_back() -> None:
    """A flaw of the source's rule that the names must share."""
    assert kafka_name("_u21!") == "_u21_u0021_"
    assert sql_name("_u21_u0021_") == "!u0021_"


def test_an_escape_beyond_unicode_is_left_as_it_is() -> None:
    assert sql_name("_u00110000_") == "_u00110000_"


def test_the_prefix_counts_toward_the_limit_and_is_escaped() -> None:
    assert topic_name("shop.", "orders") == "shop.orders"
    assert topic_name("a/", "b") == "a_u002f_b"
    assert len(topic_name("p" * 200, "t" * 200)) == TOPIC_NAME_LIMIT
