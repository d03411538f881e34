"""A scan from the log: what the store's own scan would show, of a log that is complete
(docs/protocols/backfill.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from sim.workloads.random import RandomOptions, RandomTransactions
from tests.logs import EVENTFUL_MIX, Record, SimulatedLog, eventful_store, simulate
from tests.unit.spark.backfill.scans_of_logs import SCAN, batch_of, complete_to, rows_of_scan, scan_of
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.client.expectations import expected_versions
from tidegate.errors import BrokerUnavailable, SinkHeld, TidegateError
from tidegate.hlc import Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    Command,
    DeleteRange,
    DescriptorUpdate,
    Generation,
    RaftIndex,
    RangeId,
    Trigger,
)
from tidegate.raftlog.shown_versions import versions_shown
from tidegate.rows import Catalog, decode_descriptor, encode_descriptor
from tidegate.rows.table_key import index_span
from tidegate.spans import Span
from tidegate.spark.backfill import newest_rows
from tidegate.spark.backfill.newest_rows import ScanAt, find_versions, write_rows
from tidegate.spark.changefeed import row_producer
from tidegate.spark.changefeed.row_producer import SinkStalled
from tidegate.spark.platform.faults import read_fault


@pytest.mark.sampled(4)
@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("options", [SCAN, replace(SCAN, diff=True)], ids=["rows", "diff"])
def test_the_rows_are_those_of_the_newest_versions_at_the_start(seed: int, options: FeedOptions) -> None:
    print("seed", seed)
    log, rng = _log(seed), Random(f"{seed}:start")
    complete = complete_to(log, log.partitions)
    times = [version.timestamp for version in log.history if version.timestamp <= complete]
    for start in (complete, rng.choice(times)):
        scan = scan_of(log, options, start)
        shown = {
            (record.topic, record.key, record.value, record.timestamp_ms)
            for record in rows_of_scan(scan, log)
        }
        catalog = Catalog()
        for table in log.tables:
            catalog.add(table)
        topics = {target.table_id: target.topic for target in scan.targets}
        expected = expected_versions(log.history, catalog, options, topics, start=start)
        assert shown == {
            (each.topic, each.key, each.value, each.timestamp.wall_ms)
            for each in expected
            if each.scanned_at is not None
        }


@pytest.mark.parametrize("seed", range(12))
def test_a_log_is_complete_up_to_its_last_commit_unless_its_beginning_is_missing(seed: int) -> None:
    print("seed", seed)
    log, rng = _log(seed), Random(f"{seed}:cut")
    assert complete_to(log, log.partitions) >= max(v.timestamp for v in log.history).floor()
    cut = rng.randrange(len(log.partitions))
    first = rng.randint(len(log.partitions[cut]) // 3, len(log.partitions[cut]) - 1)
    shorter = [records[first:] if number == cut else records for number, records in enumerate(log.partitions)]
    lost = _shown(log, [log.partitions[cut][:first]]) - _shown(log, shorter)
    if lost:
        assert complete_to(log, shorter) < min(timestamp for _, timestamp in lost)


def test_a_span_that_was_deleted_or_changed_is_told() -> None:
    log = _log(1)
    complete = complete_to(log, log.partitions)
    scan = scan_of(log, SCAN, complete)
    (span,) = scan.targets[0].spans
    for at, told in ((complete, True), (Timestamp(complete.wall + 1), False)):
        deletion = DeleteRange(span.start, span.end, at)
        entry = Command(RangeId(7), Generation(1), RaftIndex(1), (deletion,), None)
        record = Record(7, encode_key(entry.range_id), encode_entry(entry), 0)
        found = pa.Table.from_batches(find_versions(scan, [batch_of(7 % len(log.partitions), [record])]))
        faults = [each for each in found["fault"].to_pylist() if each]
        assert bool(faults) is told
    for mutated, told in (((span,), True), ((), True), ((Span(b"\x01", b"\x02"),), False)):
        entry = Command(
            RangeId(7), Generation(1), RaftIndex(1), (), None, Trigger.HISTORY_MUTATION, b"", mutated
        )
        record = Record(7, encode_key(entry.range_id), encode_entry(entry), 0)
        (batch,) = find_versions(scan, [batch_of(7 % len(log.partitions), [record])])
        assert bool(batch.num_rows) is told
    batch = pa.record_batch([[b""], [0], [0], [b""], [7], ["hidden"]], schema=found.schema)
    (answer,) = write_rows(scan, iter([batch]))
    assert str(read_fault(answer["fault"].to_pylist()[0])) == "hidden"


def test_only_changes_of_the_index_that_is_primary_at_the_start_are_told_whenever_they_were() -> None:
    log = _log(1)
    complete = complete_to(log, log.partitions)
    scan = scan_of(log, SCAN, complete)
    (newest, *_) = [update for update in scan.descriptors if update.table_id == scan.targets[0].table_id]
    table = decode_descriptor(newest.descriptor)
    altered = replace(table, version=2, modified=complete, primary_index_id=2)
    update = DescriptorUpdate(table.id, 2, complete, encode_descriptor(altered))
    swapped = replace(scan, descriptors=(*scan.descriptors, update))
    for index, at, told in ((1, scan, True), (2, scan, False), (1, swapped, False), (2, swapped, True)):
        keys = index_span(table.id, index)
        ops = (DeleteRange(*keys, complete),)
        built = Command(
            RangeId(7),
            Generation(1),
            RaftIndex(1),
            (),
            None,
            Trigger.ADD_SSTABLE,
            b"",
            (keys,),
            True,
            complete,
        )
        for entry in (built, Command(RangeId(7), Generation(1), RaftIndex(1), ops, None)):
            record = Record(7, encode_key(entry.range_id), encode_entry(entry), 0)
            (batch,) = find_versions(at, [batch_of(7 % len(log.partitions), [record])])
            assert bool(batch.num_rows) is told


@pytest.fixture(scope="module")
def sink() -> Iterator[tuple[str, str]]:
    """The address of a cluster inside of librdkafka, and its id."""
    owner = Producer({"test.mock.num.brokers": 1})
    found = owner.list_topics(timeout=20.0)
    (broker,) = found.brokers.values()
    yield f"{broker.host}:{broker.port}", found.cluster_id
    del owner


def test_the_rows_of_a_scan_go_to_the_cluster_that_is_stored_with_the_feed(sink: tuple[str, str]) -> None:
    address, cluster = sink
    scan, log = _scan_to(address, cluster)
    creator = Producer({"bootstrap.servers": address})
    for target in scan.targets:
        assert creator.list_topics(target.topic, timeout=20.0).topics[target.topic].partitions
    rows, fault = _written(scan, log)
    assert fault is None
    assert rows > 0


def test_a_scan_writes_nothing_to_another_cluster_at_the_address_and_names_both(
    sink: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, cluster = sink
    monkeypatch.setattr(row_producer.RowProducer, "send", lambda *_: pytest.fail("a row is written"))
    rows, fault = _written(*_scan_to(address, "the-stored-one"))
    assert rows == 0
    assert isinstance(fault, SinkHeld)
    assert "are on the Kafka cluster the-stored-one, and at" in str(fault)
    assert f"there is the cluster {cluster} now" in str(fault)
    assert "accept-cluster" not in str(fault), "that command refuses every feed in a backfill"
    assert "Rows may stand on either, and no progress is stored for them" in str(fault)


@pytest.mark.parametrize("at", ["cluster_id", "send", "acknowledge"])
@pytest.mark.parametrize(
    ("now", "kind", "told"),
    [
        ("another", SinkHeld, "the cluster another now"),
        ("stored", BrokerUnavailable, "not certain which rows of feed"),
        (None, BrokerUnavailable, "does not answer"),
    ],
)
def test_rows_do_not_count_once_the_cluster_at_the_address_was_another_or_none(
    at: str, now: str | None, kind: type[TidegateError], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[OneProducer] = []

    class OneProducer:
        """Stands where producers do: the first one notices at ``at``, the next is told of ``now``."""

        def __init__(self, config: Any, *, watched: bool) -> None:
            assert watched
            self.is_first, self.is_abandoned = not opened, False
            opened.append(self)

        def cluster_id(self, topic: str) -> str:
            self._notice("cluster_id")
            if self.is_first:
                return "stored"
            if now is None:
                raise SinkStalled
            return now

        def send(self, *_: Any) -> None:
            assert self.is_first
            self._notice("send")

        def acknowledge(self) -> None:
            self._notice("acknowledge")

        def abandon(self) -> None:
            self.is_abandoned = True

        def _notice(self, step: str) -> None:
            if self.is_first and step == at:
                raise SinkStalled

    monkeypatch.setattr(newest_rows, "RowProducer", OneProducer)
    rows, fault = _written(*_scan_to("127.0.0.1:8", "stored"))
    assert rows == 0
    assert isinstance(fault, kind)
    assert told in str(fault)
    assert opened[0].is_abandoned


def _scan_to(address: str, cluster: str) -> tuple[ScanAt, SimulatedLog]:
    log = _log(1)
    scan = scan_of(log, SCAN, complete_to(log, log.partitions))
    definition = replace(scan.definition, sink_uri=f"kafka://{address}")
    return replace(scan, definition=definition, cluster=cluster), log


def _written(scan: ScanAt, log: SimulatedLog) -> tuple[int, TidegateError | None]:
    """Return what a task answers that writes all versions of a log: how many rows, and why there are not
    more."""
    found = [
        batch
        for number, records in enumerate(log.partitions)
        for batch in find_versions(scan, [batch_of(number, records)])
    ]
    (answer,) = write_rows(scan, iter(found))
    fault = answer["fault"].to_pylist()[0]
    return answer["rows"].to_pylist()[0], None if fault is None else read_fault(fault)


@cache
def _log(seed: int) -> SimulatedLog:
    workload = RandomTransactions(RandomOptions(tables=2, ranges=3, keys=12, outcomes=EVENTFUL_MIX), seed)
    store = replace(eventful_store(3), split_every_ms=400, merge_every_ms=500)
    return simulate(workload, store, seed=seed, transactions=60)


def _shown(log: SimulatedLog, partitions: Any) -> set[tuple[bytes, Timestamp]]:
    """The versions of the tables that the records show."""
    entries = [decode_entry(record.key, record.value) for records in partitions for record in records]
    return {(each.key, each.timestamp) for entry in entries for each in versions_shown(entry)}
