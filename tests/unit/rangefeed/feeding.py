"""Short words for tests of a range's feeds."""

from __future__ import annotations

from tidegate.hlc import ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import CommitIntent, TxnId, WriteIntent, WriteValue
from tidegate.rangefeed.event import CheckpointEvent, FeedEvent, ValueEvent
from tidegate.rangefeed.range_feed import RangeFeed, RangeFeedConfig, WhenFull
from tidegate.rangefeed.registration import FeedRequest, Registration
from tidegate.ranges.resolver import Resolver
from tidegate.spans import Span

RANGE = Span(b"a", b"z")
T1 = TxnId(b"1" * 16)
T2 = TxnId(b"2" * 16)


def at(wall: int) -> Timestamp:
    return Timestamp(wall)


def closed(wall: int) -> ClosedTimestamp:
    return ClosedTimestamp(Timestamp(wall))


def write(key: str, wall: int, value: str = "v", prev: str | None = None) -> WriteValue:
    return WriteValue(key.encode(), at(wall), value.encode(), None if prev is None else prev.encode())


def intent(txn: TxnId, wall: int) -> WriteIntent:
    return WriteIntent(txn, b"anchor", at(wall), at(wall))


def commit(txn: TxnId, key: str, wall: int, value: str = "v") -> CommitIntent:
    return CommitIntent(txn, key.encode(), at(wall), value.encode())


def value(key: str, wall: int, text: str = "v", prev: str | None = None) -> ValueEvent:
    return ValueEvent(key.encode(), at(wall), text.encode(), None if prev is None else prev.encode())


def checkpoint(span: Span, wall: int) -> CheckpointEvent:
    return CheckpointEvent(span, ResolvedTimestamp(at(wall)))


def range_feed(
    *, buffered: int = 100, pending: int = 100, when_full: WhenFull = WhenFull.END_FEEDS
) -> RangeFeed:
    """The feeds of ``RANGE``, its resolver initialised."""
    resolver = Resolver()
    resolver.initialise()
    config = RangeFeedConfig(pending_events_max=pending, buffered_events_max=buffered, when_full=when_full)
    return RangeFeed(RANGE, resolver=resolver, config=config)


def register(feeds: RangeFeed, request: FeedRequest) -> Registration:
    """A feed that is past its first checkpoint."""
    feed = feeds.register(request)
    assert feed is not None
    assert isinstance(feed.take(1)[0], CheckpointEvent)
    return feed


def taken(feed: Registration) -> list[FeedEvent]:
    """All that waits for the feed's reader."""
    return feed.take(1_000)
