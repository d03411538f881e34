"""Reads the records of output topics for a gate: in batches, committed ones alone, without a group.

Nothing is passed over in silence: records that were deleted before they could be read, topics that are gone
or were created anew, and an address that comes to mean another cluster end the reading with an error. A
Kafka that is away does not: reading goes on when it is back.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.record_headers import headers_once
from tidegate.client.subscribe.collector_pace import collector_slowed
from tidegate.errors import HistoryLost, ObjectDropped
from tidegate.subscribe.gate.feed_record import FeedPartition, RecordColumns

_LOGGER: Final = logging.getLogger("tidegate.kafka")
#: Records of one poll: enough that a poll's own cost is spread, few enough that a batch is not late.
_POLLED_RECORDS: Final = 10_000
#: The time for which a broker waits for more records: it bounds how late a marker is seen.
_FETCH_WAIT_MS: Final = 20
#: The bytes that librdkafka fetches ahead, per partition and in all: the gate does not see rows there.
_FETCH_BYTES: Final = 1024 * 1024
_QUEUED_KIB: Final = 16 * 1024
#: The time after which a partition whose records filled the queue is fetched again. librdkafka's default is a
#: second.
_FULL_WAIT_MS: Final = 20
_TOPICS_EVERY_S: Final = 2.0
_AGAIN_S: Final = 0.5
_LOWS_EVERY_S: Final = 1.0
_ASK_S: Final = 10.0
_GONE: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - these are their public names
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)

#: The records of one partition that a poll has brought, in offset order.
PartitionRecords = tuple[FeedPartition, RecordColumns]


class FeedReader:
    """Reads the partitions in ``starts`` from these offsets on. Close it, or use it in a ``with``.

    ``topic_ids`` are the topics' ids when the reading begins.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        starts: Mapping[FeedPartition, int],
        topic_ids: Mapping[str, str],
    ) -> None:
        self._connection = connection
        self._watch = ClusterWatch(_LOGGER)
        #: The offsets at which reading goes on. Everything below was read, or is no record.
        self.positions = dict(starts)
        #: Whether a poll waits for records, or was interrupted there: nothing that came is counted yet.
        self.is_waiting = False
        self._paused: frozenset[FeedPartition] = frozenset()
        self._lows: Mapping[FeedPartition, int] = {}
        self._lows_at = 0.0
        admin = connection.open(AdminClient)
        self._topics = _TopicCheck(admin, topic_ids)
        self._ends = _EndsCheck(admin)
        self._consumer = connection.open(
            Consumer,
            {
                "group.id": f"tidegate-subscribe-{uuid.uuid4()}",  # never joined: librdkafka insists on one
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",  # deleted records must not be passed over in silence
                "fetch.wait.max.ms": _FETCH_WAIT_MS,
                "fetch.message.max.bytes": _FETCH_BYTES,
                "queued.max.messages.kbytes": _QUEUED_KIB,
                "fetch.queue.backoff.ms": _FULL_WAIT_MS,
                "logger": self._watch,
            },
        )
        self._assign()

    def _assign(self) -> None:
        self._consumer.assign(
            [confluent_kafka.TopicPartition(*place, offset) for place, offset in self.positions.items()]
        )

    def poll(self, timeout_s: float) -> list[PartitionRecords]:
        """Return what has come, as soon as anything has; return nothing after ``timeout_s``.

        Raises ``HistoryLost``, ``ObjectDropped``, and ``InputError`` where Kafka refuses.

        A call may be interrupted while it waits: the next one reads again from ``positions``, because the
        client may have given records, or an error, to the call that was interrupted.
        """
        if self.is_waiting:
            self._read_again()
        self.is_waiting = True
        messages = self._consumer.consume(1, timeout=timeout_s)
        self.is_waiting = False
        self._note_lows()
        with collector_slowed():
            if messages:
                messages += self._consumer.consume(_POLLED_RECORDS, timeout=0)
            return self._read(messages)

    def _read_again(self) -> None:
        """Have the client begin again at ``positions``. ``pause`` pauses anew what has to be paused."""
        self._consumer.resume([confluent_kafka.TopicPartition(*place) for place in self.positions])
        self._paused = frozenset()
        self._assign()

    def _note_lows(self) -> None:
        if time.monotonic() < self._lows_at:
            return
        self._lows_at = time.monotonic() + _LOWS_EVERY_S
        lows: dict[FeedPartition, int] = {}
        for place in self.positions:
            asked = confluent_kafka.TopicPartition(*place)
            low, _ = self._consumer.get_watermark_offsets(asked, cached=True)
            lows[place] = max(low, 0)
        self._lows = lows

    def _read(self, messages: Sequence[Message]) -> list[PartitionRecords]:
        self._topics.check()
        if self._watch.has_changed:
            raise HistoryLost(
                f"The address {self._connection.bootstrap_servers} means another Kafka cluster now: offsets "
                "of one say nothing in the other. Begin again with a snapshot"
            )
        return self._records(messages)

    def ask_topics(self) -> None:
        """Ask Kafka whether the topics are still the same ones. ``same_topics`` has the answer.

        A consumer goes on in a topic that was created anew, at its own offset: the records before it would
        be missing. So rows are complete only if this was asked after the last of them was read.
        """
        self._topics.ask()

    def same_topics(self, timeout_s: float) -> bool:
        """Return whether the answer has come within ``timeout_s``. Raises as ``poll`` does."""
        return self._topics.same(timeout_s)

    @property
    def paused(self) -> frozenset[FeedPartition]:
        """The partitions that are not read at the moment."""
        return self._paused

    def pause(self, places: Collection[FeedPartition]) -> None:
        """Pause exactly these partitions: any other one that was paused is read again."""
        if more := set(places) - self._paused:
            self._paused |= more
            self._consumer.pause([confluent_kafka.TopicPartition(*place) for place in more])
        if fewer := self._paused - set(places):
            self._paused -= fewer
            self._consumer.resume([confluent_kafka.TopicPartition(*place) for place in fewer])

    @property
    def lows(self) -> Mapping[FeedPartition, int]:
        """The first offset of each partition that has told one, at most a second old. Any thread may ask.

        The reading thread notes them. The client lets one thread at a time use a consumer: another one that
        asked it would wait for as long as the first one reads.
        """
        return self._lows

    def at_ends(self) -> bool:
        """Return whether the brokers have said that every record was read.

        A call asks them, and one of the next calls has their answer. Partitions that are paused do not count.
        A partition whose leader is away counts as one that has more records. The reading thread asks.
        """
        ends = self._ends.answer(self.positions)
        return bool(ends) and all(
            place in self._paused or ends.get(place, position + 1) <= position
            for place, position in self.positions.items()
        )

    def highs(self) -> dict[FeedPartition, int]:
        """Return an offset for each partition up to which it had records when the broker last told.

        The reading thread asks.
        """
        highs: dict[FeedPartition, int] = {}
        for place, position in self.positions.items():
            asked = confluent_kafka.TopicPartition(*place)
            _, high = self._consumer.get_watermark_offsets(asked, cached=True)
            highs[place] = max(high, position)
        return highs

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def _records(self, messages: Sequence[Message]) -> list[PartitionRecords]:
        errors = list(map(Message.error, messages))
        if set(map(type, errors)) - {type(None)}:
            for message, error in zip(messages, errors, strict=True):
                if error is not None:
                    self._take_error(message, error)
            messages = [message for message, error in zip(messages, errors, strict=True) if error is None]
        by_place: defaultdict[FeedPartition, list[Message]] = defaultdict(list)
        for topic, of_topic in groupby(messages, Message.topic):
            for partition, found in groupby(of_topic, Message.partition):
                by_place[FeedPartition(topic, partition)] += found
        return [self._columns(place, found) for place, found in by_place.items()]

    def _columns(self, place: FeedPartition, messages: list[Message]) -> PartitionRecords:
        offsets: Any = list(map(Message.offset, messages))
        keys: Any = list(map(Message.key, messages))
        values: Any = list(map(Message.value, messages))
        self.positions[place] = max(self.positions[place], offsets[-1] + 1)
        return place, RecordColumns(offsets, keys, values, headers_once(messages))

    def _take_error(self, message: Any, error: KafkaError) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001 - this is its public name
            # After the last record there may be offsets of a transaction's control records.
            place = FeedPartition(message.topic(), message.partition())
            self.positions[place] = max(self.positions[place], message.offset())
        elif code == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - this is its public name
            place = FeedPartition(message.topic(), message.partition())
            raise HistoryLost(
                f"Offset {self.positions[place]} of {place} is deleted or beyond its end: retention has "
                "overtaken the subscription, or the topic was cut. Begin again with a snapshot, and give the "
                "topic a longer retention",
                *place,
                self.positions[place],
            )
        elif code in _GONE:
            self._topics.ask_soon()
        elif code > 0 and not error.retriable():
            raise self._connection.failed(f"reading {message.topic()}[{message.partition()}]", error)
        else:
            _LOGGER.info("reading goes on when Kafka is back: %s", error.str())


class _TopicCheck:
    """Asks from time to time, and when it is told to, whether topics are still those that they were."""

    def __init__(self, admin: AdminClient, ids: Mapping[str, str]) -> None:
        self._admin = admin
        self._ids = dict(ids)
        self._asked: dict[str, Future[Any]] = {}
        self._same = False
        self._ask_at = time.monotonic() + _TOPICS_EVERY_S

    def ask(self) -> None:
        """Ask now. Answers to what was asked before do not count any more."""
        self._ask_at = time.monotonic() + _TOPICS_EVERY_S
        self._same = True
        self._asked = self._admin.describe_topics(TopicCollection(list(self._ids)), request_timeout=_ASK_S)

    def ask_soon(self) -> None:
        """Ask soon, whenever the last time was."""
        self._ask_at = min(self._ask_at, time.monotonic() + _AGAIN_S)

    def check(self) -> None:
        """Look at the answers, without waiting for any.

        Raises ``ObjectDropped`` for a topic that is gone, ``HistoryLost`` for one that was created anew.
        """
        if not self._asked and time.monotonic() >= self._ask_at:
            self.ask()
        self._check_answers()

    def same(self, timeout_s: float) -> bool:
        """Wait for the answers to the last ``ask``; returns whether they have come. Raises as ``check``."""
        until = time.monotonic() + timeout_s
        while True:
            self._check_answers()  # before anything is asked anew: the caller may call seldom
            if self._same and not self._asked:
                return True
            self.check()
            left = until - time.monotonic()
            if left <= 0:
                return False
            if self._asked:
                wait(self._asked.values(), left, FIRST_COMPLETED)
            else:  # Kafka is away: it is asked again
                time.sleep(min(left, _AGAIN_S))

    def _check_answers(self) -> None:
        for name in [name for name, answer in self._asked.items() if answer.done()]:
            self._check_answer(name, self._asked.pop(name))

    def _check_answer(self, name: str, answer: Future[Any]) -> None:
        try:
            found = str(answer.result().topic_id)
        except KafkaException as error:
            if error.args[0].code() in _GONE:
                raise ObjectDropped(f"topic {name} was deleted: the subscription ends", topic=name) from None
            self._same = False  # Kafka is away, or its answer will pass: the next one tells
            self.ask_soon()
            return
        if found != self._ids[name]:
            raise HistoryLost(
                f"Topic {name} was deleted and created anew: its offsets start again. Begin again with a "
                "snapshot",
                name,
            )


class _EndsCheck:
    """Asks where partitions end, one question at a time, and waits for no answer."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._asked: dict[FeedPartition, Future[Any]] = {}

    def answer(self, places: Iterable[FeedPartition]) -> dict[FeedPartition, int]:
        """Return the ends that brokers told when an earlier call asked. If no question is open, ask.

        Nothing is returned while an answer is missing. A partition is left out if its broker told no end.
        """
        if not all(asked.done() for asked in self._asked.values()):
            return {}
        told, self._asked = self._asked, {}
        if not told:
            question = {confluent_kafka.TopicPartition(*place): OffsetSpec.latest() for place in places}
            answers = self._admin.list_offsets(question, request_timeout=_ASK_S)
            self._asked = {FeedPartition(at.topic, at.partition): answers[at] for at in answers}
            return {}
        ends: dict[FeedPartition, int] = {}
        for place, asked in told.items():
            with suppress(KafkaException):
                ends[place] = asked.result().offset
        return {place: end for place, end in ends.items() if end != confluent_kafka.OFFSET_INVALID}
