"""The options of a feed: their stored form."""

from __future__ import annotations

from hypothesis import given

from tests.unit.changefeed.feeds import options
from tidegate.changefeed.definition.options import FeedOptions


@given(options)
def test_options_are_stored_and_read_back(chosen: FeedOptions) -> None:
    assert FeedOptions.from_json(chosen.to_json()) == chosen
