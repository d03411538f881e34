"""Reads committed records of partitions, one by one, without a consumer group."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import confluent_kafka
from confluent_kafka import Consumer, KafkaError

from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.record_headers import record_headers
from tidegate.errors import InputError, TidegateError
from tidegate.verify import TopicPartition, TopicRecord

_FETCHED_RECORDS: Final = 1_000
#: The seconds that one poll waits for records. A key press, or the end of a wait, may be noticed that much
#: later.
POLL_S: Final = 0.2
#: The time for which a broker holds back an answer without records. By such an answer it also tells of a new
#: end of a partition, for example when a transaction ends. librdkafka's default is 500.
_FETCH_WAIT_MS: Final = 100


class PartitionReader:
    """Reads the partitions in ``starts`` from these offsets on. Close it, or use it in a ``with``.

    ``last_error`` is the last error that librdkafka has reported, for error messages. ``watch`` gets
    librdkafka's log lines; it is given for an address that may come to mean another cluster.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        starts: Mapping[TopicPartition, int],
        watch: ClusterWatch | None = None,
    ) -> None:
        self.last_error = ""
        self._connection = connection
        self.consumer = connection.open(
            Consumer,
            {
                "group.id": f"tidegate-reader-{uuid.uuid4()}",  # never joined: librdkafka insists on one
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": _FETCH_WAIT_MS,
                "auto.offset.reset": "error",  # deleted records must not be passed over in silence
                "error_cb": self._note_error,
                **({} if watch is None else {"logger": watch}),
            },
        )
        self.assign(starts)

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read the partitions in ``starts`` from these offsets on, and no others."""
        self._unfinished = set(starts)
        #: The offsets at which reading goes on. Everything below was read, or is no record.
        self.positions = dict(starts)
        self._silent_s = 0.0
        self._unread: list[Any] = []  # messages that came after an error
        self.consumer.assign(
            [confluent_kafka.TopicPartition(*place, offset) for place, offset in starts.items()]
        )

    @property
    def at_end(self) -> bool:
        """Whether every partition was at its end when the broker last told."""
        return not self._unfinished

    def poll(self, timeout_s: float = POLL_S) -> list[TopicRecord]:
        """Return the records that have come; return after ``timeout_s`` at the latest.

        An error among them is raised once the records before it were returned. The next poll goes on
        after the error.
        """
        records: list[TopicRecord] = []
        messages, self._unread = self._unread or self._messages(timeout_s), []
        for number, message in enumerate(messages):
            place = TopicPartition(message.topic(), message.partition())
            error = message.error()
            if error is None:
                self._unfinished.add(place)
                self.positions[place] = message.offset() + 1
                records.append(_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - this is its public name
                self._unfinished.discard(place)
                self.positions[place] = max(self.positions[place], message.offset())
            elif records:
                self._unread = messages[number:]
                break
            else:
                self._unread = messages[number + 1 :]
                raise self._fault(f"{place.topic}[{place.partition}]", error)
        return records

    def _messages(self, timeout_s: float) -> list[Any]:
        # For several messages librdkafka waits until the time is over, even when the first have come.
        messages: list[Any] = self.consumer.consume(1, timeout=timeout_s)
        if messages:
            messages += self.consumer.consume(_FETCHED_RECORDS, timeout=0)
        self._silent_s = 0.0 if messages else self._silent_s + timeout_s
        return messages

    def read_to(self, ends: Mapping[TopicPartition, int]) -> Iterator[TopicRecord]:
        """Yield records below these offsets as they come; partitions interleave.

        Call `assign` before you read anything else. Raises ``BrokerUnavailable`` when nothing comes for the
        connection's timeout.
        """
        open_ends = dict(ends)
        while open_ends:
            for record in self.poll():
                place = TopicPartition(record.topic, record.partition)
                end = open_ends.get(place)
                if end is None:
                    continue
                if record.offset < end:
                    yield record
                if record.offset >= end - 1:
                    self._leave(place, open_ends)
            # A transaction's control record is never delivered, so the last offset may have no record. And a
            # leader that has just begun may name an end below one that was named before.
            for place in [place for place in open_ends if place not in self._unfinished]:
                if self.positions[place] >= open_ends[place]:
                    self._leave(place, open_ends)
            if self._silent_s > self._connection.timeout_s:
                raise self._connection.away("reading records", self.last_error)

    def take_notices(self) -> None:
        """Take in the client's notices so far, for example that another cluster answers.

        Call it while no partition is assigned.
        """
        while self.consumer.poll(0) is not None:
            continue

    def pause(self, place: TopicPartition) -> None:
        """Stop fetching a partition until ``resume``."""
        self.consumer.pause([confluent_kafka.TopicPartition(*place)])

    def resume(self, place: TopicPartition) -> None:
        """Go on with a partition that was paused."""
        self.consumer.resume([confluent_kafka.TopicPartition(*place)])

    def close(self) -> None:
        """Close the client."""
        self.consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _leave(self, place: TopicPartition, open_ends: dict[TopicPartition, int]) -> None:
        del open_ends[place]
        self.consumer.incremental_unassign([confluent_kafka.TopicPartition(*place)])

    def _fault(self, place: str, error: KafkaError) -> TidegateError:
        if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - this is its public name
            return InputError(
                f"Records of {place} were deleted while they were to be read ({error.str()}); start again."
            )
        return self._connection.failed(f"reading {place}", error)

    def _note_error(self, error: KafkaError) -> None:
        self.last_error = error.str()


def _record(message: Any) -> TopicRecord:
    return TopicRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.timestamp()[1],
        record_headers(message),
    )
