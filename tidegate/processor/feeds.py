"""The feeds of one log partition: how it takes them up, and lets go of them (docs/architecture.md#feeds).

    Register   the partition stores the feed with its position X, answers with X and the highest timestamp
               that it has applied, and is *held*: nothing is applied before the feed's start S is known,
               unless the feed begins with a scan or in the past, and is given by scans what passes meanwhile
    Activate   S and the targets are stored; rows above S from X on are emitted
    Remove     the feed is forgotten

While a feed is held the partition waits for all others to answer: a fraction of a second. An engine that has
waited too long gives the registered feeds up: they fail, and whatever comes for them later is answered so. A
message that says nothing new gets the stored answer again.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Iterable, Iterator, Sequence

from tidegate.changefeed.control import (
    Ack,
    Activate,
    Active,
    ControlMessage,
    Failed,
    KnownTable,
    Register,
    Registered,
    Remove,
    Removed,
    read_ack,
    read_control,
)
from tidegate.changefeed.encoder import compile_encoder
from tidegate.changefeed.feed import FeedDefinition, FeedEpoch, FeedId, TableName
from tidegate.changefeed.options import FeedOptions, InitialScan
from tidegate.errors import FeedError, StateError
from tidegate.hlc import MAX, Timestamp
from tidegate.processor import state_pb2 as pb
from tidegate.processor.batch import ActiveFeed, Incident, StateChange, StateTable
from tidegate.processor.emitter import Destination, Emitter
from tidegate.processor.rows import PartitionRows, Starts
from tidegate.processor.state_codec import NOWHERE
from tidegate.processor.stored import pack, unpack
from tidegate.processor.waiting import Mutation, Reach, Unreachable
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.rows import Catalog, TableDescriptor
from tidegate.spans import Span


class FeedStatus(enum.Enum):
    """How far a feed is in this partition."""

    REGISTERED = 1
    ACTIVE = 2
    FAILED = 3


class PartitionFeed:
    """One feed as this partition has taken it up."""

    __slots__ = ("emitter", "epoch", "id", "message", "reason", "registered", "status")

    def __init__(self, message: Register | Activate, registered: Registered | None) -> None:
        self.id: FeedId = message.feed_id
        self.epoch: FeedEpoch = message.definition.epoch
        self.registered = registered
        self.status = FeedStatus.REGISTERED
        self.reason = ""
        self.message = message
        self.emitter: Emitter | None = None

    def activate(self, message: Activate) -> None:
        """Emit rows from here on."""
        self.message = message
        self.status = FeedStatus.ACTIVE
        destinations = {
            target.table_id: Destination(target.topic, target.partitions) for target in message.targets
        }
        self.emitter = Emitter(message.definition.options, message.start, destinations)

    def fail(self, reason: str) -> None:
        """Emit nothing any more."""
        self.status, self.reason, self.emitter = FeedStatus.FAILED, reason, None

    @property
    def start(self) -> Timestamp:
        """It emits rows above this; none while it is unknown."""
        return self.message.start if isinstance(self.message, Activate) else MAX

    @property
    def table_ids(self) -> frozenset[int]:
        """The tables that it emits."""
        if not isinstance(self.message, Activate):
            return frozenset()
        return frozenset(target.table_id for target in self.message.targets)

    @property
    def begins_with_scan(self) -> bool:
        """Whether it emits what there was at its start before anything else."""
        return self.message.definition.options.initial_scan is not InitialScan.NO

    @property
    def scans_only(self) -> bool:
        """Whether it emits nothing but that."""
        return self.message.definition.options.initial_scan is InitialScan.ONLY

    @property
    def can_lag(self) -> bool:
        """Whether it wants versions that ranges had passed when it was activated."""
        return self.begins_with_scan or self.message.definition.options.cursor is not None

    @property
    def shows_previous(self) -> bool:
        """Whether its rows show what they replaced."""
        return self.message.definition.options.needs_previous

    def watches(self, span: Span) -> bool:
        """Whether it emits rows of the span, which has no tenant prefix."""
        return any(span.overlaps(watched) for watched in self.spans)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The keys that it watches."""
        if not isinstance(self.message, Activate):
            return ()
        return tuple(span for target in self.message.targets for span in target.spans)


class PartitionFeeds:
    """All feeds of log partition ``partition``."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._feeds: dict[FeedId, PartitionFeed] = {}
        self._changed: set[FeedId] = set()
        self._acks: list[Ack] = []
        self._incidents: list[tuple[FeedId, str]] = []
        self._refresh()

    def __len__(self) -> int:
        return len(self._feeds)

    def __getitem__(self, feed_id: FeedId) -> PartitionFeed:
        return self._feeds[feed_id]

    # ---- what steps ask ----

    def _refresh(self) -> None:
        """Derive what every step asks from the feeds as they are now."""
        registered = (
            feed.id
            for feed in self._feeds.values()
            if feed.status is FeedStatus.REGISTERED and not feed.can_lag
        )
        #: The feeds that hold the partition until it knows their starts: those that are not given what passes
        #: meanwhile by scans. Plain, so that another thread may look at it.
        self.registered: frozenset[FeedId] = frozenset(registered)
        active = [feed for feed in self._feeds.values() if feed.status is FeedStatus.ACTIVE]
        self.active: Sequence[PartitionFeed] = active
        self.wanted_tables = frozenset[int]().union(*(feed.table_ids for feed in active))
        self.wanted_previous = frozenset[int]().union(
            *(feed.table_ids for feed in active if feed.shows_previous)
        )
        previous = [feed for feed in active if feed.shows_previous]
        self.starts = Starts(_lowest_starts(active), _lowest_starts(previous))
        self.watched_spans: tuple[Span, ...] = tuple({span: None for feed in active for span in feed.spans})

    def definition_of(self, feed_id: FeedId) -> FeedDefinition:
        """The definition of a feed that the partition has taken up."""
        return self._feeds[feed_id].message.definition

    def is_active(self, feed_id: FeedId) -> bool:
        """Whether the feed is emitted, or will be with the next rows."""
        return self._feeds[feed_id].status is FeedStatus.ACTIVE

    def emits(self, feed_id: FeedId) -> bool:
        """The same of any feed: one that was removed is not."""
        return feed_id in self._feeds and self.is_active(feed_id)

    def active_feeds(self, lagging: Container[FeedId]) -> tuple[ActiveFeed, ...]:
        """The feeds that a checkpoint holds for: those that lag are not among them."""
        return tuple(ActiveFeed(feed.id, feed.epoch) for feed in self.active if feed.id not in lagging)

    # ---- control ----

    def take_up(self, message: ControlMessage, offset: Offset, high: Timestamp, rows: PartitionRows) -> bool:
        """Take a message at a batch boundary, the log applied up to ``offset``, versions up to ``high``.

        Returns whether a feed became active.
        """
        match message:
            case Register():
                self._register(message, offset, high, rows)
                return False
            case Activate():
                return self._activate(message, offset)
            case Remove():
                self._remove(message)
                return False

    def fail(self, feed_id: FeedId, error: FeedError) -> None:
        """Stop a feed for good, and say so to the jobs agent and the operator."""
        feed = self._feeds[feed_id]
        feed.fail(str(error))
        self._incidents.append((feed_id, f"feed {feed_id} failed: {error}"))
        self._answer(feed)

    def give_up(self, held_s: float) -> None:
        """Stop the feeds that wait for their starts, after so many seconds."""
        names = sorted(self.registered)
        error = FeedError(
            f"it was held for {held_s:.0f} s, and no start came for {', '.join(names)}: other log partitions "
            "did not answer within that time, because they wait for a schema registry or for "
            "acknowledgements, have much to read first, or have no worker; or no jobs agent was there. The "
            "partition goes on without the feed. See `tidegate status`, and create the feed again once every "
            "partition runs"
        )
        for feed_id in names:
            self.fail(feed_id, error)

    def fail_table(self, table_id: int, error: FeedError) -> None:
        """Stop every feed of a table."""
        for feed in self.active:
            if table_id in feed.table_ids:
                self.fail(feed.id, error)

    def lowest_start(self, span: Span, below: Timestamp, reach: Reach) -> Timestamp | None:
        """See ``tidegate.processor.waiting.Watchers``."""
        missing = (feed.start for feed in self._missing(span, below) if reach.includes(feed.start))
        return min(missing, default=None)

    def want_previous(self, span: Span) -> bool:
        """See ``tidegate.processor.waiting.Watchers``."""
        return any(feed.shows_previous and feed.watches(span) for feed in self.active)

    def begins_with_scan(self, span: Span) -> bool:
        """See ``tidegate.processor.waiting.Watchers``."""
        return any(feed.begins_with_scan and feed.watches(span) for feed in self.active)

    def fail_unreachable(self, lost: Unreachable) -> None:
        """Stop the feeds whose rows no scan can bring."""
        for feed in self._missing(lost.span, lost.high):
            if not lost.reach.includes(feed.start):
                error = FeedError(
                    f"rows of range {lost.range_id} above {max(lost.reach.resolved, feed.start)} were not "
                    f"seen, and the store has removed versions up to its GC threshold {lost.reach.kept}: "
                    "create the feed again"
                )
                self.fail(feed.id, error)

    def fail_overtaken(
        self, feed_id: FeedId, range_id: RangeId, complete_to: Timestamp, threshold: Timestamp
    ) -> None:
        """Stop a feed that lags by more than the store keeps."""
        error = FeedError(
            f"rows of range {range_id} above {complete_to} were not emitted yet, and the store has removed "
            f"versions up to its GC threshold {threshold}: create the feed again, with a later cursor or an "
            "initial scan"
        )
        self.fail(feed_id, error)

    def fail_mutated(self, mutation: Mutation) -> None:
        """Stop the feeds that watch keys whose rows changed without a record."""
        range_id, raft_index, span, what = mutation
        for feed in self.active:
            if feed.watches(span):
                error = FeedError(
                    f"range {range_id} changed rows at raft index {raft_index} outside its op log ({what}, "
                    f"keys {span.start.hex()} to {span.end.hex()}), so no record says how: create the feed "
                    "again"
                )
                self.fail(feed.id, error)

    def _missing(self, span: Span, below: Timestamp) -> Sequence[PartitionFeed]:
        """The active feeds that want rows of the span from below a timestamp."""
        return [feed for feed in self.active if feed.start < below and feed.watches(span)]

    def take_acks(self) -> list[Ack]:
        """The answers since the last call."""
        acks, self._acks = self._acks, []
        return acks

    def take_incidents(self, offset: Offset) -> list[Incident]:
        """The failures since the last call."""
        incidents, self._incidents = self._incidents, []
        return [Incident(self._partition, offset, None, feed_id, cause) for feed_id, cause in incidents]

    def _register(self, message: Register, offset: Offset, high: Timestamp, rows: PartitionRows) -> None:
        known = self._feeds.get(message.feed_id)
        if known is not None and known.epoch >= message.definition.epoch:
            self._answer(known)
            return
        tables = _known_tables(message.definition.tables, rows.catalog)
        answer = Registered(
            message.feed_id,
            message.definition.epoch,
            self._partition,
            offset + 1,
            high,
            tuple(KnownTable(name, table.id) for name, table in tables),
        )
        feed = self._feeds[message.feed_id] = PartitionFeed(message, answer)
        reason = _unsupported(tables, rows, message.definition.options)
        if reason:
            feed.fail(reason)
        self._answer(feed)

    def _activate(self, message: Activate, offset: Offset) -> bool:
        feed = self._feeds.get(message.feed_id)
        if feed is not None and feed.epoch > message.definition.epoch:
            return False
        if feed is None or feed.epoch < message.definition.epoch:
            feed = self._feeds[message.feed_id] = PartitionFeed(message, None)
            if offset != NOWHERE and not feed.can_lag:
                feed.fail(
                    "the partition never registered it, so rows since its start may have passed: "
                    "create the feed again"
                )
        if (error := _passed_rows(feed, message.start)) is not None:
            self.fail(feed.id, error)
            return False
        activated = feed.status is FeedStatus.REGISTERED
        if activated:
            feed.activate(message)
        self._answer(feed)
        return activated

    def _remove(self, message: Remove) -> None:
        feed = self._feeds.get(message.feed_id)
        if feed is not None and feed.epoch <= message.epoch:
            del self._feeds[message.feed_id]
            self._changed.add(message.feed_id)
            self._refresh()
        self._acks.append(Removed(message.feed_id, message.epoch, self._partition))

    def _answer(self, feed: PartitionFeed) -> None:
        """Acknowledge the feed as it is, which is also when its row of state is written."""
        self._changed.add(feed.id)
        self._refresh()
        if feed.status is FeedStatus.ACTIVE:
            self._acks.append(Active(feed.id, feed.epoch, self._partition))
        elif feed.status is FeedStatus.FAILED:
            self._acks.append(Failed(feed.id, feed.epoch, self._partition, feed.reason))
        elif feed.registered is not None:
            self._acks.append(feed.registered)

    # ---- state ----

    def freeze(self) -> Iterator[StateChange]:
        """The rows of state that changed since the last call."""
        for feed_id in sorted(self._changed):
            feed = self._feeds.get(feed_id)
            yield StateChange(StateTable.FEEDS, feed_id.encode(), None if feed is None else _row(feed))
        self._changed = set()

    def restore(self, values: Iterable[bytes]) -> None:
        """Put back what ``freeze`` gave."""
        for value in values:
            feed = _read_row(value)
            self._feeds[feed.id] = feed
        self._refresh()


def _passed_rows(feed: PartitionFeed, start: Timestamp) -> FeedError | None:
    """Why a registered feed cannot begin at ``start``, if rows above it had passed at its registration.

    A start is the highest of what all partitions answered, so that cannot be, unless the partition's state
    was lost after its answer and it registered the feed a second time, further on in the log.
    """
    registered = feed.registered
    if feed.status is not FeedStatus.REGISTERED or registered is None or start >= registered.highest:
        return None
    if feed.can_lag:
        return None  # what has passed above its start is scanned for
    return FeedError(
        f"rows up to {registered.highest} had passed when the partition registered it at offset "
        f"{registered.position}, above the start {start} that was fixed for all partitions: the partition's "
        "state was lost after an earlier answer, and the rows between would be missing. Create the feed again"
    )


def _lowest_starts(feeds: Iterable[PartitionFeed]) -> dict[int, Timestamp]:
    """Per table the lowest start of the feeds on it."""
    lowest: dict[int, Timestamp] = {}
    for feed in feeds:
        for table_id in feed.table_ids:
            lowest[table_id] = min(feed.start, lowest.get(table_id, MAX))
    return lowest


def _known_tables(names: Iterable[TableName], catalog: Catalog) -> list[tuple[TableName, TableDescriptor]]:
    """The tables that have a descriptor here: of several versions the newest, unless it says dropped."""
    newest: dict[int, TableDescriptor] = {}
    for descriptor in catalog.descriptors():
        newest[descriptor.id] = descriptor
    by_name = {TableName.of(table): table for table in newest.values() if not table.dropped}
    return [(name, by_name[name]) for name in names if name in by_name]


def _unsupported(
    tables: Iterable[tuple[TableName, TableDescriptor]], rows: PartitionRows, options: FeedOptions
) -> str:
    """Why rows of the newest versions of the tables could not be read or written; empty when they can."""
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


def _row(feed: PartitionFeed) -> bytes:
    return pack(
        pb.Feed(
            feed_id=feed.id,
            epoch=feed.epoch,
            status=feed.status.value,
            registered=b"" if feed.registered is None else feed.registered.to_bytes(),
            message=feed.message.to_bytes(),
            reason=feed.reason,
        )
    )


def _read_row(value: bytes) -> PartitionFeed:
    row = unpack(pb.Feed, value, "a feed of the partition")
    message = read_control(row.message)
    registered = read_ack(row.registered) if row.registered else None
    if isinstance(message, Remove) or not isinstance(registered, Registered | None):
        raise StateError(f"feed {row.feed_id} is stored with a message that cannot be its own")
    feed = PartitionFeed(message, registered)
    status = FeedStatus(row.status)
    if status is FeedStatus.ACTIVE and isinstance(message, Activate):
        feed.activate(message)
    elif status is FeedStatus.FAILED:
        feed.fail(row.reason)
    return feed
