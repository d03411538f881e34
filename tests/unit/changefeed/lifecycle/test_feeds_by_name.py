"""Tests that feeds are found by their names, whatever names they have had before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.feeds_by_name import FeedsByName

_FEEDS = st.sampled_from("abcd").map(FeedId)
_NAMES = st.sets(st.sampled_from("xyz"))


@examples(200)
@given(st.lists(st.tuples(_FEEDS, _NAMES)))
def test_a_name_has_the_feeds_that_had_it_last_in_order(puts: list[tuple[FeedId, set[str]]]) -> None:
    feeds, last = FeedsByName(), dict[FeedId, set[str]]()
    for feed_id, names in puts:
        feeds.put(feed_id, names)
        last[feed_id] = names
    expected = {name: tuple(each for each in sorted(last) if name in last[each]) for name in "xyz"}
    assert {name: feeds.of(name) for name in "xyz"} == expected
    assert sorted(feeds.groups()) == sorted(filter(None, expected.values()))
