"""Rows to Kafka: idempotent producers without expiry, and a barrier that counts one batch's deliveries.

``Producer.flush`` would wait for every batch and hide errors: with one record refused it returns 0. The
barrier is told of each row's delivery instead, and of a row that is refused for good: its feed fails
(docs/delivery.md#rows-that-are-refused).
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

import structlog
from confluent_kafka import KafkaError, KafkaException

from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.delivery_report import begin_report
from tidegate.client.kafka.record_limit import limit_of_workers
from tidegate.client.kafka.row_delivery import ROW_DELIVERY
from tidegate.client.kafka.row_refusal import is_of_the_row, row_refused
from tidegate.client.kafka.transaction import is_fatal
from tidegate.errors import RowRefused
from tidegate.processor.batch import OutputRecord
from tidegate.worker.kafka.clients import KAFKA_LOGGER, librdkafka_config
from tidegate.worker.operations.metrics import SINK_ENDS, SINK_TROUBLES
from tidegate.worker.process.ending import end_process
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings

_POLL_S: Final = 0.05
_CLOSE_S: Final = 5.0
_TELL_AGAIN_S: Final = 10.0
_ASK_S: Final = 1.0
_ASK_AGAIN_POLLS: Final = 10  # half a second, where nothing is to be confirmed
_REST_S: Final = 0.5  # before another producer, which may come to its end as well

_log = structlog.get_logger("tidegate.sink")


#: A barrier whose last row was acknowledged, or one of whose rows was refused.
Unconfirmed: TypeAlias = "tuple[Barrier, RowRefused | None]"
Confirm: TypeAlias = Callable[[Unconfirmed], None]
GiveUp: TypeAlias = Callable[[KafkaError], None]


class Barrier:
    """Counts the acknowledgements of a batch's rows of one feed; ``acknowledged`` is done with the last one.

    ``delivered`` is called by the sinks' threads, everything else by the loop's or that of the steps.

    Acknowledgements and refusals do not say which cluster gave them. Where the sink's address may come to
    mean another one they count only once the sink has ruled that out (``begin`` and ``confirm``).
    """

    __slots__ = (
        "_calls",
        "_confirm",
        "_doubted",
        "_give_up",
        "_left",
        "_lock",
        "_loop",
        "_turn",
        "acknowledged",
        "counts",
        "refusal",
    )

    def __init__(self, rows: int, loop: asyncio.AbstractEventLoop) -> None:
        self.acknowledged: asyncio.Future[None] = loop.create_future()
        #: Whether every row is acknowledged: ``acknowledged`` is done, or will be as soon as the loop turns.
        self.counts = not rows
        #: Why one of the rows will never be acknowledged, so that the feed fails (step R1).
        self.refusal: RowRefused | None = None
        self._left = rows
        self._loop = loop
        self._confirm: Confirm | None = None
        self._give_up: GiveUp | None = None
        self._doubted = False  # whether a refusal waits for ``confirm``
        self._calls: list[Callable[[], None]] = []
        self._turn = 0  # how often it began again: what an earlier turn has told the loop comes too late
        self._lock = threading.Lock()  # the sink's thread counts, and whoever gives rows up
        if not rows:
            self.acknowledged.set_result(None)

    @property
    def left(self) -> int:
        """How many rows are not acknowledged."""
        return self._left

    def when_acknowledged(self, call: Callable[[], None]) -> None:
        """Have the loop call ``call`` with the last acknowledgement, and again where it `begin_again`."""
        self._calls.append(call)
        if self.acknowledged.done():
            self._loop.call_soon(call)

    def forget(self, rows: int) -> None:
        """So many rows will not be handed to a sink; any thread may say so."""
        with self._lock:
            self._left -= rows
            last = rows > 0 and not self._left
        if last:
            self._finish()

    def begin_again(self, rows: int) -> None:
        """Count all ``rows`` once more, as if none were acknowledged: another sink is given them (step R6).

        Their sink is over, so it tells of none of them any more. The caller knows that nobody can have taken
        the barrier for acknowledged: nothing behind a barrier that does not count is taken.
        """
        with self._lock:
            self._left = rows
            self._turn += 1
            self.counts = False
            if self.acknowledged.done():
                self.acknowledged = self._loop.create_future()
        self._confirm = None
        self._doubted = False

    def refuse(self, refusal: RowRefused) -> None:
        """Note that a row is refused for good. It counts as not acknowledged."""
        if self.refusal is None:
            self.refusal = refusal

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        """Count one row, or note that it is refused.

        A row that the producer gave up, and that is not at fault, does not count. The producer has come to
        its end, or does so now: another one is given the row, or nobody waits for it (step R4).
        """
        begin_report()
        if error is not None:
            self._note(error, message)
            return
        with self._lock:
            self._left -= 1
            last = not self._left
        if last:
            self._finish()

    def handed_to(self, give_up: GiveUp) -> None:
        """``give_up`` is called with each row that the sink gives up though it is not at fault."""
        self._give_up = give_up

    def begin(self, confirm: Confirm) -> None:
        """``confirm`` is called with the last acknowledgement, or a refusal: neither counts by itself."""
        self._confirm = confirm

    def confirm(self, refusal: RowRefused | None) -> None:
        """It counts: since the first row went out there was no other cluster at the address."""
        if refusal is not None:
            self.refuse(refusal)
        else:
            self._count()

    def _note(self, error: KafkaError, message: Any) -> None:
        if is_of_the_row(error):
            self.take_refusal(
                row_refused(message.topic(), message.partition(), message.key(), message.value(), error)
            )
        elif self._give_up is not None:
            self._give_up(error)

    def take_refusal(self, refusal: RowRefused) -> None:
        """A row is refused, by whoever is at the address. The first one to be told says why."""
        if self._confirm is None:
            self.refuse(refusal)
        elif not self._doubted:
            self._doubted = True
            self._confirm((self, refusal))

    def _finish(self) -> None:
        if self._confirm is None:
            self._count()
        else:
            self._confirm((self, None))

    def _count(self) -> None:
        self.counts = True
        self._loop.call_soon_threadsafe(self._open, self._turn)

    def _open(self, turn: int) -> None:
        with self._lock:
            if turn != self._turn or self.acknowledged.done():
                return
            self.acknowledged.set_result(None)
        for call in self._calls:
            call()


class Sink:
    """One producer for all feeds that write to one cluster.

    When the producer comes to its end, as after a record that the broker refuses, it takes no more rows. Once
    the last row is told what became of it the sink `is_over`, and tells of no row any more: its feeds begin
    again with another sink (docs/delivery.md#rows-that-are-refused, steps R4 to R6).

    ``watched``: its address may come to mean another cluster. The cluster is asked for its id before rows go
    out, and after the acknowledgements of a batch. Once another one is seen the producer has come to its end
    (docs/delivery.md#another-cluster-at-a-sinks-address). ``topic`` is one to ask about.
    """

    is_held: Final = False

    def __init__(
        self, settings: Settings, machine: Machine = REAL, *, watched: bool = False, topic: str = ""
    ) -> None:
        self._limit = limit_of_workers(settings.max_record_bytes)
        self._ends = threading.Event()
        self._watch = ClusterWatch(KAFKA_LOGGER, self._ends.set) if watched else None
        self.topic = topic
        self._unconfirmed: SimpleQueue[Unconfirmed] = SimpleQueue()
        self._polls = _ASK_AGAIN_POLLS
        self._servers = settings.bootstrap_servers
        self._sending = threading.Lock()  # no row may come behind the purge of its producer
        self._producer: Any = machine.producer(
            {
                **librdkafka_config(settings),
                **({} if self._watch is None else {"logger": self._watch}),
                **ROW_DELIVERY,
                "linger.ms": settings.linger_ms,
                "compression.type": settings.compression,
                "message.max.bytes": settings.max_record_bytes,
                "error_cb": _Troubles(settings.bootstrap_servers),
            }
        )
        #: Whether no row of it is on its way, and none ever will be.
        self.is_over = False
        self._closed = threading.Event()
        self._poller = machine.background(self._poll, "sink-deliveries")

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """Hand rows to the producer from index ``first`` on.

        Returns the index of the first row that it did not take. It has no room, and is to be called again
        after a while; or it has come to its end; or the row is refused, such as one above
        ``max_record_bytes``, and the barrier says so.
        """
        with self._sending:
            if self._ends.is_set():
                return first
            barrier.handed_to(self._give_up)
            return self._give(rows, barrier, first)

    @property
    def cluster_id(self) -> str:
        """What a watched cluster has answered; empty while that is not certain."""
        return "" if self._watch is None else self._watch.cluster_id

    def send_to(self, cluster: str, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """Hand rows to the producer as ``send`` does, while the address certainly means this cluster."""
        self.topic = self.topic or rows[first].topic
        if self.cluster_id != cluster or self._ends.is_set():
            return first
        barrier.begin(self._unconfirmed.put)
        return self.send(rows, barrier, first)

    def pending(self) -> int:
        """Rows that are not acknowledged."""
        producer = self._producer
        return 0 if producer is None else len(producer)

    def close(self) -> None:
        """Stop; rows that are still in the queue are given up."""
        self._closed.set()
        self._poller.join()
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(_CLOSE_S)

    def _give(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int) -> int:
        produce, delivered = self._producer.produce, barrier.delivered
        for index in range(first, len(rows)):
            topic, partition, key, value, timestamp_ms, headers = rows[index]
            try:
                produce(topic, value, key, partition, delivered, None, timestamp_ms, headers)
            except BufferError:
                return index
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if is_fatal(error):
                    self._ends.set()
                else:
                    barrier.take_refusal(row_refused(topic, partition, key, value, error, self._limit))
                return index
        return len(rows)

    def _poll(self) -> None:
        try:
            while not self._closed.is_set() and not self._ends.is_set():
                self._poll_once()
                if self._watch is not None and self.topic:
                    self._compare(self._watch)
            if not self._closed.is_set():
                self._come_to_the_end()
        except BaseException as error:  # nobody else would see it
            end_process(error)

    def _poll_once(self, timeout_s: float = _POLL_S) -> None:
        try:
            self._producer.poll(timeout_s)
        except (KafkaException, SystemError) as failure:  # the producer can do nothing more
            self._end(str(failure))  # a ``SystemError`` where a report came after what the client raises

    def _give_up(self, error: KafkaError) -> None:
        """A row is given up that is not at fault: where nothing has ended the producer, that does (step R4).

        librdkafka does so with a topic that is deleted, and goes on. Nobody would write the row again.
        """
        if not self._ends.is_set() and not self._closed.is_set():
            self._end(f"a row was given up: {error.str()}")

    def _end(self, cause: str) -> None:
        SINK_ENDS.labels(self._servers).inc()
        _log.warning(
            "a producer of rows has come to its end; another one writes what it has not delivered",
            sink=self._servers,
            cause=cause,
        )
        self._ends.set()

    def _compare(self, watch: ClusterWatch) -> None:
        """Steps 4a and 4b: ask the cluster after the acknowledgements, or after a while without any."""
        self._polls += 1
        if self._unconfirmed.empty() and self._polls < _ASK_AGAIN_POLLS:
            return
        self._polls = 0
        waiting = [self._unconfirmed.get() for _ in range(self._unconfirmed.qsize())]
        answered = watch.ask(self._producer, self.topic, _ASK_S)
        self._poll_once(0.0)  # what the producer has noticed before it answered
        counts = answered and not self._ends.is_set()  # at the end of the producer it is asked once more
        for barrier, refusal in waiting:
            if counts:
                barrier.confirm(refusal)
            else:
                self._unconfirmed.put((barrier, refusal))

    def _come_to_the_end(self) -> None:
        """Have every row told what became of it (steps R4 and R5), then leave the cluster alone a moment.

        Feeds may hold on to this sink until they have rows again, so it holds on to no producer.
        """
        with self._sending:
            self._producer.purge()
        while len(self._producer) and not self._closed.is_set():
            self._poll_once()
        if self._watch is not None and not self._closed.is_set():
            self._compare_last(self._watch)
        if not self._closed.is_set():
            self._poll_once(_REST_S)
            self._producer = None
            self.is_over = True

    def _compare_last(self, watch: ClusterWatch) -> None:
        """Step 4c: the row that has ended the producer is refused by the cluster of its feed, or by another.

        The next producer has the row refused again where there is no answer now.
        """
        if self._unconfirmed.empty() or not watch.is_the_same(self._producer, self.topic, _ASK_S):
            return
        while not self._unconfirmed.empty():
            barrier, refusal = self._unconfirmed.get()
            barrier.confirm(refusal)


class _Troubles:
    """What librdkafka complains of, ten times a second while brokers are away: counted, and told at times."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._tell_at = -math.inf

    def __call__(self, error: KafkaError) -> None:
        SINK_TROUBLES.labels(self._servers).inc()
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + _TELL_AGAIN_S
            _log.warning("Kafka is in trouble", sink=self._servers, cause=error.str())
