"""Why feeds of a log partition are stopped for good, in sentences: what no step can give them any more.

Each stops the feeds that are concerned, and no other. `PartitionFeeds.fail` says so to the jobs agent.
"""

from __future__ import annotations

from tidegate.changefeed.feed import FeedId
from tidegate.errors import FeedError
from tidegate.hlc import Timestamp
from tidegate.processor.feeds import PartitionFeeds
from tidegate.processor.waiting import Mutation, Unreachable
from tidegate.raftlog.entry import RangeId


def fail_held(feeds: PartitionFeeds, held_s: float) -> None:
    """Stop the feeds that wait for their starts, after so many seconds."""
    names = sorted(feeds.registered)
    error = FeedError(
        f"it was held for {held_s:.0f} s, and no start came for {', '.join(names)}: other log partitions "
        "did not answer within that time, because they wait for a schema registry or for "
        "acknowledgements, have much to read first, or have no worker; or no jobs agent was there. The "
        "partition goes on without the feed. See `tidegate status`, and create the feed again once every "
        "partition runs"
    )
    for feed_id in names:
        feeds.fail(feed_id, error)


def fail_table(feeds: PartitionFeeds, table_id: int, error: FeedError) -> None:
    """Stop every feed of a table."""
    for feed in feeds.active:
        if table_id in feed.table_ids:
            feeds.fail(feed.id, error)


def fail_unreachable(feeds: PartitionFeeds, lost: Unreachable) -> None:
    """Stop the feeds whose rows no scan can bring."""
    for feed in feeds.missing(lost.span, lost.high):
        if not lost.reach.includes(feed.start):
            error = FeedError(
                f"rows of range {lost.range_id} above {max(lost.reach.resolved, feed.start)} were not "
                f"seen, and the store has removed versions up to its GC threshold {lost.reach.kept}: "
                "create the feed again"
            )
            feeds.fail(feed.id, error)


def fail_overtaken(
    feeds: PartitionFeeds, feed_id: FeedId, range_id: RangeId, complete_to: Timestamp, threshold: Timestamp
) -> None:
    """Stop a feed that lags by more than the store keeps."""
    error = FeedError(
        f"rows of range {range_id} above {complete_to} were not emitted yet, and the store has removed "
        f"versions up to its GC threshold {threshold}: create the feed again, with a later cursor or an "
        "initial scan"
    )
    feeds.fail(feed_id, error)


def fail_mutated(feeds: PartitionFeeds, mutation: Mutation) -> None:
    """Stop the feeds that watch keys whose rows changed without a record."""
    range_id, raft_index, span, what = mutation
    for feed in feeds.active:
        if feed.watches(span):
            error = FeedError(
                f"range {range_id} changed rows at raft index {raft_index} outside its op log ({what}, "
                f"keys {span.start.hex()} to {span.end.hex()}), so no record says how: create the feed "
                "again"
            )
            feeds.fail(feed.id, error)
