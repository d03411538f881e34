"""What one log partition does in a round (docs/protocols/spark-rounds.md, steps T1 to T6).

    T1  load the state as of the last round, unless this Python worker has it; remove files of older states
    T2  take up messages about feeds, and other partitions' claims and hand-offs
    T3  step the records, one Arrow batch after the other, and the backlog of ranges
    T4  produce the rows, and wait until every one is acknowledged, or its feed is detached (S1)
    T5  store the changes of the state, under a name of the round and this attempt
    T6  answer: checkpoints, claims and hand-offs, acknowledgements, requests, incidents

A task of Spark has one partition or several, one behind the other. A task that runs again, or twice at the
same time, begins with the same states, is told the same, and reads the same records, so it writes exact
copies of the same rows. It may detach other feeds. So each attempt stores files of its own, which its answers
name.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.access.header_secrets import HeaderSecrets
from tidegate.access.secret_store import SecretStore
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import read_control
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.errors import QueryEnded, RowRefused, SecretMissing, StateMismatch, TidegateError, TopologyError
from tidegate.processor.batch import (
    ControlRecord,
    ExchangeRecord,
    LogRecord,
    OutputRecord,
    StateTable,
    StepResult,
)
from tidegate.processor.checkpoint import encode_checkpoint
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.containment import Caution, Input, StepBroke, feed_error
from tidegate.processor.feeds.framing import frame, schemas_of
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.exchange_codec import decode_exchange
from tidegate.processor.status import PartitionStatus
from tidegate.raftlog.entry import Offset
from tidegate.ranges.gap import told_name
from tidegate.spark.changefeed.answers import Answer, RoundAnswers, as_arrow
from tidegate.spark.changefeed.registry_ids import schema_ids
from tidegate.spark.changefeed.rounds import Instructions, Round, RoundId
from tidegate.spark.changefeed.row_producer import FeedRefused
from tidegate.spark.changefeed.row_sinks import RowSinks
from tidegate.spark.platform.faults import fault_to_bytes
from tidegate.spark.platform.file_systems import opened
from tidegate.spark.platform.python_worker import settle_process
from tidegate.spark.platform.state_files import LoadedRows, StateFiles, apply_changes
from tidegate.spark.platform.store_access import StoreAccess
from tidegate.spark.platform.task_clock import TaskClock
from tidegate.verify import TopicPartition

#: The columns of the log's records in a task.
TASK_COLUMNS: Final = ("partition", "offset", "timestamp_ms", "key", "value")
_RECORDS_AGAIN: Final = 10_000
_FEW_CHANGES: Final = 1_000
#: Behind so many deltas a base is written, so that few files are loaded and older ones can be removed.
_MOST_DELTAS: Final = 50
#: Files of older states that a round removes at most. A round writes one, so their number falls.
_REMOVED_AT_ONCE: Final = 50
_STATUS_S: Final = 5.0
#: A round that may detach feeds waits for acknowledgements after so many steps.
_KEPT_STEPS: Final = 100

_log = logging.getLogger("tidegate.spark")


@dataclass(frozen=True, slots=True)
class Query:
    """The settings that all rounds of a query share.

    They travel to the tasks, with the secrets of ``connection`` in them. ``id`` is the id of this run of the
    query: no other run may use what Python workers keep. ``root`` is the directory of its state, a path or
    URI. With ``whole_checkpoints_only`` no step answers a checkpoint, only a round that asks for whole ones;
    a batch of a whole log would answer many that nobody reads. ``sink_stall_s`` is how long a cluster other
    than the query's own may acknowledge nothing before its feeds are detached; without it such a cluster is
    waited for without limit. ``access`` says how the file system of ``root`` lets us in.
    """

    id: str
    connection: KafkaConnection
    log: str
    partitions: int
    root: str
    config: ProcessorConfig
    whole_checkpoints_only: bool = False
    sink_stall_s: float | None = None
    access: StoreAccess = field(default_factory=StoreAccess.of_environment)
    tasks: int = 0


class LogEntryRecord(NamedTuple):
    """A record of the log, as ``PartitionProcessor.step`` takes it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


@dataclass(slots=True)
class _Held:
    """A partition's state as a Python worker keeps it between rounds.

    ``may_have_old`` tells that files older than the state's base may be there.
    """

    head: str
    processor: PartitionProcessor
    state: LoadedRows
    may_have_old: bool
    status_at: float = 0.0
    used_at: float = 0.0


#: The partitions that this process keeps, by query and partition. It runs one task at a time.
_held: dict[tuple[str, int], _Held] = {}
#: How long a partition is kept without a round here; another Python worker may have its rounds by then.
_KEPT_S: Final = 600.0


def _forget_others(query_id: str, now_s: float) -> None:
    """Free the partitions of other queries, and those that had no round here for ``_KEPT_S`` seconds.

    An application runs one query at a time, and each survey of a backfill is a query of its own. A freed
    partition is loaded from its files again when it has another round here.
    """
    for address, held in list(_held.items()):
        if address[0] != query_id or now_s - held.used_at > _KEPT_S:
            del _held[address]


class PartitionTask:
    """Runs round ``round_`` for log partition ``partition``.

    ``head`` names the file with the state of the partition. Without a file the state is empty.
    """

    def __init__(self, query: Query, round_: Round, partition: int, head: str, clock: TaskClock) -> None:
        self.clock = clock
        self._query = query
        self._round = round_
        self._partition = partition
        filesystem, root = opened(query.root, query.access)
        self._files = StateFiles(filesystem, root, partition)
        self._held = self._load(head)
        self._remove_old()
        self._processor = self._held.processor
        self._caution = round_.cautions.get(partition, Caution())
        self._processor.pass_over(self._caution.refused)
        self._changes: dict[tuple[StateTable, bytes], bytes | None] = {}
        self._answers = RoundAnswers(partition, whole_checkpoints_only=query.whole_checkpoints_only)
        self._left: set[FeedId] = set()  # feeds that this round has detached
        self._sinks = RowSinks(query.connection, query.sink_stall_s, round_.clusters)
        self._everything = False
        self._rows = self._records = 0
        self.clock.lap("load")

    def tell(self, instructions: Instructions) -> None:
        """Do the rest of step T1, and step T2."""
        self._fail_refused()
        self._look_at_pauses()
        if instructions.everything or self._processor.to_read_again:
            self._take(self._processor.missing_below(Offset(self._log_start())))
        for records in _read_again(self._query, self._partition, self._processor.to_read_again):
            self.clock.lap("load")
            self._step(records)
        if instructions.controls:
            told = [
                ControlRecord(Offset(each.offset), read_control(each.message))
                for each in instructions.controls
            ]
            for controls in self._caution.steps(Input.CONTROL, told):
                self._take(self._processor.control(controls))
            self._fail_refused()
            self._look_at_pauses()
        if instructions.exchanges:
            came = [
                ExchangeRecord(Offset(each.offset), decode_exchange(each.message))
                for each in instructions.exchanges
            ]
            for exchanges in self._caution.steps(Input.HAND_OFFS, came):
                self._take(self._processor.exchange(exchanges))
        self._go_on()
        self._everything = instructions.everything
        self._settle()

    def step(self, records: list[LogRecord]) -> None:
        """Step the records, and produce their rows (step T3, and the beginning of T4).

        Records that retention removed unread are a hole, as in the worker.
        """
        self._records += len(records)
        expected = self._processor.next_offset or 0
        if records[-1].offset + 1 - expected == len(records):
            self._step(records)
        else:
            self._step_over_gaps(records)
        self._go_on()
        self._settle()

    def finish(self) -> list[Answer]:
        """Wait for the rows, store the state, and return the answers (steps T4 to T6).

        Raises ``FeedRefused``, and then nothing of the round is stored.
        """
        self._acknowledge()
        if self._everything:
            self._answers.say("checkpoint", encode_checkpoint(self._processor.full_checkpoint()))
        name = self._store()
        self._answers.say("head", name.encode())
        self.clock.lap("store")
        self._answers.say("figures", json.dumps(self._figures()).encode())
        return self._answers.said

    def close(self) -> None:
        """Give up the rows of a task that has failed: those that are not acknowledged."""
        self._sinks.close()

    def _acknowledge(self) -> None:
        """Do the end of step T4, for the rows so far."""
        for feed_id in self._sinks.acknowledge():
            self._leave_behind(feed_id)
        self.clock.lap("wait")
        self._let_go()

    def _figures(self) -> dict[str, object]:
        figures: dict[str, object] = {
            "rows": self._rows,
            "records": self._records,
            "next_offset": self._processor.next_offset or 0,
            "seconds": self.clock.seconds,
            "cpu_s": self.clock.cpu_s,
        }
        # the status looks at every range
        if self._answers.tell_news or time.monotonic() >= self._held.status_at:
            self._held.status_at = time.monotonic() + _STATUS_S
            figures["status"] = _status(self._processor.status())
        return figures

    def _step_over_gaps(self, records: list[LogRecord]) -> None:
        """Step records among which offsets are missing.

        Offsets without a record may be those of transaction markers. Below the log's first offset they may be
        records that are lost, which are a hole.
        """
        log_start, first = self._log_start(), 0
        expected = self._processor.next_offset or 0
        for index, record in enumerate(records):
            if expected < min(record.offset, log_start):
                self._step(records[first:index])
                self._take(self._processor.missing_below(Offset(min(record.offset, log_start))))
                first = index
            expected = max(expected, record.offset + 1)
        self._step(records[first:])

    def _step(self, records: Sequence[LogRecord]) -> None:
        for some in self._caution.steps(Input.LOG, records):
            self._take(self._processor.step(some))

    def _log_start(self) -> int:
        """Return the first offset that the partition has now."""
        place = TopicPartition(self._query.log, self._partition)
        return Cluster(self._query.connection).bounds([place])[place].low

    def _load(self, head: str) -> _Held:
        """Return the partition's state: from this process, or from its file (step T1)."""
        query, address = self._query, (self._query.id, self._partition)
        _forget_others(query.id, time.monotonic())
        held = _held.pop(address, None)  # put back once the round is done: a failed task keeps nothing
        if held is not None and held.head == head and head:
            return held
        if not head:
            processor = PartitionProcessor(self._partition, query.partitions, query.config)
            return _Held("", processor, LoadedRows({}, "", 0, 0), may_have_old=False)
        state = self._files.load(head)
        rows = ((table, key, value) for (table, key), value in state.rows.items())
        try:
            processor = PartitionProcessor.restore(self._partition, query.partitions, query.config, rows)
        except StateMismatch as mismatch:
            raise self._files.refused(head, mismatch) from None
        return _Held(head, processor, state, may_have_old=True)

    def _remove_old(self) -> None:
        """Remove some files that no kept account reaches ("Old states" in docs/protocols/spark-rounds.md)."""
        held = self._held
        if not held.may_have_old or not self._base_is_kept_ones():
            return
        try:
            held.may_have_old = self._files.remove_before(held.state.base, _REMOVED_AT_ONCE)
        except OSError as error:
            held.may_have_old = False
            _log.warning(
                "partition %d: files of old states cannot be removed (%s). The query goes on. Let its user "
                "delete files in the checkpoint directory.",
                self._partition,
                error,
            )

    def _base_is_kept_ones(self) -> bool:
        """Return whether the states of both kept accounts begin at the base of this one.

        The ledger keeps the accounts of the two batches before.
        """
        older = self._round.id.batch - 2
        return older >= 0 and self._held.state.base < RoundId(older + 1, 0).name

    def _go_on(self) -> None:
        while self._processor.ready:
            self._take(self._processor.step(()))

    def _take(self, result: StepResult) -> None:
        self.clock.lap("step")
        for feed_id in [feed_id for feed_id, rows in result.unframed.items() if rows]:
            self._frame(feed_id, result)
        for table, key, value in result.changes:
            self._changes[table, key] = value
        outputs, result.outputs, result.changes = result.outputs, {}, []
        self._answers.keep(result)
        self.clock.lap("step")
        for feed_id, rows in outputs.items():
            if rows and feed_id not in self._left:
                self._send(feed_id, rows)
        self.clock.lap("produce")

    def _send(self, feed_id: FeedId, rows: Sequence[OutputRecord]) -> None:
        definition = self._processor.definition_of(feed_id)
        name = told_name(feed_id, definition.accepted_epoch)
        try:
            rows = HeaderSecrets(definition, SecretStore.of_environment()).into(rows)
            left = self._sinks.send(feed_id, definition.sink, rows, name)
        except SecretMissing as missing:
            left = self._sinks.leave(feed_id, missing)
        for detached in left:
            self._leave_behind(detached)
        if feed_id not in left:
            self._rows += len(rows)

    def _leave_behind(self, feed_id: FeedId) -> None:
        """Detach a feed whose rows are not acknowledged (step S1).

        A feed that has failed in this round is detached too. The checkpoints of steps before its failure name
        it, and the detachment takes it out of them.
        """
        self._left.add(feed_id)
        if self._processor.is_active(feed_id):
            self._answers.say("left_behind", feed_id.encode())
        self._pause(feed_id)

    def _fail_refused(self) -> None:
        """Fail the feeds whose rows were refused in an earlier attempt (step S6).

        This attempt emits no row of such a feed, so no row is refused again.
        """
        for feed_id, reason in self._round.refused.get(self._partition, {}).items():
            if self._processor.is_active(feed_id):
                self._take(self._processor.fail_delivery(feed_id, RowRefused(reason), ()))

    def _look_at_pauses(self) -> None:
        """Resume feeds whose pause is over (step S4), and detach those that pause and are live here (S2)."""
        detached, paused = self._processor.detached, self._round.paused | self._left
        for feed_id in sorted(detached - paused):
            self._take(self._processor.resume(feed_id))
        for feed_id in sorted(paused - detached):
            if self._processor.is_active(feed_id):
                self._pause(feed_id)

    def _pause(self, feed_id: FeedId) -> None:
        """Detach the feed: it is given no rows of the round, and misses all of its versions."""
        self._take(self._processor.detach(feed_id, self._answers.steps))
        self._take(self._processor.stall(feed_id))

    def _settle(self) -> None:
        """Answer the steps so far if nothing can change their results any more.

        Otherwise wait for acknowledgements when many steps are kept, so that memory is bounded.
        """
        if not self._sinks.may_stall:
            self._let_go()
        elif len(self._answers.steps) > _KEPT_STEPS:
            self._acknowledge()

    def _let_go(self) -> None:
        if steps := self._answers.steps:
            self._processor.committed(steps[-1].serial)
        self._answers.let_go()

    def _frame(self, feed_id: FeedId, result: StepResult) -> None:
        """Put schema ids into the feed's rows. A schema that is refused fails the feed.

        A registry that does not answer fails the task, which runs again.
        """
        rows = result.unframed.pop(feed_id)
        url = self._processor.definition_of(feed_id).options.confluent_schema_registry
        try:
            ids = schema_ids(self._query.connection.destinations, url, schemas_of(rows))
        except Exception as refusal:
            self._processor.refuse(feed_id, feed_error(refusal), result)
        else:
            result.records_of(feed_id).extend(frame(rows, ids))

    def _store(self) -> str:
        state = self._held.state
        # another attempt may have detached other feeds
        name = f"{self._round.id.name}-{uuid.uuid4().hex[:8]}"
        apply_changes(state.rows, self._changes)
        changed = state.changed + len(self._changes)
        many = changed > max(_FEW_CHANGES, len(state.rows)) or state.deltas >= _MOST_DELTAS
        if not state.base or (many and self._base_is_kept_ones()):
            self._files.write(name, "", state.rows)
            self._held.state = LoadedRows(state.rows, name, 0, 0)
            self._held.may_have_old = True
        else:
            self._files.write(name, self._held.head, self._changes)
            self._held.state = state._replace(changed=changed, deltas=state.deltas + 1)
        self._held.head = name
        self._held.used_at = time.monotonic()
        _held[self._query.id, self._partition] = self._held
        return name


def run_partitions(
    query: Query, round_: Round, heads: Mapping[int, str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run one partition behind the other: ``batches`` hold their records, in the columns ``TASK_COLUMNS``.

    All records of a partition stand together, in the order of the log. An Arrow batch may hold the end of one
    partition and the begin of the next. If records of a partition come once more behind another one's, the
    answer is a fault: they would not be in the state that the first answer names.
    """
    reader, done = _RecordReader(batches), set[int]()
    for partition, found in groupby(reader, itemgetter(0)):
        records = (each for _, each in found)
        if partition in done:
            yield as_arrow([Answer(partition, "fault", fault_to_bytes(_in_two_parts(partition)))])
            continue
        done.add(partition)
        yield _answers(query, round_, heads, partition, records, reader.clock)
        reader.clock = TaskClock()


def _in_two_parts(partition: int) -> QueryEnded:
    return QueryEnded(
        f"Spark gave a task the records of log partition {partition} in two parts, which tidegate does not "
        "expect of any version. The batch is not done, and its next run writes the same rows. Use a version "
        "of Spark that docs/spark.md names."
    )


class _RecordReader:
    """The records of a task, with their partition: each Arrow batch cut where another partition begins.

    ``clock`` counts the time that it takes, and belongs to the partition that is read.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self.clock = TaskClock()
        self._batches = batches

    def __iter__(self) -> Iterator[tuple[int, list[LogRecord]]]:
        for batch in self._batches:
            runs = pc.run_end_encode(batch.column(TASK_COLUMNS[0]))
            begin = 0
            for partition, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
                records = _records_of(batch.slice(begin, end - begin))
                self.clock.lap("read")
                yield partition, records
                begin = end


def run_told(
    partitions: Sequence[int],
    query: Query,
    round_: Round,
    heads: Mapping[int, str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run the tasks of partitions without records: ``batches`` hold their indexes in ``partitions``."""
    for batch in batches:
        for index in batch.column(0).to_pylist():
            yield _answers(query, round_, heads, partitions[index], (), TaskClock())


def _records_of(batch: pa.RecordBatch) -> list[LogRecord]:
    offsets, times, keys, values = (batch.column(name).to_pylist() for name in TASK_COLUMNS[1:])
    return [*map(LogEntryRecord._make, zip(offsets, keys, values, times, strict=True))]


def _answers(
    query: Query,
    round_: Round,
    heads: Mapping[int, str],
    partition: int,
    records: Iterable[list[LogRecord]],
    clock: TaskClock,
) -> pa.RecordBatch:
    """Run the whole task and return its answers.

    A fault is an answer too: after an exception Spark would only try the same again, at once.
    """
    try:
        _require_partition(query, partition)
        settle_process()
        with closing(PartitionTask(query, round_, partition, heads.get(partition, ""), clock)) as task:
            task.tell(round_.instructions.get(partition, Instructions()))
            for each in records:
                task.step(each)
            clock.lap("read")
            answers = task.finish()
    except FeedRefused as refused:
        answers = [Answer(partition, "refused", json.dumps([refused.feed_id, str(refused)]).encode())]
    except StepBroke as broke:
        _log.exception("partition %d: a step broke, and is run again more carefully", partition)
        answers = [Answer(partition, "broke", broke.to_bytes())]
    except TidegateError as fault:
        answers = [Answer(partition, "fault", fault_to_bytes(fault))]
    for _ in records:  # Spark wants its records to be read
        pass
    return as_arrow(answers)


def _status(status: PartitionStatus) -> dict[str, int]:
    return {
        "ranges": status.ranges,
        "open_transactions": status.open_transactions,
        "tracked_intents": status.tracked_intents,
        "parked_ranges": len(status.parked),
        "quarantined_ranges": len(status.quarantined),
        "backlog_entries": status.backlog_entries,
        "closed_regressions": status.closed_regressions,
        "refused_chunks": status.refused_chunks,
    }


def _require_partition(query: Query, partition: int) -> None:
    if partition >= query.partitions:
        raise TopologyError(
            f"The log {query.log} has a partition {partition} now, and had {query.partitions} partitions "
            "when the query began: ranges are found by that number, so it cannot change under an "
            "application. Nothing of the batch is acknowledged. Start another application on a new "
            "checkpoint directory."
        )


def _read_again(query: Query, partition: int, offsets: range) -> Iterator[list[LogRecord]]:
    """Yield the records at these offsets, which ranges need for their backlog."""
    if not offsets:
        return
    place = TopicPartition(query.log, partition)
    records: list[LogRecord] = []
    with PartitionReader(query.connection, {place: offsets.start}) as reader:
        for record in reader.read_to({place: offsets.stop}):
            records.append(LogEntryRecord(record.offset, record.key, record.value, record.timestamp_ms))
            if len(records) == _RECORDS_AGAIN:
                yield records
                records = []
    if records:
        yield records
