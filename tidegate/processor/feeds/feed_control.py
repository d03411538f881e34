"""Takes up the messages with which feeds begin and end in a log partition (docs/architecture.md#feeds).

    Register   the partition stores the feed with its position X, and answers with X and the highest timestamp
               that it has applied. It is *held* from here on: it applies nothing until the feed's start S is
               known. A feed that begins with a scan or in the past does not hold it: scans will bring what
               passes meanwhile
    Activate   S and the targets are stored; rows above S from X on are emitted
    Remove     the feed is forgotten

A partition is held until all other partitions have answered, which takes a fraction of a second. When that
takes too long the engine gives the registered feeds up: they fail, and later messages about them are answered
by ``Failed``. A message that says nothing new gets the stored answer again.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.lifecycle.control import (
    Activate,
    ControlMessage,
    KnownTable,
    Register,
    Registered,
    Remove,
)
from tidegate.errors import FeedError
from tidegate.hlc import Timestamp
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.keys_read import keys_read, keys_scanned_since
from tidegate.processor.feeds.partition_feed import FeedStatus, PartitionFeed
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.state.state_codec import NOWHERE
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.ranges.mutated_keys import MutatedKeys
from tidegate.rows import Catalog, TableDescriptor


def take_up(
    feeds: PartitionFeeds,
    message: ControlMessage,
    offset: Offset,
    high: Timestamp,
    rows: PartitionRows,
    mutated: Iterable[tuple[RangeId, MutatedKeys]],
) -> bool:
    """Take up a message at a batch boundary. Returns whether a feed became active.

    The partition has applied the log up to ``offset``; ``high`` is the highest timestamp of any version in
    it. ``mutated`` has the keys that were changed outside the op log so far.
    """
    match message:
        case Register():
            _register(feeds, message, offset, high, rows)
            return False
        case Activate():
            return _activate(feeds, message, offset, rows, mutated)
        case Remove():
            feeds.remove(message.feed_id, message.epoch, high)
            return False


def refuse_message(feeds: PartitionFeeds, message: ControlMessage, cause: str) -> None:
    """Fail the feed of a message that cannot be taken up.

    Two messages are passed over: a ``Remove``, because the jobs agent repeats it, and a message of an earlier
    epoch.
    """
    known = feeds.get(message.feed_id)
    if isinstance(message, Remove) or (known is not None and known.epoch > message.definition.epoch):
        return
    feeds.refuse(PartitionFeed(message, None), FeedError(cause))


def _register(
    feeds: PartitionFeeds, message: Register, offset: Offset, high: Timestamp, rows: PartitionRows
) -> None:
    known = feeds.get(message.feed_id)
    if known is not None and known.epoch >= message.definition.epoch:
        feeds.answer(known)
        return
    tables = known_tables(message.definition.tables, rows.catalog)
    answer = Registered(
        message.feed_id,
        message.definition.epoch,
        feeds.partition,
        offset + 1,
        high,
        tuple(KnownTable(name, table.id) for name, table in tables),
        () if len(tables) == len(message.definition.tables) else tuple(rows.unfit_tables()),
    )
    feed = PartitionFeed(message, answer)
    reason = unsupported(tables, rows, message.definition.options)
    if reason:
        feed.fail(reason)
    feeds.answer(feed)


def _activate(
    feeds: PartitionFeeds,
    message: Activate,
    offset: Offset,
    rows: PartitionRows,
    mutated: Iterable[tuple[RangeId, MutatedKeys]],
) -> bool:
    feed = feeds.get(message.feed_id)
    if feed is not None and feed.epoch > message.definition.epoch:
        return False
    if feed is None or feed.epoch < message.definition.epoch:
        feed = PartitionFeed(message, None)
        if offset != NOWHERE and not feed.can_miss_versions:
            feed.fail(
                "the partition never registered it, so rows since its start may have passed: "
                "create the feed again"
            )
    activated = feed.status is FeedStatus.REGISTERED
    if activated:
        error = (
            _unfit(message, rows)
            or _passed_rows(feed, message.start)
            or _changed_before(message, rows, mutated)
        )
        if error is not None:
            feeds.refuse(feed, error)
            return False
        feed.activate(message)
    feeds.answer(feed)
    return activated


def _unfit(message: Activate, rows: PartitionRows) -> FeedError | None:
    """Return why a table of the feed cannot be read: a version of it was refused since the registration."""
    reasons = (rows.unfit(target.table_id) for target in message.targets)
    return next((FeedError(reason) for reason in reasons if reason), None)


def _passed_rows(feed: PartitionFeed, start: Timestamp) -> FeedError | None:
    """Return why a registered feed cannot begin at ``start``: rows above it had passed at its registration.

    The start is the highest timestamp in the answers of all partitions. So this happens only if the
    partition's state was lost after its answer, and it registered the feed again, further on in the log.
    """
    registered = feed.registered
    if registered is None or start >= registered.highest:
        return None
    if feed.can_miss_versions:
        return None  # scans bring what has passed above its start
    return FeedError(
        f"rows up to {registered.highest} had passed when the partition registered it at offset "
        f"{registered.position}, above the start {start} that was fixed for all partitions: the partition's "
        "state was lost after an earlier answer, and the rows between would be missing. Create the feed again"
    )


def _changed_before(
    message: Activate, rows: PartitionRows, mutated: Iterable[tuple[RangeId, MutatedKeys]]
) -> FeedError | None:
    """Return why a feed cannot go on from an earlier epoch: rows that this epoch wrote may have changed.

    A change outside the op log at or below the start has failed the earlier epoch. The earlier epoch may not
    have heard of a change above the start (docs/protocols/hand-over.md, step H6).
    """
    if not message.definition.may_go_on:
        return None
    start, targets = message.start, message.targets
    for range_id, (span, time, last, first) in mutated:
        if time <= start:
            continue
        concerned = [
            *keys_read(targets, rows, max(first, min(start, last)), last),
            *keys_scanned_since(targets, rows, first, last, start),
        ]
        if any(span.overlaps(keys) for keys in concerned):
            return FeedError(
                f"range {range_id} changed rows outside its op log (keys {span.start.hex()} to "
                f"{span.end.hex()}) above {start}, up to which an earlier epoch of the feed had "
                "written them, and before this log partition took the feed up: no record says which rows "
                "are others now. Create the feed again"
            )
    return None


def known_tables(names: Iterable[TableName], catalog: Catalog) -> list[tuple[TableName, TableDescriptor]]:
    """Return the named tables that the catalog has, each with its newest version.

    Dropped tables are left out.
    """
    by_name = {
        TableName(head.name, head.schema, head.database): head.id
        for head in catalog.newest()
        if not head.dropped
    }
    return [(name, catalog.newest_of(by_name[name])) for name in names if name in by_name]


def unsupported(
    tables: Iterable[tuple[TableName, TableDescriptor]], rows: PartitionRows, options: FeedOptions
) -> str:
    """Return why rows of the tables' newest versions cannot be read or written; empty when they can."""
    try:
        for _, table in tables:
            unfit = rows.unfit(table.id)
            if unfit:
                return unfit
            rows.catalog.latest(table.id)
            compile_encoder(table, options)
    except FeedError as error:
        return str(error)
    return ""
