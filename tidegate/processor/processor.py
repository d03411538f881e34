"""The partition processor: the one step that every engine runs.

    log records --decode--> entries --ranges--> versions --rows--> rows --emitters--> output records
                                  \\--> resolved timestamps --> checkpoint

A processor holds the state of one log partition. ``step`` takes the next batch of its records and returns
what must be made durable; ``control`` takes messages about feeds and ``exchange`` those of other
partitions' ranges, between batches. All are pure: no clock, no randomness, no I/O. What they return as
``changes`` is frozen: later steps do not alter it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tidegate.changefeed.feed import FeedDefinition, FeedId
from tidegate.errors import DescriptorConflict, EncodingError, FeedError, MalformedEntry, StateError
from tidegate.hlc import Timestamp
from tidegate.processor.batch import (
    ControlRecord,
    ExchangeRecord,
    Incident,
    LogRecord,
    PartitionCheckpoint,
    StateChange,
    StateTable,
    StepResult,
)
from tidegate.processor.catch_ups import CatchUpLimits
from tidegate.processor.committed import Delivery
from tidegate.processor.digest import RowDigests
from tidegate.processor.emitter import Emission
from tidegate.processor.feed_control import take_up
from tidegate.processor.feed_failures import (
    fail_held,
    fail_mutated,
    fail_overtaken,
    fail_table,
    fail_unreachable,
)
from tidegate.processor.feeds import PartitionFeeds
from tidegate.processor.journal import Certainty, Journal
from tidegate.processor.partition_feed import PartitionFeed
from tidegate.processor.pushes import Pusher, PushPolicy
from tidegate.processor.ranges import PartitionRanges
from tidegate.processor.restore import RangeRows, require_digests, require_sizes
from tidegate.processor.rows import Decoded, PartitionRows
from tidegate.processor.state_codec import (
    NOWHERE,
    POSITION_KEY,
    Position,
    TableSizes,
    position_row,
    read_position,
)
from tidegate.processor.status import PartitionStatus, RangesIn, StatusReader
from tidegate.raftlog.decode import decode_batch
from tidegate.raftlog.entry import DescriptorUpdate, Entry, Offset, Snapshot
from tidegate.rangefeed.backlog import QueueFactory
from tidegate.rangefeed.handoff import Exchange, HandOff
from tidegate.rangefeed.intent_budget import PartitionSpill
from tidegate.rangefeed.version import Version
from tidegate.spans import Span

#: Entries of backlogs that one step applies.
_DRAIN_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class ProcessorConfig:
    """What an engine may choose; none of it changes what rows come out.

    ``log_id`` and ``control_id`` name the very topics that are read, not just their names; a state that was
    built from others is refused. ``queue`` makes the queues of ranges that fall behind (in memory if absent),
    ``spill`` has room for open transactions beyond memory (all are in memory if absent). ``catch_up`` bounds
    what feeds that lag may take. With ``detachable`` the engine may detach feeds, and says what is committed.
    """

    push: PushPolicy = field(default_factory=PushPolicy)
    log_id: str = ""
    control_id: str = ""
    queue: QueueFactory | None = None
    spill: PartitionSpill | None = None
    catch_up: CatchUpLimits | None = None
    detachable: bool = False


class PartitionProcessor:
    """The state of log partition ``partition`` of ``partitions``, and the steps that move it on."""

    def __init__(self, partition: int, partitions: int, config: ProcessorConfig | None = None) -> None:
        config = config or ProcessorConfig()
        self.partition = partition
        self._position = Position(log_id=config.log_id, control_id=config.control_id)
        #: Up to here the log was read in this run: below the position while ranges that were behind catch up.
        self._read = NOWHERE
        self._rows = PartitionRows()
        self._feeds = PartitionFeeds(partition)
        self._journal = Journal() if config.detachable else None
        self._ranges = PartitionRanges(
            partition,
            partitions,
            self._feeds,
            config.queue,
            config.spill,
            config.catch_up,
            self._journal,
        )
        self._serial = 0
        self._digests = RowDigests()
        self._watched = self._feeds.active
        self._pusher = Pusher(config.push)
        self._reader = StatusReader(self._ranges, self._pusher)

    @classmethod
    def restore(
        cls,
        partition: int,
        partitions: int,
        config: ProcessorConfig,
        rows: Iterable[tuple[StateTable, bytes, bytes]],
    ) -> PartitionProcessor:
        """The processor whose changes, folded by key, are ``rows``.

        Raises ``StateError`` for rows that cannot be read, that do not belong together, or that were built
        from other topics.
        """
        processor = cls(partition, partitions, config)
        processor._restore(rows, config)
        return processor

    # ---- position ----

    @property
    def next_offset(self) -> Offset | None:
        """Where to read on in the log; ``None`` without a state: from offset 0."""
        return None if self._position.offset == NOWHERE else Offset(self._read + 1)

    @property
    def next_control_offset(self) -> Offset:
        """Where to read on in the control topic."""
        return Offset(self._position.control_offset + 1)

    @property
    def next_hand_off(self) -> Offset:
        """Where to read on in the hand-off topic."""
        return self._position.next_hand_off

    @property
    def ready(self) -> bool:
        """Whether a step without records would go on applying what ranges were behind with."""
        return self._ranges.ready and not self.held

    @property
    def held(self) -> bool:
        """Whether a feed waits for its start: no batch may be stepped until a control message releases it."""
        return bool(self._feeds.registered)

    @property
    def held_for(self) -> frozenset[FeedId]:
        """The feeds that wait for their starts. Any thread may ask."""
        return self._feeds.registered

    # ---- steps ----

    def step(self, records: Sequence[LogRecord], end: int | None = None) -> StepResult:
        """Apply the next batch of the log. Records at or below the position are passed over.

        ``end`` is the offset behind the batch where that is not the last record's: a transactional writer
        leaves offsets that no record has.
        Raises ``StateError`` while the processor is held.
        """
        if self.held:
            raise StateError(
                f"log partition {self.partition} is held for a new feed's start and cannot take records"
            )
        self._look_at_feeds()
        position = self._position
        due = [record for record in records if self._counts(record)]
        result = StepResult(None)
        entries = decode_batch((record.key, record.value) for record in due)
        for record, entry in zip(due, entries, strict=True):
            self._apply(record, entry, result)
        if records:
            self._advance(Offset(records[-1].offset))
            position.log_time_ms = max(position.log_time_ms, *(record.timestamp for record in records))
        if end is not None:
            self._advance(Offset(end - 1))
        self._settle(result)
        self._emit(result)
        self._ask(result)
        result.requests += self._pusher.due(self._ranges.touched, position.log_time_ms)
        return self._finish(result, everything=False)

    def exchange(self, records: Sequence[ExchangeRecord]) -> StepResult:
        """Take up claims and hand-offs, at a batch boundary. Those taken up before are passed over.

        What they let go on is applied by the next steps.
        """
        self._look_at_feeds()
        for record in records:
            if record.offset >= self._position.next_hand_off:
                self._ranges.parking.exchanges.take(record.message)
                self._position.next_hand_off = Offset(record.offset + 1)
        self._ranges.parking.settle()
        result = StepResult(None)
        self._ask(result)
        return self._finish(result, everything=False)

    def control(self, records: Sequence[ControlRecord]) -> StepResult:
        """Take up messages about feeds, at a batch boundary. Those taken up before are passed over."""
        result = StepResult(None)
        activated = False
        for record in records:
            if record.offset <= self._position.control_offset:
                continue
            is_new = take_up(
                self._feeds, record.message, self._position.offset, self._position.high, self._rows
            )
            self._look_at_feeds()
            if is_new:
                activated = True
                self._ranges.begin(self._feeds[record.message.feed_id])
            self._position.control_offset = record.offset
        return self._finish(result, everything=activated)

    def give_up(self, held_s: float) -> StepResult:
        """Fail the feeds that hold the partition, for ``held_s`` seconds now: a step like any other.

        What comes for them later, their starts among it, is answered by ``Failed``.
        """
        fail_held(self._feeds, held_s)
        return self._finish(StepResult(None), everything=False)

    def missing_below(self, log_start: Offset) -> StepResult:
        """The log begins at ``log_start``: when entries that were to be read are gone, that is a hole."""
        expected = self._read + 1
        if log_start > expected:
            cause = (
                f"the log begins at offset {log_start}, but offset {expected} was to be read next: retention "
                "removed what was not read yet"
            )
            self._ranges.entries.cut(log_start, cause, passed=log_start <= self._position.offset + 1)
            self._advance(Offset(log_start - 1))
        return self._finish(StepResult(None), everything=False)

    def definition_of(self, feed_id: FeedId) -> FeedDefinition:
        """The definition of a feed that the last step emitted rows for."""
        return self._feeds.definition_of(feed_id)

    def is_active(self, feed_id: FeedId) -> bool:
        """Whether a feed that the last step emitted rows for is still active behind them."""
        return self._feeds.is_active(feed_id)

    def refuse(self, feed_id: FeedId, error: FeedError, result: StepResult) -> None:
        """Fail a feed whose rows in ``result`` cannot be written, and take them and their promise out of it.

        ``result`` must be the last step's, and nothing of it be durable: a checkpoint that names the feed
        without its rows would lie.
        """
        result.outputs.pop(feed_id, None)
        result.unframed.pop(feed_id, None)
        _withdraw(feed_id, result)
        self._feeds.fail(feed_id, error)
        result.changes += self._freeze()
        result.acks += self._feeds.take_acks()
        result.incidents += self._feeds.take_incidents(self._position.offset)

    # ---- feeds whose sinks do not follow (docs/catch-up.md) ----

    def committed(self, serial: int) -> None:
        """The steps up to this one are durable, and their rows acknowledged, but for detached feeds."""
        if self._journal is not None:
            self._journal.committed(serial)

    def detach(self, feed_id: FeedId, uncommitted: Sequence[StepResult]) -> StepResult:
        """Let no batch wait for the feed's rows: from the first of ``uncommitted`` on they may be lost (K2).

        ``uncommitted`` are the results of all steps since ``committed``, in order; their checkpoints and
        hand-offs are changed, so none of them may be on its way. Rows of the feed go on coming out as long as
        `is_spooling`. Of a feed that has failed or was removed since there is nothing to be missed.
        """
        certain = self._ranges.detach(self._feeds[feed_id]) if self._feeds.emits(feed_id) else None
        for result in uncommitted:
            _withdraw(feed_id, result)
            if certain is not None:
                result.exchanges = [self._amended(feed_id, certain, message) for message in result.exchanges]
        return self._finish(StepResult(None), everything=False)

    def is_spooling(self, feed_id: FeedId) -> bool:
        """Whether a detached feed may be attached once all of its rows are acknowledged."""
        return self._ranges.lags.is_spooling(feed_id)

    def stall(self, feed_id: FeedId) -> StepResult:
        """Let no rows of a detached feed come out any more (K5)."""
        self._ranges.lags.stall(feed_id)
        return self._finish(StepResult(None), everything=False)

    def attach(self, feed_id: FeedId) -> StepResult:
        """Everything of a feed that `is_spooling` was acknowledged (K4). Raises ``StateError`` for others."""
        if not self.is_spooling(feed_id):
            raise StateError(f"feed {feed_id} lacks rows in log partition {self.partition}")
        self._ranges.lags.attach(feed_id)
        return self._finish(StepResult(None), everything=True)

    def resume(self, feed_id: FeedId) -> StepResult:
        """The sink of a detached feed takes rows: scan for what it lacks (K6)."""
        self._look_at_feeds()
        self._ranges.lags.resume(feed_id)
        result = StepResult(None)
        self._ask(result)
        return self._finish(result, everything=False)

    def _amended(self, feed_id: FeedId, certain: Certainty, message: Exchange) -> Exchange:
        """A hand-off that says what a feed lacks that was detached since."""
        if not isinstance(message, HandOff):
            return message
        return self._ranges.lags.amended(message, feed_id, certain)

    def full_checkpoint(self) -> PartitionCheckpoint:
        """The checkpoint of all ranges, for a frontier that starts anew."""
        return self._checkpoint(everything=True)

    # ---- what an operator sees ----

    def status(self) -> PartitionStatus:
        """Counts, quarantines and parked ranges as of the last step."""
        return self._reader.partition(self._position.offset, self._position.log_time_ms)

    def ranges_in(self, span: Span) -> RangesIn:
        """The ranges that have keys of ``span``, which has no tenant prefix, as of the last step."""
        return self._reader.ranges_in(span)

    # ---- inside a step ----

    def _apply(self, record: LogRecord, entry: Entry | MalformedEntry, result: StepResult) -> None:
        offset = Offset(record.offset)
        if isinstance(entry, MalformedEntry):
            self._ranges.entries.refuse(record, entry, passed=offset <= self._position.offset)
        elif isinstance(entry, DescriptorUpdate):
            self._learn((entry,), offset, result)
        else:
            if isinstance(entry, Snapshot):
                self._learn(entry.descriptors, offset, result)
                self._raise_high(entry.high)
            self._ranges.entries.take(record, entry)
            self._fail_feeds(result)

    def _counts(self, record: LogRecord) -> bool:
        """Whether a record is new to the partition, or was passed by it and not by its range."""
        if record.offset > self._position.offset:
            return True
        return record.offset > self._read and self._ranges.is_behind(record.key, record.offset)

    def _advance(self, offset: Offset) -> None:
        """Everything up to ``offset`` was read."""
        behind = self._read < self._position.offset
        self._read = max(self._read, offset)
        self._position.offset = max(self._position.offset, offset)
        if behind and self._read == self._position.offset:
            self._ranges.catch_up()

    def _settle(self, result: StepResult) -> None:
        """Answer claims, and apply what ranges are behind with: a bounded number of entries."""
        self._look_at_feeds()
        room = _DRAIN_MAX
        while True:
            taken = self._ranges.entries.drain(room)
            self._fail_feeds(result)
            room -= taken
            if not self._ranges.parking.settle() and not (taken and room):
                return

    def _look_at_feeds(self) -> None:
        """Nothing is waited for, or kept, for the sake of feeds that are gone."""
        if self._feeds.active is not self._watched:
            self._watched = self._feeds.active
            self._ranges.parking.release_unneeded()
            self._ranges.lags.look_at_feeds()

    def _ask(self, result: StepResult) -> None:
        """Ask for scans; what no scan can bring is told in the step that begins it."""
        result.requests += self._ranges.due(self._position.offset, self._position.log_time_ms)
        self._fail_feeds(result)

    def _fail_feeds(self, result: StepResult) -> None:
        """Rows that no feed can be given any more, whatever is scanned."""
        for lost in self._ranges.parking.take_unreachable():
            self._emit(result)
            fail_unreachable(self._feeds, lost)
        for mutation in self._ranges.entries.take_mutations():
            self._emit(result)
            fail_mutated(self._feeds, mutation)
        for overtaken in self._ranges.catch_ups.take_overtaken():
            self._emit(result)
            fail_overtaken(self._feeds, *overtaken)

    def _learn(self, updates: Iterable[DescriptorUpdate], offset: Offset, result: StepResult) -> None:
        """Take descriptor versions; rows before a new one are read first, as the log has them."""
        for update in updates:
            if self._rows.is_new(update):
                self._emit(result)
            try:
                self._rows.learn(update)
            except (DescriptorConflict, EncodingError) as error:
                self._emit(result)
                fail_table(self._feeds, update.table_id, error)
                result.incidents.append(Incident(self.partition, offset, None, None, str(error)))

    def _emit(self, result: StepResult) -> None:
        """Let the rows of all versions so far come out, before anything else takes effect."""
        shared, parted = self._ranges.take_committed()
        rows: list[Decoded] = []
        if shared:
            self._raise_high(max(version.timestamp for version in shared))
            rows = self._emit_shared(shared, parted, result)
        if any(parted.values()):
            known = dict(zip(map(id, shared), rows, strict=False))
            for feed in self._feeds.active:
                for delivery in parted.get(feed.id, ()):
                    self._deliver(feed, delivery, known, result)

    def _emit_shared(
        self, versions: list[Version], parted: Container[FeedId], result: StepResult
    ) -> list[Decoded]:
        """Returns the rows of the versions; none when no feed is given them."""
        feeds = self._feeds
        receivers = [feed for feed in feeds.active if feed.id not in parted and not feed.scans_only]
        if not receivers:
            return []
        rows = self._rows.decode(versions, feeds.wanted_tables, feeds.wanted_previous, feeds.starts)
        for feed in receivers:
            self._emit_rows(feed, versions, rows, result)
        return rows

    def _deliver(
        self, feed: PartitionFeed, delivery: Delivery, known: Mapping[int, Decoded], result: StepResult
    ) -> None:
        """What a feed is given alone; ``known`` are rows by their versions' identity, read for others."""
        versions, scanned_at = delivery
        if feed.scans_only and scanned_at is None:
            return
        previous = feed.table_ids if feed.shows_previous else frozenset[int]()
        new = versions if scanned_at is not None else [each for each in versions if id(each) not in known]
        read = iter(self._rows.decode(new, feed.table_ids, previous, scanned_at=scanned_at))
        rows = (
            [*read]
            if len(new) == len(versions)
            else [known[id(each)] if id(each) in known else next(read) for each in versions]
        )
        self._emit_rows(feed, versions, rows, result, scanned=scanned_at is not None)

    def _emit_rows(
        self,
        feed: PartitionFeed,
        versions: list[Version],
        rows: list[Decoded],
        result: StepResult,
        *,
        scanned: bool = False,
    ) -> None:
        if feed.emitter is None:
            return
        into = Emission(result.outputs.setdefault(feed.id, []), result.unframed.setdefault(feed.id, []))
        error = feed.emitter.emit(versions, rows, into, scanned=scanned)
        if error is not None:
            self._feeds.fail(feed.id, error)

    def _raise_high(self, timestamp: Timestamp) -> None:
        if timestamp > self._position.high:
            self._position.high = timestamp

    def _finish(self, result: StepResult, *, everything: bool) -> StepResult:
        """Freeze what changed, and add what the step has to report."""
        position = self._position
        caught_up = self._ranges.settle_lags()
        checkpoint = self._checkpoint(everything=everything or caught_up)
        if checkpoint.ranges:
            result.checkpoint = checkpoint
        result.changes = self._freeze()
        result.exchanges = self._ranges.parking.exchanges.take_out()
        result.acks = self._feeds.take_acks()
        result.incidents += self._ranges.quarantines.take_out() + self._feeds.take_incidents(position.offset)
        result.offset = None if position.offset == NOWHERE else position.offset
        self._serial += 1
        result.serial = self._serial
        if self._journal is not None:
            self._journal.end_step(self._serial)
        return result

    def _checkpoint(self, *, everything: bool) -> PartitionCheckpoint:
        ranges = self._ranges.checkpoints(self._feeds.watched_spans, everything=everything)
        feeds = self._feeds.active_feeds(self._ranges.lags.feeds)
        return PartitionCheckpoint(self.partition, self._position.offset, feeds, tuple(ranges))

    def _freeze(self) -> list[StateChange]:
        changes = self._ranges.freeze(self._position.offset, self._read)
        changes.extend(self._rows.freeze())
        changes.extend(self._feeds.freeze())
        self._digests.take(changes)
        self._position.sizes = self._sizes()
        self._position.digests = self._digests.digests(self._ranges.table.intents_hash)
        changes.append(position_row(self._position))
        return changes

    def _sizes(self) -> TableSizes:
        return TableSizes(len(self._ranges), len(self._rows), len(self._feeds))

    def _restore(self, rows: Iterable[tuple[StateTable, bytes, bytes]], config: ProcessorConfig) -> None:
        restoring, stored = RangeRows(self._ranges), None
        others: dict[StateTable, list[tuple[bytes, bytes]]] = defaultdict(list)
        for table, key, value in rows:
            if table is StateTable.INTENTS:
                restoring.take_intent(key, value)
                continue
            if key == POSITION_KEY:
                stored = read_position(value)
                continue
            self._digests.take((StateChange(table, key, value),))
            if table is StateTable.RANGES:
                restoring.take_range(key, value)
            else:
                others[table].append((key, value))
        if stored is not None:
            self._position = _position_for(config, self.partition, stored)
        restoring.finish(self._position.offset)
        behind = self._ranges.lowest_behind
        self._read = self._position.offset if behind is None else Offset(behind - 1)
        self._rows.restore(others[StateTable.DESCRIPTORS])
        self._feeds.restore(value for _, value in others[StateTable.FEEDS])
        self._ranges.lags.restore()
        require_sizes(self.partition, stored, self._sizes())
        require_digests(self.partition, stored, self._digests.digests(self._ranges.table.intents_hash))


def _withdraw(feed_id: FeedId, result: StepResult) -> None:
    """Let the checkpoint of a result say nothing of a feed."""
    if result.checkpoint is not None:
        kept = tuple(active for active in result.checkpoint.feeds if active.feed_id != feed_id)
        result.checkpoint = replace(result.checkpoint, feeds=kept)


def _position_for(config: ProcessorConfig, partition: int, stored: Position) -> Position:
    """The stored position, with the ids of its topics. ``StateError`` when it belongs to others."""
    for name, then, now in (
        ("log", stored.log_id, config.log_id),
        ("control", stored.control_id, config.control_id),
    ):
        if then and now and then != now:
            raise StateError(
                f"The state of log partition {partition} belongs to another {name} topic (its id was {then}, "
                f"the topic of that name has {now}): it was deleted and created again, or another one is "
                "configured. Bring the old topic back, or start with another application id"
            )
    return replace(
        stored, log_id=stored.log_id or config.log_id, control_id=stored.control_id or config.control_id
    )
