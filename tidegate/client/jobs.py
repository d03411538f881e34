"""Creates, lists, waits for and drops feeds by the records of the jobs topic."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from confluent_kafka import Producer

from tidegate.changefeed.definition.feed import ENDED, Engine, FeedDefinition, FeedEpoch, FeedId, FeedState
from tidegate.changefeed.definition.literal_secrets import require_references
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, DropRecord
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.client.foreign_records import foreign, report_foreign
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import POLL_S, PartitionReader
from tidegate.client.kafka.record_limit import known_fault
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import Record, TransactionalProducer, transactional
from tidegate.client.kafka.writer import write_record
from tidegate.errors import DeliveryError, InputError, RetryError
from tidegate.verify import TopicPartition

_log: Final = logging.getLogger("tidegate.jobs")
_APPEARED_EVERY_S: Final = 0.5  # how often to look for a topic that does not exist yet

_LIMIT_BYTES: Final = 1_000_000
_WAITS_FOR: Final = {
    Engine.WORKERS: "it goes on as soon as workers serve every log partition.",
    Engine.SPARK: "it goes on as soon as the application's Spark query runs (`tidegate spark changefeed`).",
    Engine.BACKFILL: "it goes on when `tidegate spark backfill` is run again with the same statement.",
}

#: States in which the fate of a new feed is known.
SETTLED: Final = frozenset({FeedState.RUNNING}) | ENDED


def jobs_topic(app_id: str) -> str:
    """Return the name of an application's jobs topic."""
    return Topics(app_id, "").jobs


class Jobs:
    """The feeds of one application.

    If the jobs topic does not exist, the constructor waits up to ``appear_s`` seconds for a worker to create
    it. If it has to wait, it first calls ``waits`` once. If the topic does not exist after that, it raises
    ``InputError``. ``create_topic`` creates the topic for feeds that are defined before the first worker
    runs. Every method raises ``BrokerUnavailable`` after a bounded wait, and ``StateError`` for records of a
    newer version.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        app_id: str,
        *,
        appear_s: float = 0.0,
        waits: Callable[[], object] = lambda: None,
    ) -> None:
        self._connection = connection
        self._place = TopicPartition(jobs_topic(app_id), 0)
        self._cluster = Cluster(connection)
        end = time.monotonic() + appear_s
        if not self._appeared(last_try=appear_s <= 0):
            waits()
            while not self._appeared(last_try=time.monotonic() >= end):
                time.sleep(_APPEARED_EVERY_S)

    @staticmethod
    def create_topic(connection: KafkaConnection, app_id: str) -> bool:
        """Create the application's jobs topic as its first worker would; return whether it was missing.

        The topic has the brokers' default replication. Raises ``TopologyError`` when it cannot be created,
        ``RetryError`` when no broker answers.
        """
        admin = open_admin(connection, connection.timeout_s)
        return admin.create_unless_there(Topics(app_id, "").jobs_spec) is None

    def _appeared(self, *, last_try: bool) -> bool:
        """Return whether the topic exists.

        Raises ``InputError`` when it does not and this is the last try.
        """
        try:
            self._cluster.partition_counts([self._place.topic])
        except InputError as missing:
            if not last_try:
                return False
            raise InputError(
                f"{missing} The first worker of an application creates it: start one with `tidegate"
                " worker`, or check --app-id. `tidegate feed create --no-wait` creates it as well."
            ) from None
        return True

    def create(self, definition: FeedDefinition) -> None:
        """Ask for a feed; return once that is durable. ``wait`` tells whether it runs.

        Raises ``InputError`` for a feed whose engine cannot deliver its rows, and ``StatementError`` for one
        that holds secrets, unless the environment allows them.
        """
        if not literal_secrets_allowed():
            require_references(definition)
        if fault := known_fault(definition.options, definition.engine):
            raise InputError(f"Nothing was created: {fault}.")
        record = DefinitionRecord(definition)
        write_record(self._connection, self._place, record.key, record.to_bytes())

    def drop(self, feed_id: FeedId) -> None:
        """Ask for the end of a feed; return once that is durable.

        Raises ``InputError`` for an unknown feed.
        """
        self.feed(feed_id)
        record = DropRecord(feed_id, requested_ns=time.time_ns())
        write_record(self._connection, self._place, record.key, record.to_bytes())

    def move(self, feed_id: FeedId, engine: Engine) -> None:
        """Ask that the feed continues on another engine (step H1 of docs/protocols/hand-over.md); return once
        that is durable.

        ``wait`` tells when it does. Raises ``InputError`` for a feed that cannot be moved, or that somebody
        else moves at the same time.
        """
        self._begin_epoch(feed_id, lambda feed: _moved(feed_id, feed, engine))

    def accept(self, known: FeedDefinition, accepted: FeedDefinition) -> None:
        """Ask that the feed continues on another Kafka cluster, by its next definition; return once that is
        durable.

        That is step N1 of docs/protocols/accept-cluster.md. ``wait`` tells when it does. Raises
        ``InputError`` if the feed's definition is not the ``known`` one any more.
        """
        self._begin_epoch(known.id, lambda feed: _accepted(feed, known, accepted))

    def _begin_epoch(self, feed_id: FeedId, next_of: Callable[[FeedView], FeedDefinition]) -> None:
        """Write the definition that ``next_of`` makes of the feed's present state.

        Raises ``InputError`` if another writer was faster: then nothing is written.
        """
        self.feed(feed_id)
        transactional_id = f"{self._place.topic}-move-{feed_id}"
        config = transactional(transactional_id, _LIMIT_BYTES)
        producer = TransactionalProducer(
            self._connection.open(Producer, config), transactional_id, _LIMIT_BYTES
        )
        try:
            producer.open()  # from here on no other writer can commit
            record = DefinitionRecord(next_of(self.feed(feed_id)))
            ends = producer.commit([Record(*self._place, record.key, record.to_bytes())])
        except DeliveryError as error:
            raise InputError(
                f"Somebody else moves feed {feed_id}, or has it continue on another cluster, and this came "
                f"too late: nothing was asked for. Look where it is with `tidegate feed show {feed_id}` "
                f"({error})."
            ) from None
        finally:
            producer.close()
        self._await_visible(feed_id, ends[self._place])

    def _await_visible(self, feed_id: FeedId, end: int) -> None:
        """Wait until committed readers see what was committed below ``end``.

        Kafka acknowledges a commit before it has told the partitions of it. Without this, ``feed`` may show
        the state before the commit.
        """
        with self._reading() as reading:
            if not reading.read_to(end, self._connection.timeout_s):
                _log.warning(
                    "the new epoch of feed %s is committed, and not visible yet after %g s",
                    feed_id,
                    self._connection.timeout_s,
                )

    def view(self) -> JobsView:
        """Return all feeds as they are now."""
        return self._read(self._connection.timeout_s)

    def feed(self, feed_id: FeedId) -> FeedView:
        """Return one feed as it is now. Raises ``InputError`` for an unknown feed."""
        return known_feed(self.view(), feed_id)

    def wait(self, feed_id: FeedId, timeout_s: float) -> FeedView:
        """Return the feed once it runs or has ended. Raises ``RetryError`` when that takes too long."""
        view = self._read(timeout_s, lambda view: view[feed_id].status in SETTLED)
        feed = view[feed_id]
        if feed.status not in SETTLED:
            waits_for = "" if feed.current_state is None else feed.current_state.error
            cause = waits_for or _WAITS_FOR[feed.defined.engine if feed.defined else Engine.WORKERS]
            raise RetryError(
                f"Feed {feed_id} is still {feed.status.value} after {timeout_s:g} s; {cause} Look again with"
                f" `tidegate feed show {feed_id}`."
            )
        return feed

    @contextmanager
    def watch(self, feed_id: FeedId) -> Iterator[FeedWatch]:
        """Yield a watch of one feed, which does not read the whole topic again for each look."""
        with self._reading() as reading:
            yield FeedWatch(reading, feed_id)

    def _read(self, timeout_s: float, enough: Callable[[JobsView], bool] = lambda _: True) -> JobsView:
        """Read the topic up to its end, and then on until ``enough`` or the time is over.

        Raises ``BrokerUnavailable`` when not even the records up to the end come within the connection's
        time.
        """
        begun = time.monotonic()
        with self._reading() as reading:
            while not (reading.complete and enough(reading.view)):
                reading.poll()
                waited_s = time.monotonic() - begun
                if reading.complete and waited_s > timeout_s:
                    break
                if waited_s > max(timeout_s, self._connection.timeout_s):
                    raise self._connection.away(f"reading {self._place.topic}", reading.last_error)
            return reading.view

    @contextmanager
    def _reading(self) -> Iterator[JobsReading]:
        bounds = self._cluster.bounds([self._place])[self._place]
        with PartitionReader(self._connection, {self._place: bounds.low}) as reader:
            yield JobsReading(reader, bounds.end)


def known_feed(jobs: JobsView, feed_id: FeedId) -> FeedView:
    """Return one feed of ``jobs``. Raises ``InputError`` for an unknown feed."""
    feed = jobs[feed_id]
    if feed.definition is None:
        raise InputError(f"There is no feed {feed_id}; `tidegate feed list` shows those that there are.")
    return feed


def _moved(feed_id: FeedId, feed: FeedView, engine: Engine) -> FeedDefinition:
    """Return the next epoch's definition. Raises ``InputError`` for a feed that cannot be moved."""
    defined = feed.defined
    assert defined is not None
    if feed.status in ENDED:
        raise InputError(f"Feed {feed_id} has {feed.status.value}: there is nothing to move.")
    if defined.engine is engine:
        raise InputError(f"Feed {feed_id} runs on {engine.value} already.")
    if not feed.targets:
        raise InputError(
            f"Feed {feed_id} has not begun yet, so nothing of it can be moved: drop it, and create it with "
            f"--engine {engine.value}."
        )
    if feed.status is FeedState.STARTING:
        raise InputError(
            f"Feed {feed_id} is starting, and log partitions are held until it runs. Move it then; `tidegate "
            f"feed show {feed_id}` says when."
        )
    if fault := known_fault(defined.options, engine):
        raise InputError(f"Feed {feed_id} cannot continue on {engine.value}: {fault}.")
    return replace(defined, epoch=FeedEpoch(defined.epoch + 1), engine=engine)


def _accepted(feed: FeedView, known: FeedDefinition, accepted: FeedDefinition) -> FeedDefinition:
    """Return the next epoch's definition.

    Raises ``InputError`` for a feed that has changed since it was looked at.
    """
    if feed.defined != known or feed.status in ENDED:
        raise InputError(
            f"Feed {known.id} has changed meanwhile, and nothing was asked for. Look at it with `tidegate "
            f"feed show {known.id}`."
        )
    return accepted


class JobsReading:
    """Reads the jobs topic from its beginning on, and keeps the feeds in ``view``.

    ``reader`` reads the jobs topic alone. ``end`` is where the topic ended when the reading began. The view
    is ``complete`` once everything below ``end`` was read. Until then it shows the past, for example a feed
    that was dropped since.
    """

    def __init__(self, reader: PartitionReader, end: int) -> None:
        self._reader = reader
        self._end = end
        self.view = JobsView()
        self.complete = False

    @property
    def last_error(self) -> str:
        """The last error that the Kafka client has reported; empty if there was none."""
        return self._reader.last_error

    def poll(self, timeout_s: float = POLL_S) -> None:
        """Take in the records that have come; return after ``timeout_s`` at the latest.

        A record that tidegate did not write is reported and passed over. Raises ``StateError`` for records of
        a newer version.
        """
        for record in self._reader.poll(timeout_s):
            try:
                self.view.apply(record.key, record.value)
            except Exception as error:
                report_foreign(record, foreign(error))
            self.complete |= record.offset + 1 >= self._end
        # The last offset may have no record, so the end that the reader finds counts too.
        self.complete |= self._reader.at_end

    def read_to(self, end: int, timeout_s: float) -> bool:
        """Read until everything below ``end`` is in the view; return whether that succeeded within
        ``timeout_s``.

        If ``end`` is the end for an uncommitted reader, the transactions that are open below it have to end
        first.
        """
        last = time.monotonic() + timeout_s
        while max(self._reader.positions.values()) < end and time.monotonic() < last:
            self.poll()
        return max(self._reader.positions.values()) >= end


class FeedWatch:
    """One feed, followed as its records come."""

    def __init__(self, reading: JobsReading, feed_id: FeedId) -> None:
        self._reading = reading
        self._feed_id = feed_id

    def look(self) -> FeedView | None:
        """Return the feed from the records that have come so far, without waiting.

        Returns ``None`` while the past is still being read. Raises ``StateError`` for records of a newer
        version.
        """
        self._reading.poll(0)
        return self._reading.view[self._feed_id] if self._reading.complete else None


def literal_secrets_allowed() -> bool:
    """Return whether TIDEGATE_LITERAL_SECRETS lets definitions of feeds hold secrets."""
    return os.environ.get("TIDEGATE_LITERAL_SECRETS", "").lower() in ("1", "true", "yes")
