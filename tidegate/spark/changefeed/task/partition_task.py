"""The work on one log partition in a round (docs/protocols/spark-rounds.md, steps T1 to T6).

    T1  load the state as of the last round, unless this Python worker has it; remove files of older states
    T2  take up messages about feeds, and other partitions' claims and hand-offs; in a round of records, give
        up feeds that still wait for a start
    T3  step the records, one Arrow batch after the other, and the backlog of ranges
    T4  produce the rows, and wait until every one is acknowledged, or its feed is detached (S1)
    T5  store the changes of the state, under a name of the round and this attempt
    T6  answer: checkpoints, claims and hand-offs, acknowledgements, requests, incidents

`tidegate.spark.changefeed.partition_round` runs the partitions of a task, one after the other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Final

from tidegate.access.header_secrets import HeaderSecrets
from tidegate.access.secret_store import SecretStore
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import read_control
from tidegate.client.feed_faults import FeedFaults
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.reader import PartitionReader
from tidegate.delivery.refused_rows import rows_broke
from tidegate.errors import InputError, RetryError, RowRefused, SecretMissing, SettingsError
from tidegate.processor.batch import (
    ControlRecord,
    ExchangeRecord,
    LogRecord,
    OutputRecord,
    StateTable,
    StepResult,
)
from tidegate.processor.checkpoint import encode_checkpoint
from tidegate.processor.containment import Caution, Input, feed_error
from tidegate.processor.feeds.framing import frame, schemas_of
from tidegate.processor.state.exchange_codec import decode_exchange
from tidegate.processor.status import PartitionStatus
from tidegate.raftlog.entry import Offset
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.rounds import Instructions, Round
from tidegate.spark.changefeed.row_producer import FeedRefused
from tidegate.spark.changefeed.row_sinks import RowSinks, name_on_cluster
from tidegate.spark.changefeed.task.answers import Answer, RoundAnswers
from tidegate.spark.changefeed.task.log_records import LogEntryRecord
from tidegate.spark.changefeed.task.long_steps import LONG_STEPS
from tidegate.spark.changefeed.task.registry_ids import schema_ids
from tidegate.spark.changefeed.task.round_state import RoundState
from tidegate.spark.platform.task_clock import TaskClock
from tidegate.verify import TopicPartition

_RECORDS_AGAIN: Final = 10_000
_STATUS_S: Final = 5.0
#: A round that may detach feeds waits for acknowledgements after so many steps.
_KEPT_STEPS: Final = 100


class PartitionTask:
    """Runs round ``round_`` for log partition ``partition``.

    ``head`` names the file with the state of the partition. Without a file the state is empty.
    """

    def __init__(self, query: Query, round_: Round, partition: int, head: str, clock: TaskClock) -> None:
        self.clock = clock
        self._query = query
        self._round = round_
        self._partition = partition
        self._state = RoundState(query, round_.id, partition, head)
        self._processor = self._state.processor
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
        was_held = self._processor.held
        if not was_held:
            self._read_again(instructions)
        if instructions.controls:
            told = [
                ControlRecord(Offset(each.offset), read_control(each.message))
                for each in instructions.controls
            ]
            for controls in self._caution.steps(Input.CONTROL, told):
                self._keep_and_send(self._processor.control(controls))
            self._fail_refused()
            self._look_at_pauses()
        if self._round.records and self._processor.held:
            self._keep_and_send(self._processor.give_up(None))
        if was_held and not self._processor.held:
            self._read_again(instructions)
        if instructions.exchanges:
            came = [
                ExchangeRecord(Offset(each.offset), decode_exchange(each.message))
                for each in instructions.exchanges
            ]
            for exchanges in self._caution.steps(Input.HAND_OFFS, came):
                self._keep_and_send(self._processor.exchange(exchanges))
        self._go_on()
        self._everything = instructions.everything
        self._settle()

    def _read_again(self, instructions: Instructions) -> None:
        """Do the rest of step T1: read again the entries that ranges have not applied yet.

        A partition that is held does it when it is not held any more. Before that it steps nothing.
        """
        if instructions.everything or self._processor.to_read_again:
            self._keep_and_send(self._processor.missing_below(Offset(self._log_start())))
        for records in _read_again(self._query, self._partition, self._processor.to_read_again):
            self.clock.lap("load")
            self._step(records)

    def step(self, records: list[LogRecord]) -> None:
        """Step the records, and produce their rows (step T3, and the beginning of T4).

        Records that retention removed before they were read are a hole, as in the worker.
        """
        self._records += len(records)
        expected = self._processor.next_offset or 0
        if records[-1].offset + 1 - expected == len(records):
            self._step(records)
        else:
            self._step_over_gaps(records)
        self._go_on()
        self._settle()

    def step_up_to(self, end: int) -> None:
        """Read the log from the partition's next offset up to ``end``, and step its records."""
        begin = max(self._processor.next_offset or 0, self._log_start())
        for records in _read_again(self._query, self._partition, range(begin, end)):
            self.clock.lap("read")
            self.step(records)

    def finish(self) -> list[Answer]:
        """Wait for the rows, store the state, and return the answers (steps T4 to T6).

        Raises ``FeedRefused``, and then nothing of the round is stored.
        """
        self._acknowledge()
        self._answers.say_checkpoints()
        if self._everything:
            self._answers.say("checkpoint", encode_checkpoint(self._processor.full_checkpoint()))
        name = self._state.store(self._changes)
        self._answers.say("head", name.encode())
        self.clock.lap("store")
        self._answers.say("figures", json.dumps(self._figures()).encode())
        return self._answers.said

    def close(self) -> None:
        """Give up the unacknowledged rows of a task that has failed."""
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
            "found": self._state.found.value,
            "files_read": self._state.files_read,
        }
        held = self._state.held
        # the status looks at every range
        if self._answers.tell_news or time.monotonic() >= held.status_at:
            held.status_at = time.monotonic() + _STATUS_S
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
                self._keep_and_send(self._processor.missing_below(Offset(min(record.offset, log_start))))
                first = index
            expected = max(expected, record.offset + 1)
        self._step(records[first:])

    def _step(self, records: Sequence[LogRecord]) -> None:
        for some in self._caution.steps(Input.LOG, records):
            rest = some
            while True:
                result = self._step_some(rest)
                rest = rest[result.taken :]
                if not rest:
                    break

    def _step_some(self, records: Sequence[LogRecord]) -> StepResult:
        told = f"offsets {records[0].offset} to {records[-1].offset}" if records else "a range's backlog"
        with LONG_STEPS.watched(self._partition, told):
            result = self._processor.step_some(records)
        self._keep_and_send(result)
        return result

    def _log_start(self) -> int:
        """Return the first offset that the partition has now."""
        return _first_offset(self._query, TopicPartition(self._query.log, self._partition))

    def _go_on(self) -> None:
        while self._processor.ready:
            self._step_some(())

    def _keep_and_send(self, result: StepResult) -> None:
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
        """Hand rows to the feed's sink. An exception that nobody foresaw refuses them (step S5)."""
        definition = self._processor.definition_of(feed_id)
        name = name_on_cluster(feed_id, definition.accepted_epoch)
        try:
            rows = HeaderSecrets(definition, SecretStore.of_environment()).into(rows)
            left = self._sinks.send(feed_id, definition.sink, rows, name)
        except SecretMissing as missing:
            left = self._sinks.leave(feed_id, missing)
        except (FeedRefused, SettingsError):
            raise
        except Exception as error:
            raise FeedRefused(feed_id, rows_broke(FeedFaults().reported(feed_id, error))) from None
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
                self._keep_and_send(self._processor.fail_delivery(feed_id, RowRefused(reason), ()))

    def _look_at_pauses(self) -> None:
        """Resume feeds whose pause is over (step S4), and detach those that pause and are live here (S2)."""
        detached, paused = self._processor.detached, self._round.paused | self._left
        for feed_id in sorted(detached - paused):
            self._keep_and_send(self._processor.resume(feed_id))
        for feed_id in sorted(paused - detached):
            if self._processor.is_active(feed_id):
                self._pause(feed_id)

    def _pause(self, feed_id: FeedId) -> None:
        """Detach the feed: it is given no rows of the round, and misses all of its versions."""
        self._keep_and_send(self._processor.detach(feed_id, self._answers.steps))
        self._keep_and_send(self._processor.stall(feed_id))

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


def _read_again(query: Query, partition: int, offsets: range) -> Iterator[list[LogRecord]]:
    """Yield the records at these offsets, by a reader of our own.

    Raises ``RetryError`` when retention has removed some of them since the log's first offset was asked for.
    """
    if not offsets:
        return
    place = TopicPartition(query.log, partition)
    records: list[LogRecord] = []
    with PartitionReader(query.connection, {place: offsets.start}) as reader:
        try:
            for record in reader.read_to({place: offsets.stop}):
                records.append(LogEntryRecord(record.offset, record.key, record.value, record.timestamp_ms))
                if len(records) == _RECORDS_AGAIN:
                    yield records
                    records = []
        except InputError:
            first = _first_offset(query, place)
            if first <= reader.positions[place]:
                raise
            raise RetryError(
                f"Retention removed records of {query.log} partition {partition} below offset {first} while "
                "they were to be read. The next try takes them for a hole."
            ) from None
    if records:
        yield records


def _first_offset(query: Query, place: TopicPartition) -> int:
    """Return the first offset that the partition has now."""
    return Cluster(query.connection).bounds([place])[place].low
