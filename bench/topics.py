"""Topics of the measurements: filled, watched, and read back with the broker's own time of each record.

Output topics are created with ``LogAppendTime``: the broker stamps each record when it takes it, so that
rates are exact, and no reader competes for the processor.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sim.log.kafka_sink import KafkaSink
from sim.log.sink import WrittenRecord
from tidegate.errors import RetryError

_REQUEST_S: Final = 30.0
_APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
_LOOK_AGAIN_S: Final = 0.25
_QUIET_S: Final = 3.0
_SILENCE_S: Final = 30.0
_RECORDS: Final = 10_000


class Written(NamedTuple):
    """The number of rows that were written, and when the first and the last of them were: seconds by the
    broker's clock."""

    rows: int
    first_s: float
    last_s: float


class BenchTopics:
    """The topics of one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._watcher = self._consumer()

    def close(self) -> None:
        """Close the clients of the broker, before the broker stops."""
        self._watcher.close()
        del self._admin

    def create(self, name: str, partitions: int, *, stamped: bool = False) -> None:
        """Create a topic; with ``stamped`` its records have the broker's time."""
        topic = NewTopic(name, partitions, 1, config=_APPEND_TIME if stamped else {"retention.ms": "-1"})
        self._admin.create_topics([topic])[name].result(_REQUEST_S)

    def fill(self, topic: str, records: Iterable[WrittenRecord]) -> None:
        """Write log records; all of them are durable when it returns."""
        with closing(KafkaSink(self.bootstrap, topic)) as sink:
            for record in records:
                sink.append(*record)
            sink.flush()

    def size(self, topics: Sequence[str]) -> int:
        """Return the number of records in the topics by their offsets, control records included."""
        return sum(_end(self._watcher, place) for place in self._places(topics))

    def wait_until_quiet(
        self, topics: Sequence[str], rows: int, look: Callable[[int], None], timeout_s: float
    ) -> None:
        """Return once the topics hold ``rows`` records and have not grown for a while.

        ``look`` is called with their size again and again, and may raise. Raises ``RetryError`` when the wait
        takes too long.
        """
        deadline = time.monotonic() + timeout_s
        size, grown = -1, time.monotonic()
        while size < rows or time.monotonic() - grown < _QUIET_S:
            time.sleep(_LOOK_AGAIN_S)
            now = self.size(topics)
            look(now)
            if now > size:
                size, grown = now, time.monotonic()
            if time.monotonic() > deadline:
                raise RetryError(
                    f"{', '.join(topics)} hold {size} of {rows} records after {timeout_s:.0f} s: the machine "
                    "is too busy, or what is measured does not work"
                )

    def written(self, topics: Sequence[str]) -> Written:
        """Return how many rows the topics have; markers do not count. Raises ``RetryError`` when there are
        none."""
        times = [message.timestamp()[1] for message in self.messages(topics) if message.key() is not None]
        if not times:
            raise RetryError(f"nothing was written to {', '.join(topics)}")
        return Written(len(times), min(times) / 1e3, max(times) / 1e3)

    def messages(self, topics: Sequence[str]) -> Iterator[Any]:
        """Yield every committed record of the topics, as the client gives them."""
        consumer = self._consumer()
        try:
            places = self._places(topics)
            open_ends = set()
            for place in places:
                if _end(consumer, place):
                    open_ends.add((place.topic, place.partition))
            consumer.assign(places)
            yield from _to_the_end(consumer, open_ends)
        finally:
            consumer.close()

    def follow(self, topics: Sequence[str], ended: threading.Event) -> Iterator[list[Any]]:
        """Yield what is committed to the topics from their beginning on, as it comes, until ``ended`` is
        set."""
        consumer = self._consumer({"fetch.wait.max.ms": 10})
        try:
            consumer.assign(self._places(topics))
            while not ended.is_set():
                messages = consumer.consume(_RECORDS, timeout=0.01)
                yield [message for message in messages if message.error() is None]
        finally:
            consumer.close()

    def _places(self, topics: Sequence[str]) -> list[TopicPartition]:
        known = self._admin.list_topics(timeout=_REQUEST_S).topics
        return [
            TopicPartition(topic, partition, OFFSET_BEGINNING)
            for topic in topics
            for partition in known[topic].partitions
        ]

    def _consumer(self, settings: Mapping[str, Any] | None = None) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"bench-{uuid.uuid4()}",  # the client requires a group; it never joins one
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                **(settings or {}),
            }
        )


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """Return the end of a partition. Ask again for a while, because a topic that was just created may not
    have a leader yet."""
    deadline = time.monotonic() + _REQUEST_S
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, timeout=_REQUEST_S)[1])
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_AGAIN_S)


def _to_the_end(consumer: Consumer, open_ends: set[tuple[str, int]]) -> Iterator[Any]:
    heard = time.monotonic()
    while open_ends:
        for message in consumer.consume(_RECORDS, timeout=1.0):
            heard = time.monotonic()
            if message.error() is None:
                yield message
            else:
                open_ends.discard((message.topic(), message.partition()))
        if time.monotonic() - heard > _SILENCE_S:
            raise RetryError(f"nothing more came of {sorted(open_ends)} for {_SILENCE_S:.0f} s")
