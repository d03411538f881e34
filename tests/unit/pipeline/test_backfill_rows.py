"""A scan from the log: what the store's own scan would show, of a log that is complete (docs/backfill.md)."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from pipeline.backfilling.newest_rows import find_versions, write_rows
from pipeline.faults import read_fault
from sim.workloads.random import RandomOptions, RandomTransactions
from tests.logs import EVENTFUL_MIX, Record, SimulatedLog, eventful_store, simulate
from tests.unit.pipeline.scans_of_logs import SCAN, batch_of, complete_to, rows_of_scan, scan_of
from tidegate.changefeed.options import FeedOptions
from tidegate.client.expectations import expected_versions
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
from tidegate.raftlog.versions import versions_shown
from tidegate.rows import Catalog, decode_descriptor, encode_descriptor
from tidegate.rows.table_key import index_span
from tidegate.spans import Span


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


def _log(seed: int) -> SimulatedLog:
    workload = RandomTransactions(RandomOptions(tables=2, ranges=3, keys=12, outcomes=EVENTFUL_MIX), seed)
    store = replace(eventful_store(3), split_every_ms=400, merge_every_ms=500)
    return simulate(workload, store, seed=seed, transactions=60)


def _shown(log: SimulatedLog, partitions: Any) -> set[tuple[bytes, Timestamp]]:
    """The versions of the tables that the records show."""
    entries = [decode_entry(record.key, record.value) for records in partitions for record in records]
    return {(each.key, each.timestamp) for entry in entries for each in versions_shown(entry)}
