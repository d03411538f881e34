"""Transactional ids: API, since whoever runs a feed next, of whatever version and engine, fences by them."""

from __future__ import annotations

from tidegate.changefeed.definition.feed import FeedId
from tidegate.delivery.producer_ids import MarkerIds, progress_id

_FEED = FeedId("1hm2k3n4p-x7c0v9b")


def test_the_ids_are_what_they_were() -> None:
    assert progress_id("app", _FEED) == "app-feed-1hm2k3n4p-x7c0v9b"
    assert MarkerIds.of("app", _FEED, "4L6g3nShT-eMCtK--X86sw") == (
        "app-feed-1hm2k3n4p-x7c0v9b",
        "app-feed-1hm2k3n4p-x7c0v9b@4L6g3nShT-eMCtK--X86sw",
    )


def test_no_other_feed_and_no_other_cluster_has_the_id_of_markers() -> None:
    feeds, clusters = (FeedId("a"), FeedId("a-b"), FeedId("b")), ("b", "b-c", "c")
    ids = {MarkerIds.of("app", feed, cluster).present for feed in feeds for cluster in clusters}
    assert len(ids) == len(feeds) * len(clusters)
    assert not ids & {progress_id("app", FeedId(f"{feed}-{other}")) for feed in feeds for other in clusters}
