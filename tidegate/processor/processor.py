"""The partition processor: the one step that every engine runs.

    log records --decode--> entries --ranges--> versions --rows--> rows --emitters--> output records
                                  \\--> resolved timestamps --> checkpoint

A processor holds the state of one log partition. ``step`` takes the next batch of its records, and returns
what must be made durable. Between batches ``control`` takes messages about feeds, and ``exchange`` takes
messages of ranges in other partitions. All of these are pure: no clock, no randomness, no I/O. What they
return as ``changes`` is frozen: later steps do not alter it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.errors import FeedError, RowRefused, StateError
from tidegate.processor.batch import (
    ControlRecord,
    ExchangeRecord,
    Incident,
    LogRecord,
    PartitionCheckpoint,
    StateTable,
    StepResult,
)
from tidegate.processor.breaking import AnyRecord, broke
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.containment import Input, InputPlace, Refused
from tidegate.processor.feed_failures import fail_held
from tidegate.processor.feeds.feed_control import refuse_message, take_up
from tidegate.processor.feeds.journal import Certainty
from tidegate.processor.log_step import LogStep
from tidegate.processor.plain_records import PlainRecords
from tidegate.processor.processor_state import ProcessorState
from tidegate.processor.push_policy import Pusher
from tidegate.processor.state.state_codec import NOWHERE
from tidegate.processor.status import PartitionStatus, RangesIn, StatusReader
from tidegate.processor.step_size import sizes_before
from tidegate.raftlog.entry import Offset, RangeEnd, ScanChunk, Snapshot
from tidegate.ranges.handoff import Exchange, HandOff, receiver_of
from tidegate.spans import Span

#: The log clock is told of each range that begins or ends, however old the times of these records are.
_ALWAYS_HEARD: Final = (RangeEnd, Snapshot)
#: More bytes of rows than any step has.
_NO_LIMIT: Final = 2**63 - 1


class PartitionProcessor:
    """The state of log partition ``partition`` of ``partitions``, and the steps that move it on."""

    def __init__(self, partition: int, partitions: int, config: ProcessorConfig | None = None) -> None:
        config = config or ProcessorConfig()
        self.partition = partition
        self._state = state = ProcessorState(partition, partitions, config)
        self._feeds = state.feeds
        self._ranges = state.ranges
        self._entries = state.ranges.entries.reader
        self._step = LogStep(state)
        self._plain = None if state.kernel is None else PlainRecords(state, state.kernel)
        self._serial = 0
        self._pusher = Pusher(config.push, config.bounds)
        self._reader = StatusReader(state.ranges, self._pusher)
        self._refused: Refused = {}

    @classmethod
    def restore(
        cls,
        partition: int,
        partitions: int,
        config: ProcessorConfig,
        rows: Iterable[tuple[StateTable, bytes, bytes]],
    ) -> PartitionProcessor:
        """Return a processor with the state that ``rows`` hold: all stored changes, the last one of each key.

        Raises ``StateError`` for rows that cannot be read, that do not belong together, or that were built
        from other topics.
        """
        processor = cls(partition, partitions, config)
        processor._state.restore(rows, config)
        return processor

    def pass_over(self, refused: Refused) -> None:
        """Treat these records as unreadable: each has broken a step of an earlier processor (U5)."""
        self._refused = self._ranges.entries.reader.refused = refused

    # ---- position ----

    @property
    def next_offset(self) -> Offset | None:
        """The offset at which to read on in the log; ``None`` without a state: then read from offset 0."""
        return None if self._state.position.offset == NOWHERE else Offset(self._state.read + 1)

    @property
    def to_read_again(self) -> range:
        """The offsets that were passed before a restart, and that have to be read again for ranges behind."""
        return range(self._state.read + 1, self._state.position.offset + 1)

    @property
    def next_control_offset(self) -> Offset:
        """The offset at which to read on in the control topic."""
        return Offset(self._state.position.control_offset + 1)

    @property
    def next_hand_off(self) -> Offset:
        """The offset at which to read on in the hand-off topic."""
        return self._state.position.next_hand_off

    @property
    def ready(self) -> bool:
        """Whether a step without records would apply entries of backlogs."""
        return self._ranges.ready and not self.held

    @property
    def held(self) -> bool:
        """Whether a feed waits for its start. No batch may be stepped until a control message ends that."""
        return bool(self._feeds.registered)

    @property
    def held_for(self) -> frozenset[FeedId]:
        """The feeds that hold the partition until their starts are known. Any thread may read it."""
        return self._feeds.registered

    # ---- steps ----

    def step(self, records: Sequence[LogRecord], end: int | None = None) -> StepResult:
        """Apply the next batch of the log. Records at or below the position are passed over.

        ``end`` is the offset after the batch. It is given where that is not one above the last record's: a
        transactional writer leaves offsets that no record has. For example, a batch with records at 5 and 6,
        and a commit marker at 7, has the ``end`` 8.

        Raises ``StateError`` while the processor is held. Raises ``StepBroke`` for an exception that nobody
        foresaw: the processor is of no use any more then.
        """
        return self._step_up_to(_NO_LIMIT, records, end)

    def step_some(self, records: Sequence[LogRecord], end: int | None = None) -> StepResult:
        """Apply as many of the records as make about ``RowLimits.step_bytes`` of rows.

        ``taken`` of the result says how many. The others are to be given to the next step, with the same
        ``end``. Backlogs are applied as far as there is room for their rows. No record is taken if backlogs
        come first, because those that can be applied have grown. A chunk of a scan may be taken in parts, by
        several steps: it is not counted in ``taken`` before the last of them. Raises as ``step`` does.
        """
        return self._step_up_to(self._state.row_limits.step_bytes, records, end)

    def _step_up_to(self, row_bytes: int, records: Sequence[LogRecord], end: int | None) -> StepResult:
        """Apply portions of the records until the step has ``row_bytes`` bytes of rows."""
        if self.held:
            raise StateError(
                f"log partition {self.partition} is held for a new feed's start and cannot take records"
            )
        self._step.look_at_feeds()
        if records and row_bytes < _NO_LIMIT and self._ranges.backlogs_come_first:
            records, end = (), None
        due = [record for record in records if self._state.counts(record)]
        result, pace, sizes, taken = StepResult(None), self._state.pace, sizes_before(due), 0
        while taken < len(due) and result.row_bytes < row_bytes:
            end_of_portion, before = pace.portion_end(sizes, taken), result.row_bytes
            if self._entries.is_amid(due[taken]):
                end_of_portion = taken + 1  # the rest of a chunk comes in parts too
            portion = due[taken:end_of_portion]
            with _breaking(Input.LOG, portion):
                has_more = self._take_portion(portion, row_bytes - before, result)
                self._step.emit(result)
            if has_more:
                continue  # the same record is taken again, for the rest of its rows
            pace.note(log_bytes := sizes[end_of_portion] - sizes[taken], result.row_bytes - before)
            if self._state.kernel is not None:
                self._state.kernel.credit.earn(log_bytes)
            taken = end_of_portion
        if taken < len(due):
            records, end = records[: records.index(due[taken])], None
        with _breaking(Input.LOG, due[: max(taken, 1)]):
            return self._conclude(records, end, result, row_bytes)

    def _take_portion(self, portion: Sequence[LogRecord], room: int, result: StepResult) -> bool:
        """Take a portion. Returns whether it is a chunk of a scan with more rows than there is ``room`` for.

        A chunk comes in parts only if it is alone: other records of the portion must not be taken again.
        """
        if len(portion) > 1:
            self._apply_due(portion, result)
            return False
        is_amid = self._entries.is_amid(portion[0])
        with self._step.chunk_in_parts(room, is_amid=is_amid):
            if is_amid:
                self._apply(portion, result)  # a kernel has refused it already
            else:
                self._apply_due(portion, result)
        return self._step.has_more

    def _apply_due(self, due: Sequence[LogRecord], result: StepResult) -> None:
        if self._plain is None:
            self._apply(due, result)
        else:
            self._plain.apply_records(due, self._step.receivers, lambda records: self._apply(records, result))

    def _apply(self, due: Sequence[LogRecord], result: StepResult) -> None:
        """Apply records to the state, one after the other, and tell the log clock of new ones."""
        entries = self._entries.read(due)
        clock, passed = self._ranges.table.clock, self._state.position.offset
        for record, entry in zip(due, entries, strict=True):
            try:
                if isinstance(entry, ScanChunk):
                    self._apply_chunk(record, entry, result)
                elif record.offset > passed and (
                    clock.wants(record.timestamp) or isinstance(entry, _ALWAYS_HEARD)
                ):
                    closed = self._step.closed_before(entry)
                    self._step.apply(record, entry, result)
                    self._step.hear(record, entry, closed)
                else:
                    self._step.apply(record, entry, result)
            except Exception as error:
                raise broke(error, Input.LOG, (record,)) from error

    def _apply_chunk(self, record: LogRecord, chunk: ScanChunk, result: StepResult) -> None:
        """Apply a chunk of a scan. The clock is told once, with its last part: a chunk closes nothing."""
        self._step.apply(record, chunk, result)
        clock = self._ranges.table.clock
        if self._step.has_more or record.offset <= self._state.position.offset:
            return
        if clock.wants(record.timestamp):
            self._step.hear(record, chunk, self._step.closed_before(chunk))

    def _conclude(
        self,
        records: Sequence[LogRecord],
        end: int | None,
        result: StepResult,
        row_bytes: int,
    ) -> StepResult:
        """Move the position on, apply backlogs, and collect the rows and the requests of the step.

        Backlogs are applied while the step has fewer than ``row_bytes`` of rows.
        """
        result.taken = len(records)
        if records:
            self._state.advance(Offset(records[-1].offset))
        if end is not None:
            self._state.advance(Offset(end - 1))
        self._step.settle(result, row_bytes)
        self._step.emit(result)
        self._step.ask(result)
        result.requests += self._pusher.due(self._ranges.touched, self._ranges.table.clock)
        return self._finish(result, everything=False)

    def exchange(self, records: Sequence[ExchangeRecord]) -> StepResult:
        """Take up claims and hand-offs, at a batch boundary. Those taken up before are passed over.

        The next steps apply the backlogs of ranges that go on by this. Raises ``StepBroke`` as ``step`` does.
        """
        with _breaking(Input.HAND_OFFS, records):
            self._step.look_at_feeds()
            result = StepResult(None)
            for record in records:
                if record.offset >= self._state.position.next_hand_off:
                    self._take_exchange(record, result)
                    self._state.position.next_hand_off = Offset(record.offset + 1)
            self._ranges.parking.settle()
            self._step.ask(result)
            return self._finish(result, everything=False)

    def _take_exchange(self, record: ExchangeRecord, result: StepResult) -> None:
        place = InputPlace(Input.HAND_OFFS, record.offset)
        with _breaking(Input.HAND_OFFS, (record,)):
            if place not in self._refused:
                self._ranges.parking.exchanges.receive(record.message)
                return
        cause = f"a claim or a hand-off at offset {record.offset} was passed over: {self._refused[place]}"
        range_id = receiver_of(record.message)
        result.incidents.append(Incident(self.partition, self._state.position.offset, range_id, None, cause))

    def control(self, records: Sequence[ControlRecord]) -> StepResult:
        """Take up messages about feeds, at a batch boundary. Those taken up before are passed over.

        Raises ``StepBroke`` as ``step`` does.
        """
        with _breaking(Input.CONTROL, records):
            activated, position = False, self._state.position
            for record in records:
                if record.offset > position.control_offset:
                    activated |= self._take_control(record)
                    position.control_offset = record.offset
            return self._finish(StepResult(None), everything=activated)

    def _take_control(self, record: ControlRecord) -> bool:
        """Take up one message about a feed. Returns whether the feed became active."""
        message, position = record.message, self._state.position
        cause = self._refused.get(InputPlace(Input.CONTROL, record.offset))
        with _breaking(Input.CONTROL, (record,)):
            if cause is not None:
                refuse_message(self._feeds, message, cause)
                return False
            is_new = take_up(
                self._feeds,
                message,
                position.offset,
                position.high,
                self._state.rows,
                self._ranges.mutated(),
            )
            self._step.look_at_feeds()
            if is_new:
                self._ranges.begin(self._feeds[message.feed_id])
            return is_new

    def give_up(self, held_s: float | None) -> StepResult:
        """Fail the feeds that hold the partition, which has been held for ``held_s`` seconds.

        An engine that never waits for a start gives ``None``. This is a step like any other. Later messages
        about these feeds, their starts too, are answered by ``Failed``.
        """
        fail_held(self._feeds, held_s)
        return self._finish(StepResult(None), everything=False)

    def missing_below(self, log_start: Offset) -> StepResult:
        """Take in that the log begins at ``log_start``: entries below it that were not read are a hole.

        A range that another has taken over may end by that: no record of it may come any more. All else that
        follows from the hole is left to the next step, where the records after the hole come first
        (docs/protocols/healing.md).
        """
        expected = self._state.read + 1
        if log_start > expected:
            cause = (
                f"the log begins at offset {log_start}, but offset {expected} was to be read next: retention "
                "removed what was not read yet"
            )
            self._ranges.entries.cut(log_start, cause, passed=log_start <= self._state.position.offset + 1)
            self._state.advance(Offset(log_start - 1))
            self._ranges.parking.exchanges.end_taken_over()
        return self._finish(StepResult(None), everything=False)

    def definition_of(self, feed_id: FeedId) -> FeedDefinition:
        """Return the definition of a feed for which the last step emitted rows."""
        return self._feeds.definition_of(feed_id)

    def is_active(self, feed_id: FeedId) -> bool:
        """Whether a feed for which the last step emitted rows is still active after them."""
        return self._feeds.is_active(feed_id)

    def refuse(self, feed_id: FeedId, error: FeedError, result: StepResult) -> None:
        """Fail a feed whose rows in ``result`` cannot be written, and take the feed out of ``result``.

        ``result`` loses its rows, and its checkpoint and hand-offs do not vouch for the feed any more: a
        checkpoint that names the feed without its rows would lie. ``result`` must be the last step's, and
        nothing of it may be durable yet.
        """
        self._leave_out(feed_id, result)
        self._feeds.fail(feed_id, error)
        result.exchanges = [self._feeds.tell_failures(each) for each in result.exchanges]
        self._complete(result)

    def forget(self, feed_id: FeedId, result: StepResult) -> None:
        """Forget a feed that a waiting ``Remove`` names, and take it out of ``result`` as ``refuse`` does.

        It has not failed: its next epoch goes on above its last marker, and all its rows in ``result`` are
        above that. No other partition has to be told. The feed's markers were fenced before the ``Remove``
        was sent (docs/protocols/ends-of-feeds.md), and what ranges have promised in its epoch counts for no
        later one (``told_name``).
        """
        epoch = self._feeds.definition_of(feed_id).epoch
        self._leave_out(feed_id, result)
        self._feeds.remove(feed_id, epoch, self._state.position.high)
        self._complete(result)

    def fail_delivery(
        self, feed_id: FeedId, refusal: RowRefused, uncommitted: Sequence[StepResult]
    ) -> StepResult:
        """Fail a feed, because its sink will never take one of its rows (docs/protocols/refused-rows.md, step
        R2).

        ``uncommitted`` means the same as for ``detach``, and has the batch of that row. No checkpoint in it
        names the feed afterwards. These results have to become durable together with this step. If the feed
        has failed or was removed before, only these results are changed.
        """
        if self._feeds.is_active(feed_id):
            self._feeds.fail(feed_id, refusal)
        for result in uncommitted:
            _withdraw(feed_id, result)
            result.exchanges = [self._feeds.tell_failures(message) for message in result.exchanges]
        return self._finish(StepResult(None), everything=False)

    # ---- feeds whose sinks do not keep up (docs/protocols/slow-sinks.md) ----

    @property
    def detached(self) -> frozenset[FeedId]:
        """The detached feeds: no batch waits for their rows."""
        return self._ranges.detached.feeds

    def committed(self, serial: int) -> None:
        """Note that the steps up to this one are durable, and all their rows acknowledged.

        Rows of detached feeds may still be unacknowledged.
        """
        if self._state.journal is not None:
            self._state.journal.committed(serial)

    def detach(self, feed_id: FeedId, uncommitted: Sequence[StepResult]) -> StepResult:
        """Detach a feed (K2), so that no batch waits for its rows.

        ``uncommitted`` has the results of all steps since ``committed``, in order. The feed's rows from the
        first of them on may be lost. The checkpoints and hand-offs of these results are changed, so none of
        them may be on its way to Kafka. Rows of the feed still come out as long as it `is_spooling`. A feed
        that has failed or was removed since gets no gaps, and is taken out of these checkpoints all the same.
        """
        certain = self._ranges.detach(self._feeds[feed_id]) if self._feeds.is_active(feed_id) else None
        for result in uncommitted:
            _withdraw(feed_id, result)
            if certain is None:
                result.exchanges = [self._feeds.tell_failures(message) for message in result.exchanges]
            else:
                result.exchanges = [self._amended(certain, message) for message in result.exchanges]
        return self._finish(StepResult(None), everything=False)

    def is_spooling(self, feed_id: FeedId) -> bool:
        """Whether steps still give all rows of a detached feed (K3).

        The feed may be attached once these rows are acknowledged.
        """
        return self._ranges.detached.is_spooling(feed_id)

    def stall(self, feed_id: FeedId) -> StepResult:
        """Give a detached feed no rows any more: it waits for a scan (K5)."""
        self._ranges.detached.stall(feed_id)
        return self._finish(StepResult(None), everything=False)

    def attach(self, feed_id: FeedId) -> StepResult:
        """Attach a feed that `is_spooling`: all its rows were acknowledged (K4).

        Raises ``StateError`` for any other feed.
        """
        if not self.is_spooling(feed_id):
            raise StateError(f"feed {feed_id} lacks rows in log partition {self.partition}")
        self._ranges.detached.attach(feed_id)
        return self._finish(StepResult(None), everything=True)

    def resume(self, feed_id: FeedId) -> StepResult:
        """Resume a detached feed, whose sink takes rows again: scan for its missing versions (K6)."""
        self._step.look_at_feeds()
        self._ranges.detached.resume(feed_id)
        result = StepResult(None)
        self._step.ask(result)
        return self._finish(result, everything=False)

    def _amended(self, certain: Certainty, message: Exchange) -> Exchange:
        """Return the message. If it is a hand-off, it gets the gaps that the detached feed has now."""
        if not isinstance(message, HandOff):
            return message
        return self._ranges.detached.amended(message, certain)

    def full_checkpoint(self) -> PartitionCheckpoint:
        """Return the checkpoint of all ranges, for a frontier that starts anew."""
        return self._checkpoint(everything=True)

    # ---- what an operator sees ----

    def status(self) -> PartitionStatus:
        """Return counts, quarantines and parked ranges as of the last step."""
        return self._reader.partition(self._state.position.offset)

    def ranges_in(self, span: Span) -> RangesIn:
        """Return the ranges that have keys of ``span`` after the last step. ``span`` has no tenant prefix."""
        return self._reader.ranges_in(span)

    # ---- inside a step ----

    def _leave_out(self, feed_id: FeedId, result: StepResult) -> None:
        """Take a feed's rows out of a result, and its name out of the checkpoint."""
        result.outputs.pop(feed_id, None)
        result.unframed.pop(feed_id, None)
        _withdraw(feed_id, result)

    def _complete(self, result: StepResult) -> None:
        """Add to a changed result the rows of state, the answers and the incidents of the change."""
        result.changes += self._state.freeze()
        result.acks += self._feeds.take_acks()
        result.incidents += self._feeds.take_incidents(self._state.position.offset)

    def _finish(self, result: StepResult, *, everything: bool) -> StepResult:
        """Freeze what changed, and add the checkpoint, the messages and the incidents of the step."""
        position = self._state.position
        caught_up = self._ranges.settle_gaps()
        checkpoint = self._checkpoint(everything=everything or caught_up)
        if checkpoint.ranges or checkpoint.ended:
            result.checkpoint = checkpoint
        result.changes = self._state.freeze()
        result.exchanges = [
            self._feeds.tell_failures(each) for each in self._ranges.parking.exchanges.take_out()
        ]
        result.acks = self._feeds.take_acks()
        result.incidents += self._ranges.quarantines.take_out() + self._feeds.take_incidents(position.offset)
        result.keep_aside(self._ranges.entries.reader.take_broken())
        result.offset = None if position.offset == NOWHERE else position.offset
        self._serial += 1
        result.serial = self._serial
        if self._state.journal is not None:
            self._state.journal.end_step(self._serial)
        return result

    def _checkpoint(self, *, everything: bool) -> PartitionCheckpoint:
        ranges = self._ranges.checkpoints(self._feeds.watched_spans, everything=everything)
        feeds = self._feeds.active_feeds(self._ranges.gaps.feeds)
        clock, ended = self._ranges.table.clock, tuple(self._ranges.ended())
        return PartitionCheckpoint(
            self.partition,
            self._state.position.offset,
            feeds,
            tuple(ranges),
            clock.time_ms,
            ended,
            clock.elapsed_ms,
        )


@contextmanager
def _breaking(input_: Input, records: Sequence[AnyRecord]) -> Iterator[None]:
    """Turn an exception that nobody foresaw into ``StepBroke``: one of the records has brought it about."""
    try:
        yield
    except Exception as error:
        if not records:
            raise
        raise broke(error, input_, records) from error


def _withdraw(feed_id: FeedId, result: StepResult) -> None:
    """Take a feed out of the checkpoint of a result."""
    if result.checkpoint is not None:
        kept = tuple(active for active in result.checkpoint.feeds if active.feed_id != feed_id)
        result.checkpoint = replace(result.checkpoint, feeds=kept)
