"""The logs that are measured, finished and in memory, and the feed that is run over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from bench.store import BenchStore, whole_log
from sim.log.history import NoHistory
from sim.log.sink import ListSink, WrittenRecord
from sim.nycflights import fetch_archive
from sim.options import StoreOptions
from sim.simulation import Simulation
from sim.workloads.flights import Flights, FlightsOptions
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition, FeedId, FeedTarget, TableName
from tidegate.changefeed.definition.options import ExistingTopics, FeedOptions
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import ZERO
from tidegate.rows import TableDescriptor, decode_descriptor
from tidegate.rows.table_key import index_span

#: When the logs that are filled beforehand begin.
BASE_NS: Final = 1_700_000_000 * 10**9
_RANGES_PER_PARTITION: Final = 4
_TRANSACTIONS_AT_ONCE: Final = 200
_UPDATED_KEYS: Final = 1_000  # of a range
#: What the feed of the measurements emits unless it is told otherwise.
BENCH_OPTIONS: Final = FeedOptions(updated=True, resolved_interval_ns=0)


class PartitionRecord(NamedTuple):
    """A record of one log partition as a client delivers it; ``timestamp`` is in milliseconds."""

    offset: int
    key: bytes
    value: bytes
    timestamp: int


@dataclass(frozen=True, slots=True)
class BenchLog:
    """A finished log of ``rows`` committed versions; its first ``head`` records carry none."""

    name: str
    tables: tuple[TableDescriptor, ...]
    records: Sequence[WrittenRecord]
    rows: int
    head: int

    def partition(self, number: int) -> list[PartitionRecord]:
        """Return the records of one partition."""
        records = (record for record in self.records if record.partition == number)
        return [
            PartitionRecord(offset, record.key, record.value, record.record_time_ms)
            for offset, record in enumerate(records)
        ]


#: Makes a log. Its arguments are the number of rows (``flights_log`` has only about as many), the number of
#: partitions, and the seed.
MakeLog = Callable[[int, int, int], BenchLog]


def orders_log(rows: int, partitions: int, seed: int) -> BenchLog:
    """Return a log of the bench row: 8 columns, half of the rows one-phase, half by intent and commit."""
    store = BenchStore(partitions=partitions, ranges=_RANGES_PER_PARTITION * partitions, seed=seed)
    records = list(whole_log(store, rows, BASE_NS))
    return BenchLog("orders", (store.table,), records, rows, partitions + len(store.ranges))


def single_rows_log(rows: int, partitions: int, seed: int) -> BenchLog:
    """Return a log of the bench row, each in one phase and in a record of its own."""
    store = BenchStore(
        partitions=partitions, ranges=_RANGES_PER_PARTITION * partitions, seed=seed, single=True
    )
    records = list(whole_log(store, rows, BASE_NS))
    return BenchLog("single rows", (store.table,), records, rows, partitions + len(store.ranges))


def updates_log(rows: int, partitions: int, seed: int) -> BenchLog:
    """Return a log of the bench row in which most rows are updates, and carry the row before."""
    ranges = _RANGES_PER_PARTITION * partitions
    store = BenchStore(
        partitions=partitions, ranges=ranges, seed=seed, keys_per_range=_UPDATED_KEYS, previous=True
    )
    records = list(whole_log(store, rows, BASE_NS))
    return BenchLog("updates", (store.table,), records, rows, partitions + len(store.ranges))


def flights_log(rows: int, partitions: int, seed: int) -> BenchLog:
    """Return a log of the simulator's flights: 19 columns, with previous versions, deletions and weather.

    Raises what ``fetch_archive`` raises where the data cannot be had.
    """
    sink = ListSink()
    options = StoreOptions(partitions=partitions)
    workload = Flights(fetch_archive(), FlightsOptions(), seed)
    simulation = Simulation(workload, sink, NoHistory(), options, seed=seed, base_ns=BASE_NS)
    head = len(sink.records)
    while simulation.store.counts["versions"] < rows and not simulation.exhausted:
        simulation.run(_TRANSACTIONS_AT_ONCE)
    simulation.finish()
    tables = tuple(decode_descriptor(update.descriptor) for update in simulation.store.descriptors)
    return BenchLog("flights", tables, sink.records, simulation.store.counts["versions"], head)


def bench_feed(
    tables: Sequence[TableDescriptor],
    *,
    topic_prefix: str = "",
    bootstrap: str = "127.0.0.1:9092",
    options: FeedOptions = BENCH_OPTIONS,
) -> Activate:
    """Return a feed on all of ``tables``, with four partitions for each. Its topics have to exist already."""
    options = replace(options, topic_prefix=topic_prefix, existing_topics=ExistingTopics.USE)
    if options.resolved_topic:
        options = replace(options, resolved_topic=topic_prefix + options.resolved_topic)
    definition = FeedDefinition(
        id=FeedId("bench"),
        epoch=FIRST_EPOCH,
        description="the feed of the measurements",
        sink_uri=f"kafka://{bootstrap}",
        tables=tuple(map(TableName.of, tables)),
        options=options,
        created_ns=0,
    )
    targets = tuple(
        FeedTarget(
            TableName.of(table),
            table.id,
            topic_prefix + table.name,
            OUTPUT_PARTITIONS,
            (index_span(table.id, table.primary_index_id),),
        )
        for table in tables
    )
    return Activate(definition, ZERO, targets)


OUTPUT_PARTITIONS: Final = 4
