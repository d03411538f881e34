"""What open transactions cost: memory of a worker that keeps account of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, NamedTuple

from bench.process import MeasuredProcess
from bench.store import BenchStore
from bench.topics import BenchTopics
from bench.worker import BenchApplication
from tidegate.errors import RetryError
from tidegate.processor.batch import StateTable

_PARTITIONS: Final = 4
_RANGES: Final = 16
_STORED_S: Final = 120.0
_LOOK_AGAIN_S: Final = 0.5


class OpenIntents(NamedTuple):
    """Memory of the worker process before and with the intents, and of one that restored them."""

    intents: int
    before_mib: float
    with_mib: float
    restored_mib: float


def open_intents(topics: BenchTopics, directory: Path, seed: int, intents: int = 100_000) -> OpenIntents:
    """``intents`` transactions with one intent each stay open, under a feed."""
    store = BenchStore(partitions=_PARTITIONS, ranges=_RANGES, seed=seed)
    application = BenchApplication(topics, directory, _PARTITIONS, [store.table])
    application.write(store.head(time.time_ns()))
    stored = application.changelog(StateTable.INTENTS)
    with application.start_worker() as worker:
        application.create_feed(worker)
        before = worker.rss_mib
        application.write(store.open_intents(intents, time.time_ns()))
        _wait_until_stored(topics, stored, intents, worker)
        with_intents = worker.rss_mib
    with application.start_worker() as worker:
        worker.wait_for("partition restored", _PARTITIONS)
        time.sleep(_LOOK_AGAIN_S)
        return OpenIntents(intents, before, with_intents, worker.rss_mib)


def _wait_until_stored(topics: BenchTopics, changelog: str, rows: int, worker: MeasuredProcess) -> None:
    deadline = time.monotonic() + _STORED_S
    while sum(1 for _ in topics.messages([changelog])) < rows:
        worker.require_running()
        if time.monotonic() > deadline:
            raise RetryError(f"{rows} intents were not stored within {_STORED_S:.0f} s; see {worker.log}")
        time.sleep(_LOOK_AGAIN_S)
