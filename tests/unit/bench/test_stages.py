"""The measurements measure the real thing: a log that obeys the contract, stages that do a step's work."""

from __future__ import annotations

import pytest

from bench.stages import Pass, StagedPartition, batches, run_stages, stage_times
from bench.workload import BenchLog, bench_feed, orders_log
from tidegate.errors import MalformedEntry
from tidegate.processor.batch import ControlRecord, OutputRecord
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.decode import decode_batch
from tidegate.raftlog.entry import Command, CommitIntent, Offset, WriteValue

_ROWS = 500


@pytest.fixture(scope="module")
def log() -> BenchLog:
    return orders_log(_ROWS, 1, seed=1)


def _stepped(log: BenchLog, number: int = 0, partitions: int = 1) -> list[OutputRecord]:
    """The rows of one partition; there must be no incident on the way."""
    processor = PartitionProcessor(number, partitions)
    processor.control([ControlRecord(Offset(0), bench_feed(log.tables))])
    result = processor.step(log.partition(number))
    assert not result.incidents
    return [record for records in result.outputs.values() for record in records]


@pytest.mark.parametrize("partitions", [1, 4])
def test_the_log_obeys_the_contract_and_holds_exactly_its_rows(partitions: int) -> None:
    log = orders_log(_ROWS, partitions, seed=2)
    rows = [row for number in range(partitions) for row in _stepped(log, number, partitions)]
    assert len(rows) == _ROWS


def test_the_end_of_the_log_closes_all_of_it(log: BenchLog) -> None:
    processor = PartitionProcessor(0, 1)
    processor.control([ControlRecord(Offset(0), bench_feed(log.tables))])
    checkpoint = processor.step(log.partition(0)).checkpoint
    assert checkpoint is not None
    last_ms = max(record.timestamp_ms for record in _stepped(log))
    assert all(range_.resolved.wall_ms > last_ms for range_ in checkpoint.ranges)


def test_about_half_of_the_rows_are_committed_intents(log: BenchLog) -> None:
    entries = decode_batch((record.key, record.value) for record in log.partition(0))
    ops = [op for entry in entries if isinstance(entry, Command) for op in entry.ops or ()]
    committed = sum(isinstance(op, CommitIntent) for op in ops)
    assert committed + sum(isinstance(op, WriteValue) for op in ops) == _ROWS
    assert 0.4 < committed / _ROWS < 0.6


def test_a_row_is_about_200_bytes_of_json(log: BenchLog) -> None:
    sizes = [len(row.value or b"") for row in _stepped(log)]
    assert 180 < sum(sizes) / len(sizes) < 240


def test_the_same_seed_gives_the_same_log(log: BenchLog) -> None:
    assert orders_log(_ROWS, 1, seed=1).records == log.records
    assert orders_log(_ROWS, 1, seed=3).records != log.records


def test_the_timed_stages_give_the_rows_of_a_step(log: BenchLog) -> None:
    done = run_stages(log)
    assert [record for records in done.outputs for record in records] == _stepped(log)
    assert [time.stage for time in stage_times(log, done)] == [
        "decode",
        "resolve",
        "row decode",
        "encode",
        "freeze",
        "whole step",
    ]
    assert all(time.us_per_row > 0 for time in stage_times(log, done))


def test_a_record_that_cannot_be_read_stops_the_measurement(log: BenchLog) -> None:
    *head, last = next(batches(log))
    with pytest.raises(MalformedEntry):
        StagedPartition(log).step([*head, last._replace(value=last.value[:-1])], Pass())
