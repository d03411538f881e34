"""Tells whether the feeds of a reading had ended when their records were read.

A later feed gets the topics of a feed only after that feed has ended, and no record says which feed wrote it
(docs/protocols/topics-that-change-owners.md). So a reader reads the jobs topic after it has read records. If
the feed has not ended by then, all of these records are its own. If it has ended, the records up to its
high-water are its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Final, NamedTuple

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidegate.changefeed.definition.feed import ENDED, FeedId, FeedState
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.client.jobs import JobsReading, jobs_topic
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.listed_offsets import learn_leaders, names_former_leader
from tidegate.client.kafka.reader import PartitionReader
from tidegate.client.topic_ownership import promised
from tidegate.errors import RetryError
from tidegate.hlc import Timestamp
from tidegate.verify import TopicPartition

_LOGGER: Final = logging.getLogger("tidegate.subscribe")
_ASK_S: Final = 10.0
_AGAIN_S: Final = 0.5
_LEADERS_S: Final = 0.5  # a look that does not wait takes so long at most


class JobsPlace(NamedTuple):
    """The place of the state of feeds: their application, and the connection to its workers' cluster."""

    connection: KafkaConnection
    app_id: str


class EndedFeed(NamedTuple):
    """The end of a feed: no marker of it is above ``high_water``.

    ``reason`` says why it has failed; it is empty for a feed that has not.
    """

    feed_id: FeedId
    high_water: Timestamp
    state: FeedState
    reason: str


class SharedJobs:
    """The jobs topic of an application, read once for all gates of a process. Close it after them.

    Any thread may use it.
    """

    def __init__(self, application: JobsPlace) -> None:
        self._connection = application.connection
        self._place = TopicPartition(jobs_topic(application.app_id), 0)
        self._lock = threading.Lock()
        self._reader: PartitionReader | None = None
        self._reading: JobsReading | None = None

    def read_to(self, end: int, timeout_s: float) -> JobsView | None:
        """Read everything below an offset, and return the feeds; ``None`` if that did not succeed in time.

        Later calls add to the view that was returned. Raises as ``JobsReading.poll`` does; after that the
        next call begins anew.
        """
        until = time.monotonic() + timeout_s
        if not self._lock.acquire(timeout=timeout_s):
            return None  # another gate reads
        try:
            return self._read_to(end, until)
        except RetryError:  # Kafka is away: what was asked for is read the next time
            return None
        except BaseException:  # what was polled may not be in the view
            self._let_go()
            raise
        finally:
            self._lock.release()

    def _read_to(self, end: int, until: float) -> JobsView | None:
        reading, reader = self._opened(end)
        if reader.positions[self._place] >= end:
            return reading.view
        reader.resume(self._place)
        while reader.positions[self._place] < end:
            reading.poll(max(0.0, until - time.monotonic()))
            if time.monotonic() >= until and reader.positions[self._place] < end:
                return None
        reader.pause(self._place)  # the client would fetch progress ahead, and keep it
        return reading.view

    def _opened(self, end: int) -> tuple[JobsReading, PartitionReader]:
        if self._reading is None or self._reader is None:
            low = Cluster(self._connection).bounds([self._place])[self._place].low
            self._reader = PartitionReader(self._connection, {self._place: low})
            self._reading = JobsReading(self._reader, end)
        return self._reading, self._reader

    def close(self) -> None:
        """Close the client."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


class EndedFeeds:
    """The ends of the ``feeds`` of an application. Close it. One thread uses it.

    ``jobs`` reads the jobs topic for several objects of this class. By default each object reads it by
    itself.
    """

    def __init__(
        self, application: JobsPlace, feeds: Collection[FeedId], jobs: SharedJobs | None = None
    ) -> None:
        self._connection = application.connection
        self._feeds = frozenset(feeds)
        self._place = TopicPartition(jobs_topic(application.app_id), 0)
        self._admin = application.connection.open(AdminClient)
        self._asked: Future[Any] | None = None
        self._ask_at = 0.0  # monotonic; when to ask again after no answer
        self._jobs = jobs or SharedJobs(application)
        self._own_jobs = self._jobs if jobs is None else None
        self._view: JobsView | None = None

    def ask(self) -> None:
        """Ask at which offset the jobs topic ends now. Answers to earlier questions do not count any more."""
        place = confluent_kafka.TopicPartition(*self._place)
        committed = IsolationLevel.READ_COMMITTED
        answers = self._admin.list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=committed, request_timeout=_ASK_S
        )
        self._asked = answers[place]

    def look(self, timeout_s: float) -> bool:
        """Read the jobs topic up to where it ended at the last `ask`; return whether that succeeded in time.

        Raises ``InputError`` if this user may not read the topic.
        """
        until = time.monotonic() + timeout_s
        end = self._end_of_topic(timeout_s)
        if end is None:
            return False
        view = self._jobs.read_to(end, max(0.0, until - time.monotonic()))
        self._view = view or self._view
        return view is not None

    def first(self) -> EndedFeed | None:
        """Return the end with the lowest high-water, as of the last `look`; ``None`` if no feed has ended."""
        view = self._view
        assert view is not None
        ends = [_end_of(each, view[each]) for each in self._feeds if view[each].status in ENDED]
        return min(ends, key=lambda end: (end.high_water, end.feed_id), default=None)

    def close(self) -> None:
        """Close the clients."""
        if self._own_jobs is not None:
            self._own_jobs.close()

    def _end_of_topic(self, timeout_s: float) -> int | None:
        until = time.monotonic() + timeout_s
        if self._asked is None:  # Kafka was away
            time.sleep(max(0.0, min(until, self._ask_at) - time.monotonic()))
            if time.monotonic() < self._ask_at:
                return None
            self.ask()
        asked = self._asked
        assert asked is not None
        wait([asked], max(0.0, until - time.monotonic()))
        if not asked.done():
            return None
        try:
            offset: int = asked.result().offset
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise self._connection.failed(f"asking where {self._place.topic} ends", error) from None
            # Other errors pass, also those of a broker that has just come back, for example about its leader
            # epoch.
            _LOGGER.info("a subscription waits for the end of %s: %s", self._place.topic, error.str())
            if names_former_leader(error):
                with suppress(KafkaException):
                    learn_leaders(self._admin, [self._place.topic], _LEADERS_S)
            offset = confluent_kafka.OFFSET_INVALID
        if offset != confluent_kafka.OFFSET_INVALID:
            return offset
        self._asked, self._ask_at = None, time.monotonic() + _AGAIN_S
        return None


def _end_of(feed_id: FeedId, feed: FeedView) -> EndedFeed:
    failed = feed.current_state if feed.status is FeedState.FAILED else None
    return EndedFeed(feed_id, promised(feed), feed.status, "" if failed is None else failed.error)
