"""Ranges name those feeds to others that can miss versions and watch keys of theirs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import at
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.options import InitialScan
from tidegate.processor.feeds import served_feeds
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.served_feeds import ServedFeeds
from tidegate.rows.table_key import tenant_prefix
from tidegate.spans import Span

_SCANS = replace(WITH_MARKERS, initial_scan=InitialScan.YES)


def _feed(name: str, *tables: object, can_miss: bool = True) -> PartitionFeed:
    descriptors = [table.descriptor for table in tables]  # type: ignore[attr-defined]
    message = activation(descriptors, _SCANS if can_miss else WITH_MARKERS, start=at(1), feed_id=name)
    feed = PartitionFeed(message, None)
    feed.activate(message)
    return feed


_FEEDS = [
    _feed("plain", PLAIN),
    _feed("other", OTHER),
    _feed("both", PLAIN, OTHER),
    _feed("live", PLAIN, can_miss=False),
]


def test_feeds_that_watch_keys_of_a_span_are_named_and_no_others() -> None:
    served = ServedFeeds(_FEEDS)
    assert served(PLAIN.span) == ("plain", "both")
    assert served(OTHER.split(50)[1]) == ("other", "both")
    assert served(Span(b"\x01", b"\x02")) == ()
    assert served(None) == ()


def test_a_span_with_a_tenant_prefix_has_the_keys_that_feeds_watch_without_it() -> None:
    prefix = tenant_prefix(12)
    assert ServedFeeds(_FEEDS)(Span(prefix + PLAIN.span.start, prefix + PLAIN.span.end)) == ("plain", "both")


def test_the_answers_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_feeds, "_SPANS_MAX", 3)
    served = ServedFeeds(_FEEDS)
    spans = [OTHER.split(number)[1] for number in range(1, 8)]
    kept = []
    for span in spans:
        assert served(span) == served(span) == ("other", "both")
        kept.append(len(served._of))
    assert kept == [1, 2, 3, 1, 2, 3, 1]
