"""A Spark job that writes a feed's past from the log. Steps F1 to F6 are those of
docs/protocols/backfill.md."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from tidegate.access.output_namespace import OutputNamespace
from tidegate.access.private_files import keep_files_private
from tidegate.changefeed.definition.feed import (
    ENDED,
    Engine,
    FeedDefinition,
    FeedId,
    FeedState,
)
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate, KnownTable
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import (
    Acknowledgements,
    Prepare,
    failed,
    is_forgotten,
    missing_tables,
)
from tidegate.client.control_acks import read_acks
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.cluster import Bounds, Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topics import Topics
from tidegate.delivery.sink_clusters import OWN
from tidegate.errors import (
    FeedError,
    InputError,
    MalformedEntry,
    RetryError,
    StatementError,
)
from tidegate.hlc import MAX, NANOS_PER_SECOND, ZERO, ResolvedTimestamp, Timestamp
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.feeds.feed_control import known_tables, unsupported
from tidegate.processor.push_policy import PushPolicy
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import BROADCAST, DescriptorUpdate
from tidegate.rows.table_key import table_span
from tidegate.spark.backfill.newest_rows import ScanAt, rows_by, write_scan
from tidegate.spark.backfill.one_feed import OneFeed, run_over, survey
from tidegate.spark.backfill.scanned_keys import base_of, scanned_keys
from tidegate.spark.changefeed.jobs_topic import JobsTopic
from tidegate.spark.changefeed.preparation import Preparation
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.query_markers import QueryMarkers
from tidegate.spark.changefeed.query_sinks import QuerySinks
from tidegate.spark.changefeed.run import create_feed
from tidegate.spark.platform.executors import Needs
from tidegate.spark.platform.kafka_source import consumers_for, is_time_overflow, log_slice, time_slices
from tidegate.spark.platform.session import Placement, placed_session
from tidegate.spark.platform.store_access import StoreAccess
from tidegate.spark.platform.task_failures import TASK_FAILURES, words_of
from tidegate.verify import TopicPartition

_PATIENCE_S: Final = 15.0
#: Spark merges the partitions of a shuffle that has few keys, so that few tasks run.
_SPARK_CONFIG: Final = {"spark.sql.adaptive.enabled": "true"}
#: At most so many bases are tried, the highest first. Each one costs a survey of the log.
_BASES: Final = 4
#: A scan is refused when the log is complete only up to a moment that is more than so many seconds before the
#: log's end. If a cursor names the moment, the scan is allowed.
_BEHIND_S: Final = 60.0
_INSTEAD: Final = (
    "Nothing was written by this run. Drop the feed, and create it with `tidegate feed create`, on other "
    "topics if an earlier run has written: the store scans its tables then."
)
_TIME_OVERFLOW: Final = (
    "The log has a record whose time is more than 292,277 years from 1970. Spark cannot hold that, so no "
    f"backfill can read this log. {_INSTEAD}"
)
#: Pushes are off: nobody reads the answers to what a backfill asks the store.
_CONFIG: Final = ProcessorConfig(push=PushPolicy(enabled=False))

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    """The settings of a backfill: what it reads, where it works, and which engine goes on with the feed.

    ``work`` is the URI of a directory that Spark and every executor reach; nothing in it is needed
    afterwards. ``then`` is the engine that goes on with the feed. Topics that the backfill creates have
    ``output_partitions`` partitions. ``output_topics`` are patterns of the topics that feeds may write to.
    ``access`` has the login for the file system of ``work``.
    """

    connection: KafkaConnection
    app_id: str
    topic_prefix: str
    work: str
    then: Engine = Engine.WORKERS
    output_partitions: int = 1
    output_topics: str = ""
    access: StoreAccess = field(default_factory=StoreAccess.of_environment)


class _Log(NamedTuple):
    """The log between two offsets of each partition.

    ``id`` is the id that Kafka gives the topic. ``slices`` are the bounds of the same ``records``, cut by
    record time. ``descriptors`` are all table descriptors among the records that can be read.
    """

    id: str
    records: DataFrame
    slices: Sequence[Mapping[int, Bounds]]
    bounds: Mapping[int, Bounds]
    descriptors: tuple[DescriptorUpdate, ...]


def define_backfill(options: BackfillOptions, statement: str) -> FeedId:
    """Define the feed of the statement, or find the one that an earlier run defined (step F1).

    Raises ``StatementError`` for a statement that cannot be run, and for a feed that begins at the present.
    """
    topics, partitions = Topics.of(options), _log_partitions(options)
    sinks = QuerySinks(options.connection, options.connection.timeout_s)
    sinks.admin(options.connection).ensure(topics.shared_specs(partitions))
    jobs = Jobs(options.connection, options.app_id)
    namespace, registries = OutputNamespace.of(options.output_topics), options.connection.destinations
    return create_feed(jobs, statement, Engine.BACKFILL, _require_past, namespace, registries)


def run_backfill(options: BackfillOptions, feed_id: FeedId, placement: Placement, say: Say) -> None:
    """Run steps F2 to F6 in a Spark session of their own. ``say`` is called with a sentence at each stage.

    Raises ``InputError`` when the log holds too little, and for a feed that has failed. Raises
    ``DeliveryError`` or ``RetryError`` for faults after which the same command may be run again.
    """
    keep_files_private()
    name = f"tidegate backfill {feed_id}"
    config = {**_SPARK_CONFIG, **consumers_for(_log_partitions(options))}
    with (
        placed_session(name, placement, Needs(__name__), config) as session,
        Backfill(session, options, feed_id, say) as backfill,
    ):
        backfill.run()


def _log_partitions(options: BackfillOptions) -> int:
    """Return how many partitions the log has. Raises ``InputError`` if it is not there."""
    log = Topics.of(options).log
    return Cluster(options.connection).partition_counts([log])[log]


class Backfill:
    """The backfill of one feed that is already defined. Use it in a ``with``."""

    def __init__(self, session: SparkSession, options: BackfillOptions, feed_id: FeedId, say: Say) -> None:
        connection, self._topics = options.connection, Topics.of(options)
        self._session = session
        self._options = options
        self._say = say
        self._feed_id = feed_id
        self._sinks = QuerySinks(connection, _PATIENCE_S)
        admin = self._sinks.admin(connection)
        self._jobs = JobsTopic(connection, self._topics, admin, f"backfill-{feed_id}")
        self._partitions = _log_partitions(options)
        # ended feeds whose topics this feed wants, with their marker writers fenced
        self._shut_out: set[FeedId] = set()
        self._preparation = Preparation(
            self._topics,
            self._jobs,
            self._sinks,
            options.output_partitions,
            self._is_gone,
            OutputNamespace.of(options.output_topics),
        )
        self._markers = QueryMarkers(
            connection,
            options.app_id,
            self._jobs,
            self._sinks,
            self._preparation.schema_id,
            Engine.BACKFILL,
        )

    def __enter__(self) -> Backfill:
        return self

    def __exit__(self, *_: object) -> None:
        self._markers.close()
        self._jobs.close()
        self._preparation.close()

    def run(self) -> None:
        """Write the feed's past, and move the feed on (steps F2 to F6)."""
        definition = self._require_ours()
        if not self._is_written(definition):
            try:
                reports = self._write(definition)
            except FeedError as error:
                self._fail(definition, str(error))
            except Exception as error:
                if is_time_overflow(error):
                    raise InputError(_TIME_OVERFLOW) from None
                if isinstance(error, TASK_FAILURES):
                    raise RetryError(
                        f"A task of the backfill has failed as often as Spark tries: {words_of(error)} The"
                        " progress of the feed is not stored. Run the same command again: it writes the same"
                        " rows."
                    ) from None
                raise
            self._require_ours()
            self._persist(definition, reports)
        self._require_ours()
        if definition.options.initial_scan is InitialScan.ONLY:
            state = self._feed.current_state
            if state is None or not self._is_written(definition):
                raise InputError(f"The progress of feed {self._feed_id} is not stored. Run this again.")
            self._jobs.store(replace(state, state=FeedState.SUCCEEDED))
            self._say(f"Feed {self._feed_id} has succeeded.")
            return
        Jobs(self._options.connection, self._options.app_id).move(self._feed_id, self._options.then)
        self._say(f"Feed {self._feed_id} continues on {self._options.then.value}.")

    @property
    def _feed(self) -> FeedView:
        return self._jobs.view[self._feed_id]

    def _require_ours(self) -> FeedDefinition:
        """Return the feed's definition.

        Raises ``InputError`` when the feed has ended, or belongs to another engine by now.
        """
        self._jobs.read_to_end()
        feed = self._feed
        if feed.defined is None or feed.status in ENDED:
            raise InputError(f"Feed {self._feed_id} is {feed.status.value}: the backfill ends.")
        if not feed.runs_on(Engine.BACKFILL):
            raise InputError(
                f"Feed {self._feed_id} runs on {feed.defined.engine.value} now: the backfill ends."
            )
        return feed.defined

    def _is_written(self, definition: FeedDefinition) -> bool:
        """Return whether an earlier run has finished step F5. Always false for a feed without a scan."""
        state, high_water = self._feed.current_state, self._feed.high_water
        if definition.options.initial_scan is InitialScan.NO or state is None or state.start is None:
            return False
        return high_water is not None and high_water >= state.start

    def _write(self, definition: FeedDefinition) -> Sequence[PartitionProgress]:
        """Run steps F2 to F4; return reports that say up to when rows are complete and acknowledged."""
        state = self._feed.current_state
        if state is None:
            self._require_topics(definition)
        scans = definition.options.initial_scan is not InitialScan.NO
        log = self._log(None if state is None or not scans else state.positions)
        tables = self._tables(definition, log.descriptors)
        write = self._write_scan if scans else self._write_all
        return write(definition, log, tables)

    def _write_scan(
        self, definition: FeedDefinition, log: _Log, tables: Sequence[KnownTable]
    ) -> Sequence[PartitionProgress]:
        state = self._feed.current_state
        start = definition.options.cursor if state is None else state.start
        found, base = self._survey(log, definition, tables, start)
        complete = found.complete_to(base)
        self._require_complete(found, complete, start, base)
        start = start or complete
        if state is None:
            self._require_recent(found, complete, definition)
            state = self._begin(definition, start, tables, log)
        else:
            self._require_ours()
        above = f"above {base}, where scans in it begin, and " if base > ZERO else ""
        self._say(
            f"The log is complete {above}up to {complete}, in {found.records} records; the scan is at "
            f"{start}."
        )
        scan = ScanAt(
            self._options.connection,
            definition,
            state.targets,
            start,
            log.descriptors,
            self._partitions,
            base,
            state.sink_cluster,
        )
        rows = write_scan(log.records, scan)
        self._require_whole(log)
        self._say(f"{rows} rows are written.")
        return [_up_to(report, start) for report in found.reports]

    def _write_all(
        self, definition: FeedDefinition, log: _Log, tables: Sequence[KnownTable]
    ) -> Sequence[PartitionProgress]:
        start, state = definition.options.cursor, self._feed.current_state
        assert start is not None
        if state is None:
            state = self._begin(definition, start, tables, log)
        feed = self._run_over(log, Activate(definition, start, state.targets), state.sink_cluster)
        if feed.failure:
            raise FeedError(feed.failure)
        self._require_whole(log)
        complete = feed.complete_to(start)
        written = f"{feed.rows} rows are written, of {feed.records} records;"
        if complete > start:
            self._say(f"{written} they are complete up to {complete}.")
        else:
            self._say(
                f"{written} they are not complete above the cursor. {_lack(feed)} Whoever goes on with the "
                "feed has the store scan for the rest."
            )
        return [_up_to(report, complete) for report in feed.reports]

    def _begin(
        self, definition: FeedDefinition, start: Timestamp, tables: Sequence[KnownTable], log: _Log
    ) -> StateRecord:
        """Store where the feed starts (step F3). Raises ``FeedError`` if the feed cannot have its topics."""
        self._require_ours()
        self._require_topics(definition)  # another feed may have taken them meanwhile
        ends = {partition: each.end for partition, each in log.bounds.items()}
        state = self._preparation.prepared(definition, Prepare(start, tuple(tables), ends))
        if state.state is FeedState.FAILED:
            raise FeedError(state.error)
        state = replace(state, state=FeedState.RUNNING)
        self._jobs.store(state)
        return state

    def _persist(self, definition: FeedDefinition, reports: Iterable[PartitionProgress]) -> None:
        """Persist the feed's progress, and write the marker that is due (step F5)."""
        self._markers.begin([definition.id])
        for report in reports:
            self._markers.apply(report)
        self._markers.publish()

    def _fail(self, definition: FeedDefinition, reason: str) -> None:
        state = self._feed.current_state
        ended = failed(definition, reason, self._feed.stored_topics)
        if state is not None:
            ended = replace(state, state=FeedState.FAILED, error=reason)
        self._jobs.store(ended)
        raise InputError(f"Feed {definition.id} has failed: {reason}")

    def _log(self, ends: Mapping[int, int] | None) -> _Log:
        """Read the log up to ``ends``, which an earlier run stored, or up to its present end (step F2)."""
        topic, now = self._topics.log, self._bounds()
        bounds = now if ends is None else {number: Bounds(now[number].low, ends[number]) for number in now}
        if all(each.low >= each.end for each in bounds.values()):
            raise InputError(f"The log {topic} is empty: there is no past to take from it.")
        records = self._slice(bounds)
        slices = time_slices(records, bounds)
        broadcasts = records.where(f"key = X'{encode_key(BROADCAST).hex()}' AND value IS NOT NULL")
        values = [bytes(row.value) for row in broadcasts.select("value").distinct().collect()]
        return _Log(self._log_id(), records, slices, bounds, tuple(_descriptors(values)))

    def _slice(self, bounds: Mapping[int, Bounds]) -> DataFrame:
        return log_slice(self._session, self._options.connection, self._topics.log, bounds)

    def _bounds(self) -> dict[int, Bounds]:
        places = [TopicPartition(self._topics.log, number) for number in range(self._partitions)]
        bounds = Cluster(self._options.connection).bounds(places)
        return {place.partition: each for place, each in bounds.items()}

    def _log_id(self) -> str:
        log = self._topics.log
        return self._sinks.admin(self._options.connection).ids([log])[log]

    def _require_whole(self, log: _Log) -> None:
        """Raise ``InputError`` when the log has lost records since ``log`` was read, or is another topic.

        The records that were read since may be incomplete then.
        """
        now = self._bounds()
        if self._log_id() != log.id or any(now[number].low > log.bounds[number].low for number in now):
            raise InputError(
                f"Retention has removed records of {self._topics.log} while they were read, or it was made "
                "anew. So rows may be missing from what was written, and no progress was stored. Run this "
                "again; if it is refused then, drop the feed and create it anew, on other topics."
            )

    def _tables(
        self, definition: FeedDefinition, descriptors: Iterable[DescriptorUpdate]
    ) -> Sequence[KnownTable]:
        """Return the feed's tables, found by their descriptors.

        Raises ``InputError`` for tables without a descriptor, ``FeedError`` for tables that the feed cannot
        have.
        """
        rows = rows_by(descriptors)
        known = known_tables(definition.tables, rows.catalog)
        missing = [str(name) for name in definition.tables if name not in dict(known)]
        if missing:
            raise InputError(
                f"Feed {definition.id} cannot begin: {missing_tables(missing, rows.unfit_tables())}. Drop it "
                "first. Nothing was written by this run."
            )
        reason = unsupported(known, rows, definition.options)
        if reason:
            raise FeedError(reason)
        return [KnownTable(name, table.id) for name, table in known]

    def _run_over(self, log: _Log, activation: Activate, cluster: str = OWN) -> OneFeed:
        run = uuid.uuid4().hex
        query = Query(
            run,
            self._options.connection,
            self._topics.log,
            self._partitions,
            f"{self._options.work}/{run}",
            _CONFIG,
            whole_checkpoints_only=True,
            access=self._options.access,
        )
        return run_over(map(self._slice, log.slices), query, activation, cluster)

    def _survey(
        self, log: _Log, definition: FeedDefinition, tables: Sequence[KnownTable], start: Timestamp | None
    ) -> tuple[OneFeed, Timestamp]:
        """Return the survey of the log for a scan at ``start``, and the base of that scan.

        Without ``start`` the scan is at the last moment up to which the log is complete. The base is zero for
        a log that holds everything. Raises ``InputError`` if no scan can be made of the log.
        """
        run, rows = partial(self._run_over, log), rows_by(log.descriptors)
        first = survey(run, definition, tables, rows, ZERO, start)
        if not first.failure and first.complete_to(ZERO) > ZERO:
            return first, ZERO
        keys = [table_span(known.table_id) for known in tables]
        shortened = [number for number, each in log.bounds.items() if each.low > 0]
        scanned = scanned_keys(log.records, self._partitions, keys, shortened)
        upto = MAX if start is None else start
        for _ in range(_BASES):
            base = base_of(scanned, keys, upto)
            if base == ZERO:
                break
            known = survey(run, definition, tables, rows, base, start)
            complete = known.complete_to(base)
            if not known.failure and complete > base:
                lower = base_of(scanned, keys, complete) if start is None else base
                if lower == base:
                    return known, base
                upto = complete  # the scan is at ``complete`` now: scans above it cannot be its base
            else:
                scanned = [each for each in scanned if each.at < base]
        if first.failure:
            raise InputError(f"The log is not enough for a scan of the tables: {first.failure}. {_INSTEAD}")
        return first, ZERO

    def _require_topics(self, definition: FeedDefinition) -> None:
        """Raise ``FeedError`` for topics that the feed cannot have.

        Raises ``InputError`` while a former feed may still write to them.
        """
        if fault := self._preparation.fault(definition):
            raise FeedError(fault)
        while (former := self._preparation.former_owner(definition)) is not None:
            ended = self._jobs.view[former].definition
            if ended is None or not self._is_forgotten(ended):
                raise InputError(
                    f"Feed {former}, which has ended, is still known to some log partition: its topics are "
                    "not free yet. Run this again when the engine that had it has heard of that."
                )
            self._markers.shut_out(ended, definition)
            self._shut_out.add(former)

    def _is_gone(self, definition: FeedDefinition) -> bool:
        """Return whether a feed that has ended can write nothing any more."""
        return definition.id in self._shut_out and self._is_forgotten(definition)

    def _is_forgotten(self, definition: FeedDefinition) -> bool:
        if definition.engine is Engine.BACKFILL:
            return True  # no partition ever had it
        acks = Acknowledgements(definition.epoch)
        for ack in read_acks(self._options.connection, self._topics.control_acks, self._partitions):
            if ack.feed_id == definition.id:
                acks.add(ack)
        return is_forgotten(acks.by_partition(), self._partitions)

    def _require_complete(
        self, survey: OneFeed, complete: Timestamp, start: Timestamp | None, base: Timestamp
    ) -> None:
        """Raise ``InputError`` when the log is not complete above ``base`` up to ``start``."""
        if complete > base and (start is None or start <= complete):
            return
        if self._feed.current_state is not None:
            raise InputError(
                f"The log is complete up to {complete} only, and an earlier run has begun to write a scan at "
                f"{start}: retention has removed since what that run has read. Drop feed {self._feed_id}, "
                "and create it anew on other topics."
            )
        if complete > ZERO and start is not None:
            raise InputError(
                f"The log is complete up to {complete} only, and the scan is at {start}. Run this again when "
                "more has come."
            )
        raise InputError(
            f"The log does not hold all versions of {', '.join(map(str, survey.tables))}. {_lack(survey)} "
            f"{_INSTEAD}"
        )

    def _require_recent(self, survey: OneFeed, complete: Timestamp, definition: FeedDefinition) -> None:
        """Raise ``InputError`` for a scan long before the log's end, unless a cursor asks for that moment."""
        behind_s = survey.log_time_ms / 1_000 - complete.wall / NANOS_PER_SECOND
        if definition.options.cursor is None and behind_s > _BEHIND_S:
            raise InputError(
                f"The log is complete up to {complete} only, {behind_s:.0f} s before its end: an open "
                "transaction or a hole of some range holds it there; see the lines above. Run this again "
                "later, or give that time as the cursor of a new feed, for a scan as of then."
            )


def _require_past(definition: FeedDefinition) -> None:
    """Raise ``StatementError`` for a feed that begins at the present, and so has no past."""
    options = definition.options
    if options.cursor is None and options.initial_scan is InitialScan.NO:
        raise StatementError(
            "A feed without cursor and without initial scan begins at the present, and has no past to "
            "backfill: give it one of them, or create it with `tidegate feed create`."
        )


def _up_to(report: PartitionProgress, start: Timestamp) -> PartitionProgress:
    """Return the report with no resolved timestamp above ``start``, since only the rows of a scan at
    ``start`` were written.
    """
    limit = ResolvedTimestamp(start)
    return replace(report, resolved=[min(each, limit) for each in report.resolved])


def _lack(feed: OneFeed) -> str:
    """Return a sentence that says what is missing in the log."""
    if feed.needed_scans:
        scan = min(feed.needed_scans, key=lambda scan: scan.range_id)
        return (
            f"Range {scan.range_id} lacks versions of its keys up to {scan.upto}: from before its part of "
            "the log, or of a range that it came from."
        )
    return "No range has reported some of their keys, or none has come so far."


def _descriptors(values: Iterable[bytes]) -> Iterator[DescriptorUpdate]:
    """Yield the descriptors that can be read. The processors treat unreadable ones as holes."""
    for value in values:
        with suppress(MalformedEntry):
            update = decode_entry(encode_key(BROADCAST), value)
            if isinstance(update, DescriptorUpdate):
                yield update
