"""Defects that are put into the real code on purpose, to see that the simulation finds them.

Each is a small change of one step, as a slip in a review would let it through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from confluent_kafka import KafkaError

import tidegate.changefeed.lifecycle.registration
import tidegate.client.kafka.listed_offsets
import tidegate.worker.markers.marker_records
import tidegate.worker.output.worker_sinks
from tests.logs import Record
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.changefeed.definition.options import InitialScan, OnOversize
from tidegate.changefeed.definition.oversize import RowLimit
from tidegate.changefeed.definition.sink import SinkUri
from tidegate.changefeed.definition.sink_servers import other_cluster
from tidegate.changefeed.lifecycle import takeover
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.changefeed.lifecycle.job_records import ProgressRecord, StateRecord, TakeoverRecord
from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.row_refusal import is_for_good
from tidegate.client.kafka.transaction import Record as SentRecord
from tidegate.client.kafka.transaction import TransactionalProducer
from tidegate.delivery.marker_records import Place
from tidegate.delivery.producer_ids import MarkerIds, progress_id
from tidegate.delivery.sink_ends import Ends
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import LogRecord, OutputRecord, StateChange, StepResult
from tidegate.processor.catchup import gap_scans as catch_ups
from tidegate.processor.feeds import feed_control
from tidegate.processor.feeds.changes_outside_log import Mutations
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.range_waits import Waiting
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.moving import parking
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry
from tidegate.raftlog.entry import AbortTxn, Command, Offset, Op, Snapshot
from tidegate.ranges.range_state import RangeState
from tidegate.ranges.scan import RangeScan
from tidegate.rows import Row
from tidegate.worker.commit.batch_queue import Batch, BatchQueue, Cut
from tidegate.worker.commit.commit_loop import CommitLoop
from tidegate.worker.commit.in_flight import InFlight, InFlightBatches
from tidegate.worker.commit.stepper import Stepper
from tidegate.worker.kafka.assignment import Assignment
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.markers.marker_records import WorkerMarkersAmongRows
from tidegate.worker.markers.marker_writer import OtherMarkers
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.outlet import Outlet
from tidegate.worker.output.row_producer import SharedRowProducer
from tidegate.worker.state.partition_writer import PartitionWriter

Defect: TypeAlias = Callable[[], AbstractContextManager[None]]


@contextmanager
def _patched(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    original = getattr(owner, name) if not isinstance(owner, type) else owner.__dict__[name]
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def offsets_before_acknowledgements() -> Iterator[None]:
    """A batch counts as acknowledged as soon as its rows are handed to the producer."""

    async def acknowledged(self: InFlightBatches) -> list[InFlight]:
        while not self._flights:
            if self._ended:
                return []
            self._changed.clear()
            await self._changed.wait()
        return list(self._flights)

    with _patched(InFlightBatches, "acknowledged", acknowledged):
        yield


@contextmanager
def state_before_rows() -> Iterator[None]:
    """The state of a batch is committed before its rows are handed to the producer."""
    original = CommitLoop._produce

    async def produce(self: CommitLoop, flight: InFlight) -> None:
        loop = asyncio.get_running_loop()
        state = replace(flight.result, checkpoint=None, acks=[], requests=[])
        await loop.run_in_executor(self._threads.commits, self._writer.commit, [state])
        flight.result.changes.clear()
        await original(self, flight)

    with _patched(CommitLoop, "_produce", produce):
        yield


@contextmanager
def unfrozen_state() -> Iterator[None]:
    """A batch's changes are looked up only when it is committed. By then the changes of the next batch are
    among them."""
    run, write = Stepper._run, PartitionWriter.commit
    shared: WeakKeyDictionary[Stepper, list[StateChange]] = WeakKeyDictionary()

    def patched_run(self: Stepper, step: Any, argument: Any) -> Any:
        result, wanted = run(self, step, argument)
        changes = shared.setdefault(self, [])
        changes += result.changes
        result.changes = changes
        return result, wanted

    def patched_commit(self: PartitionWriter, results: Sequence[StepResult]) -> None:
        lists = {id(result.changes): result.changes for result in results}
        changes = [change for each in lists.values() for change in each]
        for each in lists.values():
            each.clear()  # every batch that is not committed has one and the same list
        rest = [replace(result, changes=[]) for result in results]
        write(self, [replace(rest[0], changes=changes), *rest[1:]])

    with _patched(Stepper, "_run", patched_run), _patched(PartitionWriter, "commit", patched_commit):
        yield


@contextmanager
def abort_before_commits() -> Iterator[None]:
    """The end of an aborted transaction is taken as soon as it is read, not where it stands in the log."""
    take_joined = BatchQueue._take_joined

    def patched(self: BatchQueue) -> Batch | Cut:
        taken = take_joined(self)
        if isinstance(taken, Cut):
            return taken
        coming = [
            record for batch in self._waiting if isinstance(batch, FetchedBatch) for record in batch.records
        ]
        return Batch(list(_with_aborts_of(coming, taken.records)), taken.end)

    with _patched(BatchQueue, "_take_joined", patched):
        yield


def _with_aborts_of(coming: Sequence[LogRecord], records: Sequence[LogRecord]) -> Iterator[LogRecord]:
    """Yield the records. The first command of each range gets the ends of all transactions that are known by
    now."""
    aborts: dict[int, tuple[Op, ...]] = {}
    for record in [*records, *coming]:
        entry = decode_entry(record.key, record.value)
        if isinstance(entry, Command):
            found = tuple(op for op in entry.ops or () if isinstance(op, AbortTxn))
            aborts[entry.range_id] = aborts.get(entry.range_id, ()) + found
    for record in records:
        entry = decode_entry(record.key, record.value)
        if isinstance(entry, Command) and (early := aborts.pop(entry.range_id, ())):
            value = encode_entry(entry._replace(ops=early + tuple(entry.ops or ())))
            yield Record(record.offset, record.key, value, record.timestamp)
        else:
            yield record


@contextmanager
def marker_to_all_but_one() -> Iterator[None]:
    """A marker goes to every partition but the last one."""
    original = WorkerMarkersAmongRows.of

    async def patched(self: WorkerMarkersAmongRows, marker: ResolvedTimestamp) -> list[SentRecord]:
        records = await original(self, marker)
        return records[:-1]

    with _patched(WorkerMarkersAmongRows, "of", patched):
        yield


@contextmanager
def unreported_span_ignored() -> Iterator[None]:
    """The frontier is the minimum over the spans that ranges have reported, and not over all of them."""
    begin, note = FeedFrontier.__init__, FeedFrontier._note
    floors: dict[int, Timestamp] = {}

    def patched_init(self: FeedFrontier, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        floors[id(self)] = self.spans.minimum

    def high_water(self: FeedFrontier) -> Timestamp:
        floor = floors[id(self)]
        reported = [timestamp for _, timestamp in self.spans.entries() if timestamp > floor]
        return max(self._start, min(reported, default=floor))

    def patched_note(self: FeedFrontier, partition: int, offset: int) -> bool:
        note(self, partition, offset)
        return True

    with (
        _patched(FeedFrontier, "__init__", patched_init),
        _patched(FeedFrontier, "high_water", property(high_water)),
        _patched(FeedFrontier, "_note", patched_note),
    ):
        yield


@contextmanager
def child_before_hand_off() -> Iterator[None]:
    """A range with parents takes its snapshot at once, and waits for no hand-off."""

    def is_needed(self: Waiting, head: Snapshot) -> bool:
        return False

    with _patched(Waiting, "is_needed", is_needed):
        yield


@contextmanager
def healing_without_scan() -> Iterator[None]:
    """A range leaves its hole with the next snapshot, and what it missed is not asked for."""

    def scan_for(self: Waiting, state: RangeState, head: Snapshot, offset: Offset) -> RangeScan | None:
        return None

    with _patched(Waiting, "scan_for", scan_for):
        yield


@contextmanager
def every_index_counts() -> Iterator[None]:
    """When a command has changed keys outside the op log, keys of any index of a table count as keys of its
    rows."""

    def primary_keys(self: PartitionRows, table_id: int, first: Timestamp, last: Timestamp) -> None:
        return None

    with _patched(PartitionRows, "primary_keys", primary_keys):
        yield


@contextmanager
def inclusive_cursor() -> Iterator[None]:
    """A feed's cursor counts as the first timestamp that the feed still needs, not as the last one that it
    has."""
    original = PartitionFeed.activate

    def activate(self: PartitionFeed, message: Activate) -> None:
        options = message.definition.options
        if options.cursor is not None and options.initial_scan is InitialScan.NO:
            message = replace(message, start=options.cursor.prev())
        original(self, message)

    with _patched(PartitionFeed, "activate", activate):
        yield


@contextmanager
def given_up_batch_passed_over() -> Iterator[None]:
    """A batch that a drain gives up, since it waits for a schema registry, is followed by other steps."""

    def give_up(self: Stepper) -> None:
        """Nothing is noted."""

    with _patched(Stepper, "give_up", give_up):
        yield


@contextmanager
def addresses_decide_the_cluster() -> Iterator[None]:
    """Whether a feed's sink is the workers' own cluster is decided by addresses, and not by what is
    stored."""

    def address(sink: SinkUri, cluster: str | None, bootstrap_servers: str) -> tuple[str, ...]:
        return other_cluster(sink, bootstrap_servers)

    with _patched(tidegate.worker.output.worker_sinks, "sink_address", address):
        yield


@contextmanager
def refused_row_as_delivered() -> Iterator[None]:
    """A row that is refused for good counts as one that was acknowledged."""
    original = SharedRowProducer._delivered

    def delivered(self: SharedRowProducer, barrier: Barrier, error: KafkaError | None, message: Any) -> None:
        original(self, barrier, None if error is not None and is_for_good(error) else error, message)

    with _patched(SharedRowProducer, "_delivered", delivered):
        yield


@contextmanager
def ended_producer_forgotten() -> Iterator[None]:
    """Rows that a producer had not delivered at its end are not given to the next one."""

    def begin_again(self: Outlet) -> None:
        self._writer = self._open_writer()
        for parcel in self._parcels:
            if parcel.handed:
                parcel.barrier.forget(parcel.barrier.left)

    with _patched(Outlet, "_begin_again", begin_again):
        yield


@contextmanager
def unblamed_row_forgotten() -> Iterator[None]:
    """A row that is given up without being at fault does not end the producer, so nobody writes it again."""

    def give_up(self: SharedRowProducer, cause: str) -> None:
        """Nothing follows."""

    with _patched(SharedRowProducer, "_give_up", give_up):
        yield


@contextmanager
def rows_without_comparison() -> Iterator[None]:
    """Rows go to whatever cluster is at the sink's address, and its acknowledgements are believed."""

    def send_to(
        self: SharedRowProducer, cluster: str, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0
    ) -> int:
        return self.send(rows, barrier, first)

    with _patched(SharedRowProducer, "send_to", send_to):
        yield


@contextmanager
def mutations_unread() -> Iterator[None]:
    """Commands and snapshots tell of data that changed outside the op log, and nobody notes it."""

    def note(self: Mutations, *_: Any) -> None:
        """Nothing is noted."""

    with _patched(Mutations, "note", note), _patched(Mutations, "judge", note):
        yield


@contextmanager
def changes_between_epochs_forgotten() -> Iterator[None]:
    """Data that changed outside the op log fails the feeds that are active then, but no feed that goes on
    later in another epoch."""

    def changed_before(*_: Any) -> None:
        """Nobody remembers anything."""

    with _patched(feed_control, "_changed_before", changed_before):
        yield


@contextmanager
def claims_only_where_needed() -> Iterator[None]:
    """A range that waits for nothing sends no claim: a parent whose end is lost does not learn of it."""

    def claims_told_by(*_: Any) -> frozenset[Any]:
        return frozenset()

    with _patched(parking, "claims_told_by", claims_told_by):
        yield


@contextmanager
def silent_ranges_waited_for() -> Iterator[None]:
    """A feed waits for rows of a range that says nothing, however long that lasts."""
    with _patched(catch_ups, "is_silent", lambda *_: False):
        yield


@contextmanager
def keys_do_not_count() -> Iterator[None]:
    """Whether a row is too large is decided by its value alone."""
    original = RowLimit.applied

    def applied(self: RowLimit, row: Row, timestamp: Timestamp, key: bytes, *rest: Any) -> Any:
        return original(self, row, timestamp, b"", *rest)

    with _patched(RowLimit, "applied", applied):
        yield


@contextmanager
def left_out_as_deleted() -> Iterator[None]:
    """A row that is too large is written like a deletion of its key, without a value."""
    original = RowLimit.applied

    def applied(self: RowLimit, *args: Any) -> Any:
        value, headers = original(self, *args)
        return value or None, headers

    with _patched(RowLimit, "applied", applied):
        yield


@contextmanager
def limit_by_the_process() -> Iterator[None]:
    """The limit for a row is that of the process which writes it, and processes have different limits."""
    activated, opened = PartitionFeed.activate, count()

    def activate(self: PartitionFeed, message: Activate) -> None:
        taken = replace(message.definition.options, max_row_bytes=10_000 if next(opened) % 2 else 1)
        if message.definition.options.on_oversize is OnOversize.KEY_ONLY:
            message = replace(message, definition=replace(message.definition, options=taken))
        activated(self, message)

    with _patched(PartitionFeed, "activate", activate):
        yield


@contextmanager
def last_refusal_unheard() -> Iterator[None]:
    """The refusal that ends a producer never counts if the sink's address may mean another cluster."""

    def compare_last(self: SharedRowProducer, watch: ClusterWatch) -> None:
        """Nobody is asked."""

    with _patched(SharedRowProducer, "_compare_last", compare_last):
        yield


@contextmanager
def markers_without_comparison() -> Iterator[None]:
    """Markers go to whatever cluster is at the sink's address."""

    async def check(self: OtherMarkers) -> None:
        """Nobody is asked."""

    with _patched(OtherMarkers, "check", check):
        yield


@contextmanager
def ends_without_comparison() -> Iterator[None]:
    """Any cluster that tells where topics end is believed, once the cluster was compared before."""

    def ends_on(cluster: str, client: Ends, places: Sequence[Place], say: Any) -> Mapping[Place, int]:
        return client.ends(places)

    with _patched(tidegate.worker.markers.marker_records, "ends_on", ends_on):
        yield


@contextmanager
def lost_answer_as_an_end() -> Iterator[None]:
    """The end of a topic is what librdkafka says, also when the connection of the question was lost."""

    def known(place: Any, offset: int) -> int:
        return offset

    with _patched(tidegate.client.kafka.listed_offsets, "_known", known):
        yield


@contextmanager
def markers_repeated() -> Iterator[None]:
    """A marker whose transaction was not committed is written once more by the same producer."""

    def commit_once(self: TransactionalProducer, records: Sequence[SentRecord]) -> None:
        self.commit(records, insist=False)

    with _patched(TransactionalProducer, "commit_once", commit_once):
        yield


@contextmanager
def one_id_for_all_clusters() -> Iterator[None]:
    """The producer of markers has one transactional id on whatever cluster the feed is."""

    def of(cls: type[MarkerIds], app_id: str, feed_id: FeedId, cluster: str) -> MarkerIds:
        return cls(progress_id(app_id, feed_id), progress_id(app_id, feed_id))

    with _patched(MarkerIds, "of", classmethod(of)):
        yield


@contextmanager
def accepted_at_the_high_water() -> Iterator[None]:
    """A feed that continues on another cluster begins at the timestamp up to which the former cluster had
    acknowledged everything."""
    original = takeover.takeover

    def begun_too_late(
        definition: FeedDefinition,
        state: StateRecord | None,
        progress: ProgressRecord | None,
        former: TakeoverRecord | None,
    ) -> TakeoverRecord:
        taken = original(definition, state, progress, former)
        return replace(taken, high_water=taken.silent_to) if taken.unprepared else taken

    with _patched(tidegate.changefeed.lifecycle.registration, "takeover", begun_too_late):
        yield


@contextmanager
def position_behind_the_batch() -> Iterator[None]:
    """A step that ends amid its batch says that it is at the batch's end."""
    original = PartitionProcessor._conclude

    def conclude(self: PartitionProcessor, records: Any, end: int | None, *more: Any) -> StepResult:
        return original(self, records, _ends.get(self) if end is None else end, *more)

    _ends: WeakKeyDictionary[PartitionProcessor, int | None] = WeakKeyDictionary()
    step_some = PartitionProcessor.step_some

    def noting(self: PartitionProcessor, records: Sequence[LogRecord], end: int | None = None) -> StepResult:
        _ends[self] = end
        return step_some(self, records, end)

    with (
        _patched(PartitionProcessor, "_conclude", conclude),
        _patched(PartitionProcessor, "step_some", noting),
    ):
        yield


@contextmanager
def rest_of_a_batch_lost() -> Iterator[None]:
    """The part of a batch that a step has not taken is not put back."""

    def put_back(_: CommitLoop, rest: Sequence[LogRecord], end: int) -> int:
        return rest[0].offset if rest else end

    with _patched(CommitLoop, "_put_back", put_back):
        yield


@contextmanager
def taken_up_while_stopping() -> Iterator[None]:
    """A worker that stops still takes up partitions that a rebalance assigns to it meanwhile."""
    with _patched(Assignment, "close", Assignment.release):
        yield


DEFECTS: Final[dict[str, Defect]] = {
    "accepted-at-the-high-water": accepted_at_the_high_water,
    "position-behind-the-batch": position_behind_the_batch,
    "rest-of-a-batch-lost": rest_of_a_batch_lost,
    "changes-between-epochs-forgotten": changes_between_epochs_forgotten,
    "claims-only-where-needed": claims_only_where_needed,
    "mutations-unread": mutations_unread,
    "addresses-decide-the-cluster": addresses_decide_the_cluster,
    "offsets-before-acknowledgements": offsets_before_acknowledgements,
    "state-before-rows": state_before_rows,
    "unfrozen-state": unfrozen_state,
    "abort-before-commits": abort_before_commits,
    "marker-to-all-but-one": marker_to_all_but_one,
    "unreported-span-ignored": unreported_span_ignored,
    "child-before-hand-off": child_before_hand_off,
    "healing-without-scan": healing_without_scan,
    "every-index-counts": every_index_counts,
    "inclusive-cursor": inclusive_cursor,
    "keys-do-not-count": keys_do_not_count,
    "last-refusal-unheard": last_refusal_unheard,
    "left-out-as-deleted": left_out_as_deleted,
    "limit-by-the-process": limit_by_the_process,
    "markers-without-comparison": markers_without_comparison,
    "lost-answer-as-an-end": lost_answer_as_an_end,
    "markers-repeated": markers_repeated,
    "ends-without-comparison": ends_without_comparison,
    "one-id-for-all-clusters": one_id_for_all_clusters,
    "rows-without-comparison": rows_without_comparison,
    "given-up-batch-passed-over": given_up_batch_passed_over,
    "refused-row-as-delivered": refused_row_as_delivered,
    "ended-producer-forgotten": ended_producer_forgotten,
    "silent-ranges-waited-for": silent_ranges_waited_for,
    "taken-up-while-stopping": taken_up_while_stopping,
    "unblamed-row-forgotten": unblamed_row_forgotten,
}
