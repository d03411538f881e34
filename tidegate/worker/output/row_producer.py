"""Gives rows to Kafka, by idempotent producers without expiry, and tells barriers what became of each row.

``Producer.flush`` would wait for every batch and hide errors: with one record refused it returns 0. Instead
each delivery report of librdkafka is told to the batch's barrier. If the report is a final refusal, the feed
of the row fails (docs/protocols/refused-rows.md).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.delivery_report import begin_report
from tidegate.client.kafka.record_limit import limit_of_workers
from tidegate.client.kafka.row_delivery import ROW_DELIVERY
from tidegate.client.kafka.row_refusal import refusal_of, reported_refusal, row_broke
from tidegate.client.kafka.transaction import is_fatal
from tidegate.errors import RowDoubted, RowRefused
from tidegate.processor.batch import OutputRecord
from tidegate.processor.written_records import starting_at
from tidegate.worker.kafka.clients import KAFKA_LOGGER, librdkafka_config, opened
from tidegate.worker.operations.metrics import SINK_ENDS, SINK_TROUBLES
from tidegate.worker.output.barrier import Barrier, Unconfirmed
from tidegate.worker.process.ending import end_process
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings

_POLL_S: Final = 0.05
_CLOSE_S: Final = 5.0
_TELL_AGAIN_S: Final = 10.0
_ASK_S: Final = 1.0
_ASK_AGAIN_POLLS: Final = 10  # half a second between questions while nothing waits to be confirmed
_REST_S: Final = 0.5  # pause before another producer is opened, since that one may end at once too

_log = structlog.get_logger("tidegate.sink")


class SharedRowProducer:
    """One row producer for all feeds that write to one cluster: its ``SharedRowWriter``.

    When the producer comes to its end, as after a record that the broker refuses, it takes no more rows. Each
    of its rows is then reported as acknowledged, refused or given up. After the last report ``is_over`` is
    true, and the feeds begin again with another producer (docs/protocols/refused-rows.md, R4 to R6).

    ``watched`` says that the address may later mean another cluster. The cluster is asked for its id before
    rows go out, and after the acknowledgements of a batch. The producer comes to its end when another cluster
    is seen (docs/protocols/sink-addresses.md). ``topic`` is a topic there; the question
    for the id names it. Raises ``SettingsError`` for settings that librdkafka refuses.
    """

    def __init__(
        self, settings: Settings, machine: Machine = REAL, *, watched: bool = False, topic: str = ""
    ) -> None:
        self._limit = limit_of_workers(settings.max_record_bytes)
        self._ends = threading.Event()
        self._watch = ClusterWatch(KAFKA_LOGGER, self._ends.set) if watched else None
        self.topic = topic
        self._unconfirmed: SimpleQueue[Unconfirmed] = SimpleQueue()
        self._polls = _ASK_AGAIN_POLLS
        self._given = 0  # rows, by the threads that send
        self._reported = 0  # rows, by the thread that polls
        self._servers = settings.bootstrap_servers
        self._sending = threading.Lock()  # the producer must get no row after its purge
        config = {
            **librdkafka_config(settings),
            **({} if self._watch is None else {"logger": self._watch}),
            **ROW_DELIVERY,
            "linger.ms": settings.linger_ms,
            "compression.type": settings.compression,
            "message.max.bytes": settings.max_record_bytes,
            "error_cb": _Troubles(settings.bootstrap_servers),
        }
        self._producer: Any = opened(lambda: machine.producer(config), settings.bootstrap_servers)
        #: Whether every row has its report, and no row will ever be taken again.
        self.is_over = False
        self._closed = threading.Event()
        self._poller = machine.background(self._poll, "sink-deliveries")

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """Hand rows to the producer from index ``first`` on (``RowWriter.send``).

        A row above ``max_record_bytes`` is refused here, before anything of it is queued.
        """
        with self._sending:
            if self._ends.is_set():
                return first
            end = self._give(rows, barrier, first)
            self._given += end - first
            return end

    @property
    def cluster_id(self) -> str:
        """The id that a watched cluster has answered with; empty while that is not certain."""
        return "" if self._watch is None else self._watch.cluster_id

    def send_to(self, cluster: str, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """Hand rows to the producer as ``send`` does, but only while ``cluster`` is surely at the address."""
        self.topic = self.topic or rows[first].topic
        if self.cluster_id != cluster or self._ends.is_set():
            return first
        barrier.require_confirmation(self._unconfirmed.put)
        return self.send(rows, barrier, first)

    def pending(self) -> int:
        """Return how many rows of the producer have no delivery report of librdkafka yet.

        The length of librdkafka's producer is not that number: it also counts errors that wait to be told.
        """
        return 0 if self._producer is None else max(0, self._given - self._reported)

    def retire(self) -> None:
        """End the producer, as after a record that the broker refuses. Never waits."""
        self._ends.set()

    def close(self) -> None:
        """Stop. Rows that are still in the queue are given up."""
        self._closed.set()
        self._poller.join()
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(_CLOSE_S)

    def _give(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int) -> int:
        produce, delivered = self._producer.produce, partial(self._delivered, barrier)
        for index, row in enumerate(starting_at(rows, first), first):
            topic, partition, key, value, timestamp_ms, headers = row
            try:
                produce(topic, value, key, partition, delivered, None, timestamp_ms, headers)
            except BufferError:
                return index
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if is_fatal(error):
                    self._ends.set()
                else:
                    refusal = refusal_of(topic, partition, key, value, error, self._limit)
                    self._not_taken(barrier, refusal, error)
                return index
            except Exception as unforeseen:
                barrier.confirm(row_broke(topic, partition, key, value, unforeseen))  # no sink has answered
                return index
        return len(rows)

    def _not_taken(self, barrier: Barrier, refusal: RowRefused | None, error: KafkaError) -> None:
        """Tell ``barrier`` of a refusal. If it is not final, another producer writes the row again.

        ``refusal`` is ``None`` for a row that is given up although it is not at fault: no barrier is told.
        """
        if refusal is not None:
            barrier.row_refused(refusal)
        if refusal is None or isinstance(refusal, RowDoubted):
            self._give_up(error.str())

    def _delivered(self, barrier: Barrier, error: KafkaError | None, message: Any) -> None:
        """Tell ``barrier`` what became of one of its rows: librdkafka's delivery report."""
        self._reported += 1
        begin_report()
        if error is None:
            barrier.row_acknowledged()
        else:
            self._not_taken(barrier, reported_refusal(error, message), error)

    def _poll(self) -> None:
        try:
            while not self._closed.is_set() and not self._ends.is_set():
                self._poll_once()
                if self._watch is not None and self.topic:
                    self._compare(self._watch)
            if not self._closed.is_set():
                self._come_to_the_end()
        except BaseException as error:  # no other thread would see it
            end_process(error)

    def _poll_once(self, timeout_s: float = _POLL_S) -> None:
        try:
            self._producer.poll(timeout_s)
        except (KafkaException, SystemError) as failure:  # the producer can do nothing more
            self._end(str(failure))  # ``SystemError``: a report came after the client had raised an error

    def _give_up(self, cause: str) -> None:
        """End the producer, unless it has ended already, so that another one writes a row again (R4a, R4b).

        librdkafka gives up the rows of a deleted topic and goes on. If the producer did not end, nobody would
        write them again.
        """
        if not self._ends.is_set() and not self._closed.is_set():
            self._end(f"a row was given up: {cause}")

    def _end(self, cause: str) -> None:
        SINK_ENDS.labels(self._servers).inc()
        _log.warning(
            "a row producer has ended; another one writes the rows that it has not delivered",
            sink=self._servers,
            cause=cause,
        )
        self._ends.set()

    def _compare(self, watch: ClusterWatch) -> None:
        """Ask the cluster for its id after acknowledgements, or after a while without any (4a and 4b)."""
        self._polls += 1
        if self._unconfirmed.empty() and self._polls < _ASK_AGAIN_POLLS:
            return
        self._polls = 0
        waiting = [self._unconfirmed.get() for _ in range(self._unconfirmed.qsize())]
        answered = watch.ask(self._producer, self.topic, _ASK_S)
        self._poll_once(0.0)  # takes the news that the producer had before the answer came
        counts = answered and not self._ends.is_set()  # an ended producer asks once more: ``_compare_last``
        for barrier, refusal in waiting:
            if counts:
                barrier.confirm(refusal)
            else:
                self._unconfirmed.put((barrier, refusal))

    def _come_to_the_end(self) -> None:
        """Wait for the report of every row (steps R4 and R5), then leave the cluster alone for a moment.

        Feeds may keep this object until they have rows again, so it does not keep its producer.
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
        """Find out whether the feed's cluster refused the row that has ended the producer: step 4c.

        Without an answer nothing counts. The next producer writes the row again, and the cluster refuses it
        again.
        """
        if self._unconfirmed.empty() or not watch.is_the_same(self._producer, self.topic, _ASK_S):
            return
        while not self._unconfirmed.empty():
            barrier, refusal = self._unconfirmed.get()
            barrier.confirm(refusal)


class _Troubles:
    """The error callback of a producer: counts each error, and logs one every 10 s at most.

    librdkafka reports ten errors a second while brokers are away.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._tell_at = -math.inf

    def __call__(self, error: KafkaError) -> None:
        SINK_TROUBLES.labels(self._servers).inc()
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + _TELL_AGAIN_S
            _log.warning("Kafka is in trouble", sink=self._servers, cause=error.str())
