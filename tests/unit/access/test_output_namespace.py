"""The operator's bound of where feeds write."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.access.output_namespace import EVERYWHERE, OutputNamespace
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.client.topic_ownership import check_topics, wanted_topics
from tidegate.errors import FeedError, SettingsError


@given(st.text("ab*", min_size=1, max_size=8), st.text("ab", max_size=12))
def test_a_star_stands_for_any_letters(pattern: str, topic: str) -> None:
    assert OutputNamespace((pattern,)).has(topic) == fnmatchcase(topic, pattern)


def test_one_of_the_patterns_is_enough_and_without_any_every_name_is_in_it() -> None:
    namespace = OutputNamespace.of(" cdc.* ,board")
    assert [namespace.has(topic) for topic in ("cdc.a", "board", "boards", "a.cdc.a")] == [1, 1, 0, 0]
    assert OutputNamespace.of("  ") == EVERYWHERE
    assert EVERYWHERE.has("anything")


@pytest.mark.parametrize("text", ["cdc.*,", "a b", "a?", "[ab]", ","])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="output_topics has the pattern"):
        OutputNamespace.of(text)


@pytest.mark.parametrize(
    ("prefix", "aside", "refused"),
    [("cdc.", "cdc.markers", ""), ("", "cdc.markers", "plain"), ("cdc.", "markers", "markers")],
)
def test_topics_of_rows_and_of_markers_are_bounded(prefix: str, aside: str, refused: str) -> None:
    options = FeedOptions(resolved_interval_ns=0, topic_prefix=prefix, resolved_topic=aside)
    feed = activation([HandTable.of(104, "plain").descriptor], options).definition
    bound = OutputNamespace.of("cdc.*")
    if not refused:
        check_topics(feed, wanted_topics(feed), JobsView(), set(), namespace=bound)
        return
    option = "topic_prefix" if refused == "plain" else "resolved_topic"
    sentence = (
        f"no feed may write to {refused}: the operator allows only topics like cdc.* .*another {option}"
    )
    with pytest.raises(FeedError, match=sentence.replace("*", r"\*", 1)):
        check_topics(feed, wanted_topics(feed), JobsView(), set(), namespace=bound)


def test_no_pattern_opens_a_topic_of_an_application() -> None:
    feed = activation([HandTable.of(104, "app-jobs").descriptor]).definition
    with pytest.raises(FeedError, match="has the name of the jobs topic"):
        check_topics(feed, ["app-jobs"], JobsView(), set(), namespace=OutputNamespace.of("app-*"))
