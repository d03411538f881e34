"""Fails feeds of a log partition when no step can give them all their rows any more. A failed feed stays
failed.

Each function fails the feeds that are concerned and no other, with a sentence that says why.
`PartitionFeeds.fail` tells the jobs agent.
"""

from __future__ import annotations

from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import FeedError
from tidegate.hlc import Timestamp
from tidegate.processor.feeds.changes_outside_log import HiddenMutation, Mutation, Untold
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.journal import as_it_is
from tidegate.processor.feeds.keys_read import keys_read, keys_scanned_since
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.range_waits import Unreachable
from tidegate.processor.processor_state import ProcessorState
from tidegate.raftlog.entry import RangeId
from tidegate.rows.stored_descriptor import DescriptorHead
from tidegate.rows.table_key import without_tenant


def fail_held(feeds: PartitionFeeds, held_s: float | None) -> None:
    """Fail the feeds that wait for their starts, after ``held_s`` seconds.

    ``None`` is for an engine that never waits: its next records are there, and the starts are not.
    """
    names = sorted(feeds.registered)
    if held_s is None:
        cause = (
            f"no start came for {', '.join(names)} before the next records of the log: the query could not "
            "prepare the feed, and the lines of its log say why. The partition goes on without the feed. "
            "Create the feed again once the cause is gone"
        )
    else:
        cause = (
            f"it was held for {held_s:.0f} s, and no start came for {', '.join(names)}: other log partitions "
            "did not answer within that time, because they wait for a schema registry or for "
            "acknowledgements, have much to read first, or have no worker; or no jobs agent was there. The "
            "partition goes on without the feed. See `tidegate status`, and create the feed again once every "
            "partition runs"
        )
    for feed_id in names:
        feeds.fail(feed_id, FeedError(cause))


def fail_table(feeds: PartitionFeeds, table_id: int, error: FeedError) -> None:
    """Fail every feed of a table."""
    if table_id not in feeds.wanted_tables:  # a source may repeat thousands of tables that no feed emits
        return
    for feed in feeds.active:
        if table_id in feed.table_ids:
            feeds.fail(feed.id, error)


def fail_dropped(feeds: PartitionFeeds, table: DescriptorHead) -> None:
    """Fail every feed of a table if this version says that the table is dropped: no op deletes its rows."""
    if table.dropped:
        error = FeedError(
            f"table {table.name!r} was dropped at {table.modified}: its rows stand in the output without a "
            "deletion. Create a feed without it"
        )
        fail_table(feeds, table.id, error)


def fail_unreachable(feeds: PartitionFeeds, lost: Unreachable) -> None:
    """Fail the feeds to which the scan cannot bring all their missing versions."""
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
    """Fail a feed, because the store has removed some of the versions that it misses."""
    error = FeedError(
        f"rows of range {range_id} above {complete_to} were not emitted yet, and the store has removed "
        f"versions up to its GC threshold {threshold}: create the feed again, with a later cursor or an "
        "initial scan"
    )
    feeds.fail(feed_id, error)


def fail_mutated(state: ProcessorState, mutation: Mutation) -> None:
    """Fail the feeds that read rows from keys that a command changed outside the op log.

    The keys of an index count if it was primary at a timestamp of the changed versions. Timestamps up to
    which the feed surely has every row are left out, except the highest one. A feed that began with a scan
    was shown versions from before its start as well, from the index that was primary at its start. If a
    feed goes on, nobody knows when its first epoch started. So each index that was primary since the change
    counts.
    """
    start, end = (key.hex() for key in mutation.span)
    for feed in state.feeds.active:
        first = max(mutation.first, _complete_to(state, feed, mutation))
        keys = [*keys_read(feed.targets, state.rows, min(first, mutation.last), mutation.last)]
        if feed.begins_with_scan and mutation.first < mutation.last < feed.start:
            keys += keys_read(feed.targets, state.rows, feed.start, feed.start)
        if feed.goes_on:
            keys += keys_scanned_since(feed.targets, state.rows, mutation.first, mutation.last, feed.start)
        if any(mutation.span.overlaps(span) for span in keys):
            error = FeedError(
                f"range {mutation.range_id} changed rows at raft index {mutation.raft_index} outside its op "
                f"log ({mutation.what}, keys {start} to {end}), so no record says how: create the feed again"
            )
            state.feeds.fail(feed.id, error)


def _complete_to(state: ProcessorState, feed: PartitionFeed, mutation: Mutation) -> Timestamp:
    """Return the timestamp up to which the feed surely has every row of the changed keys: its start at least.

    If the feed is detached, a scan gives it the rows of uncommitted steps again. That scan does not find rows
    that the command has removed. So the timestamp is that from before these steps.
    """
    now = state.ranges.table.states.get(mutation.range_id)
    if now is None:
        return feed.start
    then = as_it_is(now) if state.journal is None else state.journal.earlier((now,))[mutation.range_id]
    had = None if then.span is None else without_tenant(then.span).intersect(mutation.span)
    if had != mutation.span or feed.id in then.gaps or feed.id in now.gaps:
        return feed.start
    return max(feed.start, min(then.resolved, mutation.resolved))


def fail_hidden(state: ProcessorState, hidden: HiddenMutation) -> None:
    """Fail the feeds that may have wrong rows.

    An entry that was lost or could not be applied may have changed their rows outside the op log.
    """
    range_id, raft_index, span, time, high = hidden
    where = f"raft index {raft_index}" if raft_index else "a range that it came from"
    for feed in state.feeds.missing(span, time):
        reads = any(span.overlaps(keys) for keys in keys_read(feed.targets, state.rows, feed.start, time))
        if reads and (feed.begins_with_scan or feed.goes_on or feed.start < high):
            error = FeedError(
                f"range {range_id} changed rows outside its op log at {time} ({where}), in entries that were "
                f"missing or could not be applied: any of its keys {span.start.hex()} to {span.end.hex()} "
                "may have other rows than the feed was given. Create the feed again"
            )
            state.feeds.fail(feed.id, error)


def untold_mutations(untold: Untold) -> str:
    """Return the sentence about a Snapshot that does not tell of mutations, with what its source must do."""
    return (
        f"range {untold.range_id} goes on after entries that were missing or could not be read, and its "
        "Snapshot does not tell of the last history mutation (`last_mutation`): had such an entry changed "
        "rows outside the op log, feeds would lack them and their markers would not show it. Let the source "
        "write that field (docs/log-contract.md#data-that-changes-outside-the-op-log). This is said once "
        "until the partition is taken up anew"
    )
