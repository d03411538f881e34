"""From ``kill -9`` to the next marker: a worker that dies and is started again at once, on the same data
directory.

A store writes on meanwhile and closes timestamps ten times a second. The next marker is the first one, on
every output partition, that is above all markers that could be read before the kill.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from bench.marker_lag import percentile, write_rows
from bench.process import MeasuredProcess
from bench.store import BenchStore
from bench.topics import BenchTopics
from bench.worker import BenchApplication
from bench.workload import OUTPUT_PARTITIONS
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.errors import RetryError
from tidegate.hlc import ZERO, Timestamp

_ROWS_PER_S: Final = 500
_PARTITIONS: Final = 4
_RANGES: Final = 16
_STARTS: Final = "the worker starts"
_CLOSED_LAG_MS: Final = 3_000
_LIVES_S: Final = 3.0
_COMES_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.01


class Restarts(NamedTuple):
    """Seconds from the kill to the next marker. ``started_p50_s`` counts only until Python has imported the
    worker."""

    kills: int
    p50_s: float
    max_s: float
    started_p50_s: float


def restarts(topics: BenchTopics, directory: Path, kills: int, seed: int) -> Restarts:
    """Kill the worker ``kills`` times, each at a random moment of its life."""
    store = BenchStore(partitions=_PARTITIONS, ranges=_RANGES, seed=seed, closed_lag_ms=_CLOSED_LAG_MS)
    application = BenchApplication(topics, directory, _PARTITIONS, [store.table])
    application.write(store.head(time.time_ns()))
    rng, found = Random(seed), []
    worker = application.start_worker()
    load = _Load(store, application)
    markers = _Markers(topics, application)
    try:
        application.create_feed(worker)
        markers.start()
        load.start()
        markers.wait_for_one_above(ZERO, worker)
        for _ in range(kills):
            time.sleep(_LIVES_S * (1 + rng.random()))
            killed, wall = time.monotonic(), time.time()
            worker.kill()
            worker = application.start_worker()
            worker.wait_for(_STARTS)  # a marker that the killed one had on its way has been read by then
            markers.wait_for_one_above(markers.covered, worker)
            found.append((time.monotonic() - killed, worker.said_at(_STARTS) - wall))
    finally:
        load.stop()
        markers.stop()
        worker.stop()
    took, started = (sorted(times) for times in zip(*found, strict=True))
    return Restarts(kills, percentile(took, 0.5), took[-1], percentile(started, 0.5))


class _Load(threading.Thread):
    """Writes rows and heartbeats, a second at a time."""

    def __init__(self, store: BenchStore, application: BenchApplication) -> None:
        super().__init__(name="load")
        self._store = store
        self._application = application
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            write_rows(self._store, self._application, _ROWS_PER_S, 1.0)

    def stop(self) -> None:
        """Stop writing."""
        self._ended.set()
        if self.is_alive():
            self.join()


class _Markers(threading.Thread):
    """Reads the output; ``covered`` is the highest marker that all of its partitions have."""

    def __init__(self, topics: BenchTopics, application: BenchApplication) -> None:
        super().__init__(name="markers")
        self._topics = topics
        self._outputs = application.outputs
        self._decoder = JsonDecoder(Envelope.WRAPPED)
        self._highest: dict[int, Timestamp] = dict.fromkeys(range(OUTPUT_PARTITIONS), ZERO)
        self._ended = threading.Event()
        self.covered = ZERO

    def run(self) -> None:
        for messages in self._topics.follow(self._outputs, self._ended):
            for message in messages:
                if message.key() is None:
                    marker = self._decoder.decode(None, message.value())
                    if isinstance(marker, MarkerRecord):
                        self._highest[message.partition()] = marker.resolved
            self.covered = min(self._highest.values())

    def wait_for_one_above(self, last: Timestamp, worker: MeasuredProcess) -> None:
        """Return once all partitions have a higher marker. Raises ``RetryError`` when none comes."""
        deadline = time.monotonic() + _COMES_S
        while self.covered <= last:
            worker.require_running()
            if time.monotonic() > deadline:
                raise RetryError(f"no marker above {last} came within {_COMES_S:.0f} s: {worker.log}")
            time.sleep(_LOOK_AGAIN_S)

    def stop(self) -> None:
        """Stop reading."""
        self._ended.set()
        if self.is_alive():
            self.join()
