"""Tells whether the feeds of a reading had ended when their records were read.

A later feed gets the topics of a feed only once that has ended, and no record tells its feed
(docs/protocols/topics-that-change-owners.md). So whoever has read records asks the jobs topic. If the feed
has not ended by then, all of them are its own. If it has, they are its own up to its high-water.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Final, NamedTuple

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidegate.changefeed.definition.feed import ENDED, FeedId
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


class JobsPlace(NamedTuple):
    """Where the state of feeds stands: their application, and the connection to its workers' cluster."""

    connection: KafkaConnection
    app_id: str


class EndedFeed(NamedTuple):
    """The end of a feed: no marker of it is above ``high_water``."""

    feed_id: FeedId
    high_water: Timestamp


class EndedFeeds:
    """The ends of the ``feeds`` of an application. Close it. One thread uses it."""

    def __init__(self, application: JobsPlace, feeds: Collection[FeedId]) -> None:
        self._connection = application.connection
        self._feeds = frozenset(feeds)
        self._place = TopicPartition(jobs_topic(application.app_id), 0)
        self._admin = application.connection.open(AdminClient)
        self._asked: Future[Any] | None = None
        self._reader: PartitionReader | None = None
        self._reading: JobsReading | None = None

    def ask(self) -> None:
        """Ask where the jobs topic ends now. What was asked before does not count any more."""
        place = confluent_kafka.TopicPartition(*self._place)
        committed = IsolationLevel.READ_COMMITTED
        answers = self._admin.list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=committed, request_timeout=_ASK_S
        )
        self._asked = answers[place]

    def look(self, timeout_s: float) -> bool:
        """Read what stood on the jobs topic at the last `ask`; return whether that succeeded in time.

        Raises ``InputError`` if this user may not read the topic.
        """
        until = time.monotonic() + timeout_s
        end = self._end_of_topic(timeout_s)
        if end is None:
            return False
        try:
            reading, reader = self._opened(end)
            reader.resume(self._place)
            while reader.positions[self._place] < end:
                reading.poll(max(0.0, until - time.monotonic()))
                if time.monotonic() >= until and reader.positions[self._place] < end:
                    return False
        except RetryError:  # Kafka is away: what was asked for is read the next time
            return False
        reader.pause(self._place)  # the client would fetch progress ahead, and keep it
        return True

    def first(self) -> EndedFeed | None:
        """Return the lowest end, as of the last `look`; ``None`` if no feed has ended."""
        assert self._reading is not None
        view = self._reading.view
        ends = [EndedFeed(each, promised(view[each])) for each in self._feeds if view[each].status in ENDED]
        return min(ends, key=lambda end: (end.high_water, end.feed_id), default=None)

    def _opened(self, end: int) -> tuple[JobsReading, PartitionReader]:
        if self._reading is None or self._reader is None:
            low = Cluster(self._connection).bounds([self._place])[self._place].low
            self._reader = PartitionReader(self._connection, {self._place: low})
            self._reading = JobsReading(self._reader, end)
        return self._reading, self._reader

    def close(self) -> None:
        """Close the clients."""
        if self._reader is not None:
            self._reader.close()

    def _end_of_topic(self, timeout_s: float) -> int | None:
        assert self._asked is not None
        wait([self._asked], timeout_s)
        if not self._asked.done():
            return None
        try:
            offset: int = self._asked.result().offset
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise self._connection.failed(f"asking where {self._place.topic} ends", error) from None
            # Others pass, those of a broker that has just come back too: its leader epoch, for example.
            _LOGGER.info("a subscription waits for the end of %s: %s", self._place.topic, error.str())
            if names_former_leader(error):
                with suppress(KafkaException):
                    learn_leaders(self._admin, [self._place.topic], _ASK_S)
            offset = confluent_kafka.OFFSET_INVALID
        if offset != confluent_kafka.OFFSET_INVALID:
            return offset
        time.sleep(min(timeout_s, _AGAIN_S))  # Kafka is away: it is asked again
        self.ask()
        return None
