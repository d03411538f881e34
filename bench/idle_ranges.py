"""Measures idle ranges: the processor time of a worker whose ranges send heartbeats only."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from bench.store import BenchStore
from bench.topics import BenchTopics
from bench.worker import BenchApplication
from sim.log.kafka_sink import KafkaSink
from tidegate.kernel.kernel_mode import KernelMode

_PARTITIONS: Final = 4
_HEARTBEAT_S: Final = 3.0
_STEPS_PER_S: Final = 10
_WARM_UP_S: Final = 9.0


class IdleRanges(NamedTuple):
    """``cpu`` is the share of one core, ``rss_mib`` the worker's memory at the end."""

    kernel: str
    ranges: int
    heartbeats_per_s: float
    cpu: float
    rss_mib: float


def idle_ranges(
    topics: BenchTopics,
    directory: Path,
    seconds: float,
    seed: int,
    kernel: KernelMode,
    ranges: int = 10_000,
) -> IdleRanges:
    """Measure ``ranges`` ranges under a feed, each with a heartbeat every three seconds, evenly spread."""
    store = BenchStore(partitions=_PARTITIONS, ranges=ranges, seed=seed)
    application = BenchApplication(topics, directory, _PARTITIONS, [store.table])
    application.write(store.head(time.time_ns()))
    with application.start_worker(kernel=kernel.value) as worker:
        application.create_feed(worker)
        _beat(store, topics, application, _WARM_UP_S)
        cpu, begin = worker.cpu_s, time.monotonic()
        beats = _beat(store, topics, application, seconds)
        took = time.monotonic() - begin
        worker.require_running()
        return IdleRanges(kernel.value, ranges, beats / took, (worker.cpu_s - cpu) / took, worker.rss_mib)


def _beat(store: BenchStore, topics: BenchTopics, application: BenchApplication, seconds: float) -> int:
    """Write heartbeats of all ranges in turn, in real time. Return how many were written."""
    with closing(KafkaSink(topics.bootstrap, application.log_topic)) as sink:
        ranges, begin, beats = store.ranges, time.monotonic(), 0
        for step in range(int(seconds * _STEPS_PER_S)):
            time.sleep(max(0.0, begin + step / _STEPS_PER_S - time.monotonic()))
            due = int((step + 1) / _STEPS_PER_S / _HEARTBEAT_S * len(ranges))
            now_ns = time.time_ns()
            for number in range(beats, due):
                sink.append(*store.heartbeat(ranges[number % len(ranges)], now_ns))
            beats = due
        sink.flush()
    return beats
