"""Feeds: create, list, wait for and drop them, by the records of the jobs topic."""

from __future__ import annotations

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

_APPEARED_EVERY_S: Final = 0.5  # how often a topic that is waited for is looked for

_LIMIT_BYTES: Final = 1_000_000
_WAITS_FOR: Final = {
    Engine.WORKERS: "it goes on as soon as workers serve every log partition.",
    Engine.SPARK: "it goes on as soon as the application's Spark query runs (`tidegate spark changefeed`).",
    Engine.BACKFILL: "it goes on when `tidegate spark backfill` is run again with the same statement.",
}

#: A new feed is in one of these once it is known what became of it.
SETTLED: Final = frozenset({FeedState.RUNNING}) | ENDED


def jobs_topic(app_id: str) -> str:
    """The topic of an application's feeds."""
    return Topics(app_id, "").jobs


class Jobs:
    """The feeds of one application.

    The constructor raises ``InputError`` when no worker has created the jobs topic; it waits ``appear_s``
    seconds for one to do so, and calls ``waits`` once if it has to wait. See ``create_topic`` for feeds that
    are to be there before the first worker. Every method raises ``BrokerUnavailable`` after a bounded wait,
    and ``StateError`` for records of a newer version.
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
        """Create the application's jobs topic as its first worker would; whether it was missing.

        It has as many copies as the brokers give by default. Raises ``TopologyError`` when it cannot be
        created, ``RetryError`` when no broker answers.
        """
        admin = open_admin(connection, connection.timeout_s)
        return admin.create_unless_there(Topics(app_id, "").jobs_spec) is None

    def _appeared(self, *, last_try: bool) -> bool:
        """Whether the topic is there. ``InputError`` when it is not and this is the last try."""
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
        """Ask for a feed; returns when that is durable. ``wait`` tells what comes of it.

        Raises ``InputError`` for one whose engine cannot take its rows, and ``StatementError`` for one that
        holds secrets, unless the environment allows them.
        """
        if not literal_secrets_allowed():
            require_references(definition)
        if fault := known_fault(definition.options, definition.engine):
            raise InputError(f"Nothing was created: {fault}.")
        record = DefinitionRecord(definition)
        write_record(self._connection, self._place, record.key, record.to_bytes())

    def drop(self, feed_id: FeedId) -> None:
        """Ask for the end of a feed; returns when that is durable. ``InputError`` for an unknown feed."""
        self.feed(feed_id)
        record = DropRecord(feed_id, requested_ns=time.time_ns())
        write_record(self._connection, self._place, record.key, record.to_bytes())

    def move(self, feed_id: FeedId, engine: Engine) -> None:
        """Ask for the feed to go on on another engine (step H1 of docs/hand-over.md); returns when that is
        durable. ``wait`` tells when it does.

        Raises ``InputError`` for a feed that cannot be moved, or that somebody else moves at the same time.
        """
        self._begin_epoch(feed_id, lambda feed: _moved(feed_id, feed, engine))

    def accept(self, known: FeedDefinition, accepted: FeedDefinition) -> None:
        """Ask for the feed to go on on another Kafka cluster (step N1 of docs/accept-cluster.md), by its next
        definition; returns when that is durable. ``wait`` tells when it does.

        Raises ``InputError`` where the feed's definition is not the ``known`` one any more.
        """
        self._begin_epoch(known.id, lambda feed: _accepted(feed, known, accepted))

    def _begin_epoch(self, feed_id: FeedId, next_of: Callable[[FeedView], FeedDefinition]) -> None:
        """Write the definition that follows from the feed as it is, unless another one is faster."""
        self.feed(feed_id)
        transactional_id = f"{self._place.topic}-move-{feed_id}"
        config = transactional(transactional_id, _LIMIT_BYTES)
        producer = TransactionalProducer(
            self._connection.open(Producer, config), transactional_id, _LIMIT_BYTES
        )
        try:
            producer.open()  # who reads the feed after this writes alone
            record = DefinitionRecord(next_of(self.feed(feed_id)))
            producer.commit([Record(*self._place, record.key, record.to_bytes())])
        except DeliveryError as error:
            raise InputError(
                f"Somebody else moves feed {feed_id}, or has it go on on another cluster, and this came too "
                f"late: nothing was asked for. Look where it is with `tidegate feed show {feed_id}` "
                f"({error})."
            ) from None
        finally:
            producer.close()

    def view(self) -> JobsView:
        """All feeds as they are now."""
        return self._read(self._connection.timeout_s)

    def feed(self, feed_id: FeedId) -> FeedView:
        """One feed as it is now. ``InputError`` for an unknown one."""
        feed = self.view()[feed_id]
        if feed.definition is None:
            raise InputError(f"There is no feed {feed_id}; `tidegate feed list` shows those that there are.")
        return feed

    def wait(self, feed_id: FeedId, timeout_s: float) -> FeedView:
        """The feed once it runs or has ended. ``RetryError`` when that takes too long."""
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
        """One feed from now on, without reading the topic anew for each look; for a ``with``."""
        with self._reading() as reading:
            yield FeedWatch(reading, feed_id)

    def _read(self, timeout_s: float, enough: Callable[[JobsView], bool] = lambda _: True) -> JobsView:
        """The topic as it stands, and on from there until ``enough`` or the time is over.

        Raises ``BrokerUnavailable`` when not even all that stands there comes in the connection's time.
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


def _moved(feed_id: FeedId, feed: FeedView, engine: Engine) -> FeedDefinition:
    """The next epoch's definition. ``InputError`` for a feed that cannot be moved."""
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
    if fault := known_fault(defined.options, engine):
        raise InputError(f"Feed {feed_id} cannot go on on {engine.value}: {fault}.")
    return replace(defined, epoch=FeedEpoch(defined.epoch + 1), engine=engine)


def _accepted(feed: FeedView, known: FeedDefinition, accepted: FeedDefinition) -> FeedDefinition:
    """The next epoch's definition. ``InputError`` for a feed that is not as it was looked at."""
    if feed.defined != known or feed.status in ENDED:
        raise InputError(
            f"Feed {known.id} has changed meanwhile, and nothing was asked for. Look at it with `tidegate "
            f"feed show {known.id}`."
        )
    return accepted


class JobsReading:
    """The jobs topic from its beginning on, folded into ``view``. ``reader`` reads nothing else.

    ``end`` is where it ended when the reading began. The view is ``complete`` once all that stood before it
    was read; until then it shows history: a feed that was dropped and created anew, say.
    """

    def __init__(self, reader: PartitionReader, end: int) -> None:
        self._reader = reader
        self._end = end
        self.view = JobsView()
        self.complete = False

    @property
    def last_error(self) -> str:
        """What the broker's client complained of last."""
        return self._reader.last_error

    def poll(self, timeout_s: float = POLL_S) -> None:
        """Take in what has come, at the latest after ``timeout_s``.

        A record that tidegate did not write is reported and passed over. Raises ``StateError`` for records of
        a newer version.
        """
        for record in self._reader.poll(timeout_s):
            try:
                self.view.apply(record.key, record.value)
            except Exception as error:
                report_foreign(record, foreign(error))
            self.complete |= record.offset + 1 >= self._end
        # The last offset may have no record; but a reader finds an end only where nothing came for a moment.
        self.complete |= self._reader.at_end

    def read_to(self, end: int, timeout_s: float) -> bool:
        """Whether all that stands below ``end`` is in the view, at the latest after ``timeout_s``.

        Where ``end`` is that of an uncommitted reader, transactions that were open then must end before.
        """
        last = time.monotonic() + timeout_s
        while max(self._reader.positions.values()) < end and time.monotonic() < last:
            self.poll()
        return max(self._reader.positions.values()) >= end


class FeedWatch:
    """One feed as its records come."""

    def __init__(self, reading: JobsReading, feed_id: FeedId) -> None:
        self._reading = reading
        self._feed_id = feed_id

    def look(self) -> FeedView | None:
        """The feed as far as its records have come in; waits for nothing. ``None`` amid the history.

        Raises ``StateError`` for records of a newer version.
        """
        self._reading.poll(0)
        return self._reading.view[self._feed_id] if self._reading.complete else None


def literal_secrets_allowed() -> bool:
    """Whether TIDEGATE_LITERAL_SECRETS lets secrets be stored in definitions of feeds."""
    return os.environ.get("TIDEGATE_LITERAL_SECRETS", "").lower() in ("1", "true", "yes")
