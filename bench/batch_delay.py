"""Measures the time from the moment when a marker can be read until a subscription gives its batch.

In the process that reads, a thread writes rows at a steady rate, and a marker to every partition ten times a
second. So all times are from one clock. A marker can be read when the broker has acknowledged it on all
partitions; the acknowledgement comes a little after that moment, so the measured delay is a little too short.
"""

from __future__ import annotations

import threading
import time
import uuid
from random import Random
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer

from bench.marker_lag import percentile
from bench.subscribe import PARTITIONS, bench_row, open_subscription
from bench.topics import BenchTopics
from tidegate.errors import RetryError
from tidegate.hlc import Timestamp

ROUNDS_PER_S: Final = 10
_SILENCE_S: Final = 30.0
_KEYS: Final = 50_000
#: Rounds that are not counted, because the reader begins in them.
FIRST_ROUNDS: Final = 10


class BatchDelay(NamedTuple):
    """Delays of batches after their markers; see the module."""

    rows_per_s: int
    batches: int
    p50_ms: float
    p99_ms: float


class DelayMeter:
    """A meter of the times at which markers could be read, and of those at which batches above them were
    given. Two threads may use it."""

    def __init__(self) -> None:
        self._readable: dict[Timestamp, float] = {}
        self._given: dict[Timestamp, float] = {}

    def of_another_reader(self) -> DelayMeter:
        """Return a meter for another reader of the same markers."""
        other = DelayMeter()
        other._readable = self._readable
        return other

    def readable(self, marker: Timestamp, at_s: float) -> None:
        """Note that a marker was acknowledged on one partition. The acknowledgement of the last partition
        counts."""
        self._readable[marker] = max(at_s, self._readable.get(marker, at_s))

    def given(self, frontier: Timestamp, at_s: float) -> None:
        """Note that a batch was given: everything below ``frontier`` has been given now."""
        self._given[frontier] = at_s

    def delays_s(self) -> list[float]:
        """Return the delay of every marker that a batch has passed: the time up to the first batch whose
        frontier is above it."""
        given = sorted(self._given.items())
        delays, at = [], 0
        for marker, since in sorted(self._readable.items()):
            while at < len(given) and given[at][0] <= marker:
                at += 1
            if at == len(given):
                break
            delays.append(max(given[at][1] - since, 0.0))
        return delays


def batch_delay(topics: BenchTopics, seconds: float, rows_per_s: int, seed: int) -> BatchDelay:
    """Read a topic for ``seconds`` seconds while it is written to."""
    topic = f"delay-{uuid.uuid4().hex[:8]}"
    topics.create(topic, PARTITIONS)
    meter, rounds = DelayMeter(), FIRST_ROUNDS + int(seconds * ROUNDS_PER_S)
    begin = time.time_ns()
    last = Timestamp(begin + rounds)
    writer = RoundWriter(topics.bootstrap, topic, meter, begin, rows_per_s // ROUNDS_PER_S, seed)
    writer.write(0)
    writer.flush()
    thread = threading.Thread(target=writer.run, args=(rounds,), daemon=True)
    statement = f"SUBSCRIBE orders ENVELOPE UPSERT (KEY (id)) AS OF {Timestamp(begin).decimal()}"
    with open_subscription(topics.bootstrap, topic, statement) as subscription:
        thread.start()
        while True:
            batch = subscription.next(_SILENCE_S)
            if batch is None:
                raise RetryError(f"No batch of {topic} has come for {_SILENCE_S:g} s.")
            meter.given(Timestamp(batch.frontier.wall, batch.frontier.logical), time.perf_counter())
            if batch.frontier > last:
                break
    thread.join()
    delays = sorted(delay * 1e3 for delay in meter.delays_s()[FIRST_ROUNDS:])
    return BatchDelay(rows_per_s, len(delays), percentile(delays, 0.5), percentile(delays, 0.99))


class RoundWriter:
    """Writes rounds: the rows of one timestamp, then their marker on every partition."""

    def __init__(
        self, bootstrap: str, topic: str, meter: DelayMeter, begin: int, rows: int, seed: int
    ) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0}
        )
        self._topic, self._meter, self._begin, self._rows = topic, meter, begin, rows
        self._random = Random(seed)

    def run(self, rounds: int) -> None:
        due = time.perf_counter()
        for number in range(1, rounds + 1):
            due += 1 / ROUNDS_PER_S
            while (left := due - time.perf_counter()) > 0:
                self._producer.poll(min(left, 0.01))
            self.write(number)
        self.flush()

    def write(self, number: int) -> None:
        marker = Timestamp(self._begin + number)
        updated = marker.decimal()
        for key in self._random.sample(range(_KEYS), self._rows):
            value = f'{{"after": {bench_row(self._random, key)}, "updated": "{updated}"}}'
            self._produce(b"[%d]" % key, value, key % PARTITIONS)

        def acknowledged(error: Any, _: Any) -> None:
            if error is None:
                self._meter.readable(marker, time.perf_counter())

        for partition in range(PARTITIONS):
            self._produce(None, f'{{"resolved":"{updated}"}}', partition, acknowledged)

    def _produce(self, key: bytes | None, value: str, partition: int, told: Any = None) -> None:
        at_ms = self._begin // 1_000_000
        self._producer.produce(self._topic, value.encode(), key, partition, on_delivery=told, timestamp=at_ms)

    def flush(self) -> None:
        if self._producer.flush(60):
            raise RetryError(f"Not all of {self._topic} could be written.")
