"""A backfill's sink comes to mean another cluster, and its own again: its progress is true."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random, SystemRandom
from types import SimpleNamespace
from typing import Any, Final

import pytest

import tidegate.spark.backfill.one_feed
import tidegate.spark.changefeed.batch_driver
import tidegate.spark.changefeed.row_producer
import tidegate.spark.changefeed.row_sinks
import tidegate.spark.changefeed.task.partition_task
import tidegate.spark.changefeed.task.round_state
from sim.workloads.random import RandomOptions, RandomTransactions
from tests.destinations import DESTINATIONS
from tests.feeds import WITH_MARKERS, activation
from tests.logs import EVENTFUL_MIX, SimulatedLog, eventful_store, simulate
from tests.simulation.feed_judge import BrokenPromise, FeedJudge
from tests.unit.spark.backfill.scans_of_logs import SCAN, batch_of, complete_to, rows_of_scan, scan_of
from tests.unit.spark.driven_clients import STORED, DrivenClients
from tests.unit.spark.in_process import InProcess
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import RetryError
from tidegate.hlc import ZERO
from tidegate.processor.batch import OutputRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.push_policy import PushPolicy
from tidegate.spark.backfill.newest_rows import find_versions, write_rows
from tidegate.spark.backfill.one_feed import run_over
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.row_producer import RowProducer
from tidegate.spark.platform.faults import read_fault

_AWAY: Final = "127.0.0.1:8"
_PARTITIONS: Final = 3
_WANDERS: Final = 0.004  # whenever a producer does something
_SLICES: Final = 4
_FRESH: Final = SystemRandom()


def _log(seed: int) -> SimulatedLog:
    workload = RandomTransactions(RandomOptions(tables=1, ranges=3, keys=12, outcomes=EVENTFUL_MIX), seed)
    store = replace(eventful_store(_PARTITIONS), split_every_ms=400, merge_every_ms=500)
    return simulate(workload, store, seed=seed, transactions=40)


def _clients(seed: int, see: Any, patch: pytest.MonkeyPatch) -> DrivenClients:
    clients = DrivenClients(Random(f"{seed}:clients"), _AWAY, see)
    clients.wanders = _WANDERS
    patch.setattr(tidegate.spark.changefeed.row_producer, "Producer", clients)
    patch.setattr(
        tidegate.spark.changefeed.row_producer, "time", SimpleNamespace(monotonic=lambda: clients.now)
    )
    patch.setattr(tidegate.spark.changefeed.row_sinks, "_idle", {})
    patch.setattr(tidegate.spark.changefeed.row_sinks, "_stalled_at", {})
    return clients


class FromCursor:
    """The rows of a log from a cursor on, as a backfill writes them."""

    def __init__(self, seed: int, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.log = _log(seed)
        uri, options = f"kafka://{_AWAY}", replace(WITH_MARKERS, resolved_interval_ns=None)
        self._feed = activation(self.log.tables, options, sink_uri=uri)
        self._judge = FeedJudge(self._feed, self.log.tables)
        self.clients = _clients(seed, lambda row: self._judge.see(row, self.log.history), patch)
        self.complete_to = ZERO
        self._root = directory.as_uri()
        patch.setattr(tidegate.spark.backfill.one_feed, "BatchDriver", InProcess)
        patch.setattr(tidegate.spark.changefeed.task.partition_task.PartitionTask, "_log_start", lambda _: 0)
        patch.setattr(tidegate.spark.changefeed.task.partition_task, "_read_again", self._read_again)
        patch.setattr(tidegate.spark.changefeed.task.round_state, "_held", {})
        patch.setattr(
            tidegate.spark.changefeed.batch_driver, "_AGAIN_S", 0.0
        )  # for a sink that means another cluster

    def run(self) -> None:
        """Raises ``BrokenPromise`` where a row is missing of what it says that there is."""
        config = ProcessorConfig(push=PushPolicy(enabled=False))
        query = Query(
            self._root,
            KafkaConnection(destinations=DESTINATIONS),
            "raftlog",
            _PARTITIONS,
            self._root,
            config,
            whole_checkpoints_only=True,
        )
        ran = run_over(self._slices(), query, self._feed, STORED)
        if ran.failure and not self.clients.refused:
            raise BrokenPromise(f"its cluster has refused nothing: {ran.failure}")
        complete = ZERO if ran.failure else ran.complete_to(ZERO)
        missing = [(key.hex(), time) for key, time in self._judge.missing() if time <= complete]
        if missing:
            raise BrokenPromise(f"up to {complete} {missing[:3]} are missing")
        self.complete_to = complete

    def _slices(self) -> Any:
        return [
            {
                number: records[len(records) * at // _SLICES : len(records) * (at + 1) // _SLICES]
                for number, records in enumerate(self.log.partitions)
            }
            for at in range(_SLICES)
        ]

    def _read_again(self, _: Query, number: int, offsets: range) -> Any:
        return [self.log.partitions[number][offsets.start : offsets.stop]] if offsets else []


def _run_from_cursor(seed: int, directory: Path, patch: pytest.MonkeyPatch) -> FromCursor:
    run = FromCursor(seed, directory, patch)
    try:
        run.run()
    except BrokenPromise as broken:
        pytest.fail(f"FromCursor({seed}): {broken}")
    return run


@pytest.mark.long
def test_what_is_said_of_rows_above_a_cursor_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = 0
    for seed in range(8):
        with monkeypatch.context() as patch:
            run = _run_from_cursor(seed, tmp_path / str(seed), patch)
            assert run.complete_to > ZERO
            changes += run.clients.changes
    assert changes > 3, "the addresses meant one cluster all the time"


def test_it_is_for_a_fresh_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_from_cursor(_FRESH.getrandbits(32), tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_050))
def test_it_is_for_many(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_from_cursor(seed, tmp_path, monkeypatch)


def test_a_task_that_does_not_ask_whose_acknowledgements_it_has_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowProducer, "cluster_id", lambda *_: STORED)
    with pytest.raises(BrokenPromise):
        _run_many(20, tmp_path, monkeypatch)


def _run_many(seeds: int, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(seeds):
        with monkeypatch.context() as patch:
            FromCursor(seed, directory / str(seed), patch).run()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(20))
def test_a_scan_ends_with_all_rows_on_the_stored_cluster_or_with_a_sentence(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    print("seed", seed)
    seen: list[OutputRecord] = []
    clients = _clients(seed, seen.append, monkeypatch)
    log = _log(seed)
    scan = scan_of(log, SCAN, complete_to(log, log.partitions))
    definition = replace(scan.definition, sink_uri=f"kafka://{_AWAY}")
    scan = replace(scan, definition=definition, cluster=STORED)
    found = [
        batch
        for number, records in enumerate(log.partitions)
        for batch in find_versions(scan, [batch_of(number, records)])
    ]
    (answer,) = write_rows(scan, iter(found))
    fault = answer["fault"].to_pylist()[0]
    if fault is None:
        owed = {(row.topic, row.key, row.value) for row in rows_of_scan(scan, log)}
        assert owed <= {(row.topic, row.key, row.value) for row in seen}
    else:
        assert clients.changes, "nothing has changed"
        assert isinstance(read_fault(fault), RetryError), read_fault(fault)
