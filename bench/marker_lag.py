"""Marker lag: from a closed timestamp that can be read in the log to the marker that can be read after it.

A store writes rows in real time and closes all ranges up to one timestamp ten times a second: one round each
time. A round is closed in the log when the heartbeat of its last range can be read; it is covered when every
output partition has given a marker at or above it. One process reads log and output, so that all times are
from one clock.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.store import BenchStore
from bench.topics import BenchTopics
from bench.worker import BenchApplication
from bench.workload import OUTPUT_PARTITIONS
from sim.log.kafka_sink import KafkaSink
from sim.log.sink import WrittenRecord
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.errors import RetryError
from tidegate.hlc import Timestamp
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Heartbeat, RangeId

ROWS_PER_S: Final = 2_000
ROUNDS_PER_S: Final = 10
_PARTITIONS: Final = 4
_RANGES: Final = 16
_CLOSED_LAG_MS: Final = 3_000
WARM_UP_S: Final = 5.0
_COVERED_S: Final = 30.0


class MarkerLag(NamedTuple):
    """Lags in milliseconds over ``rounds`` closed timestamps, at ``rows_per_s`` rows written, in a mode of
    the kernel. ``asked_rows_per_s`` is the rate at which the store was asked to write."""

    kernel: str
    asked_rows_per_s: int
    rows_per_s: float
    rounds: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    worker_cpu: float


@dataclass(slots=True)
class LagMeter:
    """A meter that is told of heartbeats and markers as they are read, with the monotonic time of the
    reading.

    ``ranges`` is how many ranges a round has. ``ranges_of`` has the number for rounds that differ.
    """

    ranges: int
    partitions: int
    ranges_of: dict[Timestamp, int] = field(default_factory=dict)
    closed_at: dict[Timestamp, float] = field(default_factory=dict)
    lags_s: dict[Timestamp, float] = field(default_factory=dict)
    _heard: dict[Timestamp, set[RangeId]] = field(default_factory=dict)
    _covered: dict[int, Timestamp] = field(default_factory=dict)

    def heartbeat(self, range_id: RangeId, closed: Timestamp, now: float) -> None:
        """Note that a range has closed ``closed``. The round is closed when the last of its ranges has closed
        it."""
        heard = self._heard.setdefault(closed, set())
        heard.add(range_id)
        if len(heard) == self.ranges_of.get(closed, self.ranges):
            self.closed_at[closed] = now
            del self._heard[closed]
            self._cover(now)

    def marker(self, partition: int, resolved: Timestamp, now: float) -> None:
        """Note a marker of an output partition. Rounds that all partitions cover now are done."""
        self._covered[partition] = max(resolved, self._covered.get(partition, resolved))
        self._cover(now)

    def take_lags_ms(self) -> list[float]:
        """Return the lags of the rounds since the last call, the smallest first."""
        lags_s, self.lags_s = self.lags_s, {}
        return sorted(1e3 * lag for lag in lags_s.values())

    def _cover(self, now: float) -> None:
        """Account for rounds that are closed and covered; a round whose marker was read before its heartbeats
        has no lag."""
        if len(self._covered) < self.partitions:
            return
        covered = min(self._covered.values())
        for closed in [closed for closed in self.closed_at if closed <= covered]:
            self.lags_s[closed] = now - self.closed_at.pop(closed)


def marker_lag(
    topics: BenchTopics,
    directory: Path,
    seconds: float,
    seed: int,
    kernel: KernelMode = KernelMode.OFF,
    rows_per_s: int = ROWS_PER_S,
) -> MarkerLag:
    """Write for ``seconds`` seconds after a warm-up, and wait until every round is covered."""
    store = BenchStore(partitions=_PARTITIONS, ranges=_RANGES, seed=seed, closed_lag_ms=_CLOSED_LAG_MS)
    application = BenchApplication(topics, directory, _PARTITIONS, [store.table])
    meter = LagMeter(_RANGES, OUTPUT_PARTITIONS)
    application.write(store.head(time.time_ns()))
    with application.start_worker(kernel=kernel.value) as worker:
        application.create_feed(worker)
        with lag_reader(topics, application, meter):
            write_rows(store, application, rows_per_s, WARM_UP_S)
            wait_until_covered(meter, worker.require_running)
            meter.take_lags_ms()
            cpu, begin = worker.cpu_s, time.monotonic()
            written = write_rows(store, application, rows_per_s, seconds)
            took = time.monotonic() - begin
            used = worker.cpu_s - cpu
            wait_until_covered(meter, worker.require_running)
    lags_ms = meter.take_lags_ms()
    p50, p99 = percentile(lags_ms, 0.5), percentile(lags_ms, 0.99)
    return MarkerLag(
        kernel.value, rows_per_s, written / took, len(lags_ms), p50, p99, lags_ms[-1], used / took
    )


def write_rows(
    store: BenchStore,
    application: BenchApplication,
    rows_per_s: int,
    seconds: float,
    between: Callable[[int, int], Iterable[WrittenRecord]] = lambda _, __: (),
) -> int:
    """Write rows in real time, and a round of heartbeats at each step. Return how many rows were written.

    ``between`` returns records that are written between the rows and the heartbeats of a step. Its arguments
    are the number of the step and the present in nanoseconds.
    """
    with closing(KafkaSink(application.bootstrap, application.log_topic)) as sink:
        begin, written = time.monotonic(), 0
        for step in range(int(seconds * ROUNDS_PER_S)):
            time.sleep(max(0.0, begin + step / ROUNDS_PER_S - time.monotonic()))
            rows, now_ns = rows_per_s // ROUNDS_PER_S, time.time_ns()
            for record in [*store.rows(rows, now_ns), *store.settle(now_ns), *between(step, now_ns)]:
                sink.append(*record)
            for record in store.heartbeats(now_ns):
                sink.append(*record)
            written += rows
        sink.flush()
    return written


@contextmanager
def lag_reader(topics: BenchTopics, application: BenchApplication, meter: LagMeter) -> Iterator[None]:
    """Read log and output while the context lasts, and tell the meter of what is read."""
    reader = _Reader(topics, application, meter)
    reader.start()
    try:
        yield
    finally:
        reader.stop()


class _Reader(threading.Thread):
    """Reads log and output side by side."""

    def __init__(self, topics: BenchTopics, application: BenchApplication, meter: LagMeter) -> None:
        super().__init__(name="marker lag")
        self._topics = topics
        self._log = application.log_topic
        self._outputs = application.outputs
        self._meter = meter
        self._decoder = JsonDecoder(Envelope.WRAPPED)
        self._ended = threading.Event()

    def run(self) -> None:
        for messages in self._topics.follow([self._log, *self._outputs], self._ended):
            now = time.monotonic()
            for message in messages:
                self._meter_message(message, now)

    def stop(self) -> None:
        """Stop reading."""
        self._ended.set()
        self.join()

    def _meter_message(self, message: Any, now: float) -> None:
        key, value = message.key(), message.value()
        if message.topic() == self._log:
            entry = decode_entry(key, value)
            if isinstance(entry, Heartbeat):
                self._meter.heartbeat(entry.range_id, entry.closed, now)
        elif key is None:
            marker = self._decoder.decode(key, value)
            if isinstance(marker, MarkerRecord):
                self._meter.marker(message.partition(), marker.resolved, now)


def wait_until_covered(meter: LagMeter, look: Callable[[], None]) -> None:
    """Return once every closed timestamp is covered. Raises ``RetryError`` when that takes too long."""
    deadline = time.monotonic() + _COVERED_S
    time.sleep(1.0)
    while meter.closed_at:
        look()
        if time.monotonic() > deadline:
            raise RetryError(f"{len(meter.closed_at)} closed timestamps got no marker in {_COVERED_S:.0f} s")
        time.sleep(0.1)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest of the ordered values that at least ``share`` of them do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
