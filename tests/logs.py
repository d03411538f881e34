"""Simulated logs for tests, as the partitions of a log topic would deliver them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from sim.log.history import History
from sim.log.sink import ListSink
from sim.options import StoreOptions
from sim.plan import OutcomeMix, Workload
from sim.simulation import Simulation
from tidegate.rows import TableDescriptor, decode_descriptor

BASE_NS = 1_700_000_000 * 10**9
_EVENTFUL = StoreOptions(
    closed_lag_ms=200,
    heartbeat_ms=300,
    rejected_fraction=0.05,
    snapshot_interval_ms=700,
    request_gap_ms=20,
    resolve_delay_ms=400,
)
#: Transactions that are restarted, aborted and abandoned among those that commit.
EVENTFUL_MIX = OutcomeMix(restart=0.15, abort=0.1, abandon=0.1)


class Record(NamedTuple):
    """A record of one partition of the log topic; ``timestamp`` in milliseconds."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


@dataclass(frozen=True, slots=True)
class SimulatedLog:
    """A finished simulation: its log by partition, what truly happened, and its tables."""

    partitions: tuple[tuple[Record, ...], ...]
    history: History
    tables: tuple[TableDescriptor, ...]


def eventful_store(partitions: int) -> StoreOptions:
    """A store in whose log all kinds of records follow each other closely."""
    return replace(_EVENTFUL, partitions=partitions)


def simulate(workload: Workload, options: StoreOptions, *, seed: int, transactions: int) -> SimulatedLog:
    """Run a workload to its end: everything committed or gone, and closed."""
    sink, history = ListSink(), History()
    simulation = Simulation(workload, sink, history, options, seed=seed, base_ns=BASE_NS)
    simulation.run(transactions)
    simulation.finish()
    partitions: list[list[Record]] = [[] for _ in range(options.partitions)]
    for record in sink.records:
        log = partitions[record.partition]
        log.append(Record(len(log), record.key, record.value, record.record_time_ms))
    tables = tuple(decode_descriptor(update.descriptor) for update in simulation.store.descriptors)
    return SimulatedLog(tuple(map(tuple, partitions)), history, tables)
