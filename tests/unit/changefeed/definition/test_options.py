"""The options of a feed: what follows from them, and their stored form."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.unit.changefeed.feeds import options
from tidegate.changefeed.definition.options import Envelope, FeedOptions


@pytest.mark.parametrize(
    ("chosen", "shows", "needs"),
    [
        (FeedOptions(), False, False),
        (FeedOptions(diff=True), True, True),
        (FeedOptions(envelope=Envelope.ROW, diff=True), False, False),
        (FeedOptions(envelope=Envelope.KEY_ONLY, diff=True), False, False),
        (FeedOptions(envelope=Envelope.ENRICHED), False, True),
        (FeedOptions(envelope=Envelope.ENRICHED, diff=True), True, True),
        (FeedOptions(envelope=Envelope.UPSERT), False, False),
        (FeedOptions(envelope=Envelope.DEBEZIUM), True, True),
    ],
)
def test_previous_values_are_needed_where_records_show_them_or_tell_inserts(
    chosen: FeedOptions, shows: bool, needs: bool
) -> None:
    assert (chosen.shows_previous, chosen.needs_previous) == (shows, needs)


@given(options)
def test_options_are_stored_and_read_back(chosen: FeedOptions) -> None:
    assert FeedOptions.from_json(chosen.to_json()) == chosen
