"""Feeds of a span, straight from a log. Each range that overlaps the span has one feed at a time.

The feed of a range begins at the range's Snapshot. It ends with the reason that the store gives to feeds (a
split, a merge, skipped entries ...), and begins anew at the next Snapshot. Nothing is healed: versions in a
hole are missing, and the end of the feed says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidegate.errors import MalformedEntry, RangeError
from tidegate.hlc import ZERO, ClosedTimestamp, ResolvedTimestamp
from tidegate.raftlog.decode import decode_entry, decode_key
from tidegate.raftlog.entry import (
    BROADCAST,
    Command,
    DescriptorUpdate,
    Generation,
    Heartbeat,
    Op,
    RaftIndex,
    RangeEnd,
    RangeId,
    ScanChunk,
    Snapshot,
    SnapshotReason,
    Trigger,
    WriteIntent,
)
from tidegate.rangefeed.event import CheckpointEvent, FeedEvent
from tidegate.rangefeed.feed_end import EndReason, FeedEnd
from tidegate.rangefeed.range_feed import RangeFeed, RangeFeedConfig, WhenFull
from tidegate.rangefeed.registration import FeedRequest, Registration
from tidegate.ranges.range_snapshot import is_chunk_of
from tidegate.spans import EVERYTHING, Span


class SteadyState(NamedTuple):
    """The moment at which a feed of ``span`` has caught up: its resolved timestamp has reached the start."""

    span: Span
    resolved: ResolvedTimestamp


LogEvent: TypeAlias = FeedEvent | SteadyState | FeedEnd


class RangeEvent(NamedTuple):
    """An event, and the range whose log brought it."""

    range_id: RangeId
    event: LogEvent


class LogFeeds:
    """The feeds of ``request`` over the records of one or more log partitions.

    The records of a partition must be given in order. A range whose first record is no Snapshot is followed
    too: its values come at once, its checkpoints from the next Snapshot on.
    """

    def __init__(self, request: FeedRequest) -> None:
        self._request = request
        self._ranges: dict[int, dict[RangeId, _FollowedRange]] = {}

    def read_record(self, partition: int, key: bytes | None, value: bytes | None) -> list[RangeEvent]:
        """Read the next record of ``partition``, and return its events.

        A record that cannot be read ends the feed of the range in its key. If the key names no range it ends
        the feeds of all ranges of the partition.
        """
        try:
            entry = decode_entry(key, value)
        except MalformedEntry as error:
            return self.end_unreadable(partition, key, str(error))
        if isinstance(entry, DescriptorUpdate | ScanChunk):
            return []
        followed = self._range(partition, entry.range_id)
        return [RangeEvent(entry.range_id, event) for event in followed.read_entry(entry)]

    def _range(self, partition: int, range_id: RangeId) -> _FollowedRange:
        ranges = self._ranges.setdefault(partition, {})
        if range_id not in ranges:
            ranges[range_id] = _FollowedRange(self._request)
        return ranges[range_id]

    def end_unreadable(self, partition: int, key: bytes | None, cause: str) -> list[RangeEvent]:
        """End the feeds that a record concerns which cannot be read or followed. Returns the ends."""
        ranges = self._ranges.get(partition, {})
        range_id = decode_key(key)
        if range_id == BROADCAST:
            return []
        hit = ranges if range_id is None else [range_id] if range_id in ranges else []
        end = FeedEnd(EndReason.FAILED, f"a record cannot be read: {cause}")
        return [RangeEvent(each, event) for each in hit for event in ranges[each].break_off(end)]


#: The number of events of one entry that are in memory at a time.
_EVENTS_AT_A_TIME: Final = 1_000
_CONFIG: Final = RangeFeedConfig(
    pending_events_max=2, buffered_events_max=_EVENTS_AT_A_TIME, when_full=WhenFull.REFUSE
)


class _Following(NamedTuple):
    """The present feed of a range, with the range's ``RangeFeed``."""

    feeds: RangeFeed
    feed: Registration


class _FollowedRange:
    """One range: how far its log was read, and its feed if there is one."""

    __slots__ = (
        "_applied",
        "_chunks",
        "_following",
        "_generation",
        "_heartbeat",
        "_is_ours",
        "_is_over",
        "_is_steady",
        "_request",
        "_seen",
    )

    def __init__(self, request: FeedRequest) -> None:
        self._request = request
        self._generation = Generation(0)
        self._applied = RaftIndex(0)
        self._seen = False
        self._following: _Following | None = None
        #: Whether the range is known to overlap the requested span: its Snapshot said so, or a version showed
        #: it.
        self._is_ours = False
        self._is_steady = False
        self._is_over = False
        self._heartbeat: Heartbeat | None = None
        self._chunks: list[Snapshot] = []

    def read_entry(self, entry: Command | Heartbeat | Snapshot | RangeEnd) -> Iterator[LogEvent]:
        """Read the range's next entry, and return its events. No entry after a RangeEnd has events."""
        if self._is_over:
            return iter(())
        if isinstance(entry, Snapshot):
            return self._take_snapshot_chunk(entry)
        self._chunks.clear()  # the chunks of a snapshot stand together
        if isinstance(entry, Command):
            return self._take_command(entry)
        if isinstance(entry, Heartbeat):
            return self._take_heartbeat(entry)
        return self._take_end(entry)

    def break_off(self, end: FeedEnd) -> Iterator[LogEvent]:
        """End the feed. The next one begins at a Snapshot."""
        self._chunks.clear()
        following, self._following = self._following, None
        if following is not None:
            following.feeds.stop(end)
            if self._is_ours:
                yield end

    # ---- entries ----

    def _take_command(self, command: Command) -> Iterator[LogEvent]:
        if not self._seen:
            self._begin_unknown(command)
        if self._following is None or command.raft_index <= self._applied:
            return
        hole = self._hole_before(command)
        if hole is not None:
            yield from self.break_off(hole)
            return
        self._applied = command.raft_index
        if command.ops is None:
            yield from self.break_off(FeedEnd(EndReason.LOGICAL_OPS_MISSING, "a command has no op log"))
        else:
            yield from self._take_ops(command, command.ops)

    def _take_ops(self, command: Command, ops: Sequence[Op]) -> Iterator[LogEvent]:
        yield from self._give_input(lambda feeds: feeds.offer_ops(ops))
        yield from self._close(command.closed)
        yield from self._close_covered()
        end = _end_after(command, self._request.span)
        if end is not None:
            yield from self.break_off(end)

    def _hole_before(self, command: Command) -> FeedEnd | None:
        if command.generation < self._generation:
            what = f"the generation fell from {self._generation} to {command.generation}"
        elif command.generation != self._generation:
            what = f"generation {command.generation} began without its snapshot"
        elif command.raft_index != self._applied + 1:
            what = f"raft indexes {self._applied + 1} to {command.raft_index - 1} are missing"
        else:
            return None
        return FeedEnd(EndReason.RAFT_SNAPSHOT, what)

    def _take_heartbeat(self, heartbeat: Heartbeat) -> Iterator[LogEvent]:
        if self._following is None or heartbeat.generation != self._generation:
            return
        if self._heartbeat is None or heartbeat.covers >= self._heartbeat.covers:
            self._heartbeat = heartbeat
        yield from self._close_covered()

    def _close_covered(self) -> Iterator[LogEvent]:
        heartbeat = self._heartbeat
        if heartbeat is not None and heartbeat.covers <= self._applied:
            self._heartbeat = None
            yield from self._close(heartbeat.closed)

    def _close(self, closed: ClosedTimestamp | None) -> Iterator[LogEvent]:
        if closed is not None:
            yield from self._give_input(lambda feeds: feeds.offer_closed(closed))

    def _take_end(self, end: RangeEnd) -> Iterator[LogEvent]:
        if end.generation >= self._generation:
            self._is_over = True
            detail = f"the range was merged away or removed at index {end.last_index}"
            yield from self.break_off(FeedEnd(EndReason.RANGE_MERGED, detail))

    # ---- snapshots ----

    def _take_snapshot_chunk(self, chunk: Snapshot) -> Iterator[LogEvent]:
        if chunk.chunk == 0 or not is_chunk_of(self._chunks[0] if self._chunks else chunk, chunk):
            self._chunks.clear()
        if chunk.chunk != len(self._chunks):
            return  # the first chunks are lost, or before the place from which the log is read
        self._chunks.append(chunk)
        if len(self._chunks) == chunk.chunks:
            chunks, self._chunks = self._chunks, []
            yield from self._take_snapshot(chunks)

    def _take_snapshot(self, chunks: list[Snapshot]) -> Iterator[LogEvent]:
        head = chunks[0]
        if self._is_known(head):
            return
        following = self._following
        if following is not None and (
            following.feeds.resolver.initialised or head.raft_index > self._applied
        ):
            yield from self.break_off(FeedEnd(_REASONS.get(head.reason, EndReason.RAFT_SNAPSHOT)))
        self._seen, self._heartbeat = True, None
        self._generation, self._applied = head.generation, head.raft_index
        yield from self._begin(head.span, chunks)

    def _is_known(self, head: Snapshot) -> bool:
        """Whether the snapshot has nothing new: it is old, or a periodic one of a range that is in order."""
        if head.generation != self._generation or not self._seen:
            return head.generation < self._generation
        if self._following is not None and self._following.feeds.resolver.initialised:
            return head.raft_index <= self._applied
        return head.raft_index < self._applied

    # ---- the feed ----

    def _begin_unknown(self, command: Command) -> None:
        """Follow a range whose Snapshot was not read, so that its span and its open intents are not known."""
        self._seen = True
        self._generation, self._applied = command.generation, RaftIndex(command.raft_index - 1)
        self._register(EVERYTHING, self._request.span)

    def _begin(self, span: Span, chunks: list[Snapshot]) -> Iterator[LogEvent]:
        self._following = None
        part = span.intersect(self._request.span)
        if part is None:
            return
        self._is_ours = True
        self._register(span, part)
        intents = [
            WriteIntent(intent.txn_id, intent.anchor_key, intent.timestamp, intent.timestamp)
            for chunk in chunks
            for intent in chunk.intents
        ]
        yield from self._give_input(lambda feeds: feeds.initialise(intents))
        yield from self._close(max(chunk.closed for chunk in chunks))

    def _register(self, span: Span, part: Span) -> None:
        feeds = RangeFeed(span, config=_CONFIG)
        feed = feeds.register(self._request._replace(span=part))
        assert feed is not None
        self._following, self._is_steady = _Following(feeds, feed), False

    def _give_input(self, give: Callable[[RangeFeed], bool]) -> Iterator[LogEvent]:
        """Give the range's feeds an input, and yield all events that follow from it."""
        following = self._following
        if following is None:
            return
        try:
            give(following.feeds)
            while events := following.feed.take(_EVENTS_AT_A_TIME):
                for event in events:
                    yield from self._told(event)
                following.feeds.run()
        except RangeError:
            pass  # the end of the feed, which is yielded below, has the cause
        if following.feed.ended is not None:
            self._following = None
            if self._is_ours:
                yield following.feed.ended

    def _told(self, event: FeedEvent) -> Iterator[LogEvent]:
        """Yield the event, but not a checkpoint at zero.

        ``SteadyState`` follows the first checkpoint that has reached the start.
        """
        if not isinstance(event, CheckpointEvent):
            self._is_ours = True
            yield event
        elif event.resolved > ZERO:
            yield event
            if not self._is_steady and event.resolved >= self._request.start:
                self._is_steady = True
                yield SteadyState(*event)


_REASONS: Final = {
    SnapshotReason.SPLIT: EndReason.RANGE_SPLIT,
    SnapshotReason.MERGE: EndReason.RANGE_MERGED,
}


def _end_after(command: Command, span: Span) -> FeedEnd | None:
    return _end_by_change(command, span) or _ENDS_OF_RANGES.get(command.trigger)


_ENDS_OF_RANGES: Final = {
    Trigger.SPLIT: FeedEnd(EndReason.RANGE_SPLIT),
    Trigger.MERGE: FeedEnd(EndReason.RANGE_MERGED),
}


def _end_by_change(command: Command, span: Span) -> FeedEnd | None:
    if not any(span.overlaps(mutated) for mutated in command.mutated_spans((span,))):
        return None
    if command.at_write_timestamp:
        what = f"index {command.raft_index} added a file of versions, which cannot be shown"
        return FeedEnd(EndReason.FAILED, what)
    what = f"index {command.raft_index} changed versions outside of the op log"
    return FeedEnd(EndReason.HISTORY_MUTATED, f"{what} ({command.change.value})")
