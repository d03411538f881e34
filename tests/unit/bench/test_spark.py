"""Tests the figures of Spark: ratios of one pass, where the time of a batch goes, a log of a row a record."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from bench.live_tail import LiveTail
from bench.report import Report
from bench.spark import Pass, Passes, SparkCosts, overhead, range_costs, rates, ratios, stages
from bench.spark_query import BatchTimes, ProcessorTime, Run
from bench.workload import single_rows_log
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, WriteValue
from tidegate.spark.platform.task_clock import STAGES

_ROWS = 1_000


def _batch(whole: float = 1.0, rows: int = _ROWS) -> BatchTimes:
    """Spark has 0.1 s for itself, and the job of the one round takes 0.2 s more than its longest task."""
    batch = BatchTimes(
        rows=rows, rounds=1, slowest=whole - 0.4, state_bytes=1 << 20, checkpoint_bytes=1 << 19
    )
    batch.spark.update(triggerExecution=whole, addBatch=whole - 0.1)
    batch.driver.update(ledger=0.02, feeds=0.03, markers=0.05)
    for stage in STAGES:
        batch.tasks[stage] = whole / 10
        batch.cpu[stage] = whole / 100
    batch.tasks["step"] = whole / 2
    return batch


def _run(seconds: float, cpu_s: float) -> Run:
    return Run(seconds, ProcessorTime(spark=cpu_s / 4, python=cpu_s / 2, broker=cpu_s / 4), [_batch(seconds)])


def _pass(feed_s: float, log_copy_s: float, row_copy_s: float) -> Pass:
    return Pass(_run(feed_s, 2.0), _run(log_copy_s, 1.0), _run(row_copy_s, 1.6))


#: The machine was a tenth as fast in the second pass, and busy while the copies ran in the last.
_PASSES = Passes("log", 8, _ROWS, [_pass(2.0, 1.0, 1.5), _pass(20.0, 10.0, 15.0), _pass(4.0, 4.0, 4.0)])


def test_a_ratio_is_of_one_pass_however_fast_the_machine_was() -> None:
    found = {ratio.copy: ratio for ratio in ratios(_PASSES)}
    assert list(found) == ["copy of log", "copy of rows"]
    assert [ratio.rate for ratio in found.values()] == [0.5, 0.75]  # not those of the median rates
    assert [ratio.processor_time for ratio in found.values()] == pytest.approx([2.0, 1.25])


def test_each_contender_has_its_rate_and_who_spent_the_time() -> None:
    found = {rate.contender: rate for rate in rates(_PASSES)}
    assert list(found) == ["changefeed", "copy of log", "copy of rows"]
    assert (found["changefeed"].rows_per_s, found["copy of log"].rows_per_s) == (250, 250)
    assert (found["changefeed"].spark_us, found["changefeed"].python_us) == pytest.approx((500, 1_000))


def test_the_stages_are_all_of_the_tasks_time() -> None:
    found = {stage.stage: stage for stage in stages(_PASSES)}
    assert list(found) == list(STAGES)
    assert sum(stage.percent for stage in found.values()) == pytest.approx(100)
    assert found["step"].percent == pytest.approx(50)
    assert found["step"].cpu_us == pytest.approx(40)
    assert found["step"].us_per_row == pytest.approx(4.0 / 2 / _ROWS * 1e6)  # of the median pass


def test_the_parts_of_a_batch_add_up_to_it() -> None:
    whole, *parts = [each for each in overhead([_batch()]) if not each.part.startswith("in all tasks")]
    assert whole.ms == pytest.approx(1_000)
    assert sum(part.ms for part in parts) == pytest.approx(whole.ms)
    spark = {part.part: part.ms for part in parts if part.of == "Spark"}
    assert list(spark.values()) == pytest.approx([200, 100])


def test_a_batch_of_all_ranges_is_a_median_and_the_state_is_loaded_by_the_first() -> None:
    loading = _batch(3.0)
    loading.cpu["load"] = 2.5
    found = range_costs(10, [_batch(1.0), _batch(2.0), _batch(9.0)], [loading, _batch(1.0)])
    assert (found.batch_s, found.load_cpu_s, found.state_mib, found.checkpoint_mib) == (2.0, 2.5, 1.0, 0.5)


def test_the_report_says_the_ratios_first() -> None:
    costs = SparkCosts(
        ratios(_PASSES),
        rates(_PASSES),
        stages(_PASSES),
        overhead([_batch()]),
        [range_costs(50_000, [_batch()], [_batch()])],
        tails=[LiveTail(64, 9, 0.9, 1.4, 0.6, 0.5, 3.0, 21)],
    )
    report = Report(seed=1, quick=True, spark=costs)
    assert report.to_json()["spark"]["ranges"][0]["ranges"] == 50_000
    assert report.to_json()["spark"]["tails"][0]["partitions"] == 64
    assert Report(seed=1, quick=True).to_json()["spark"] is None
    console = Console(record=True, width=250, file=StringIO())
    report.print(console)
    text = console.export_text()
    assert text.index("over Spark's own copies") < text.index("each by itself")
    assert "0.75" in text
    assert "where the tasks' time goes" in text


def test_a_log_of_single_rows_has_a_record_for_each_and_about_200_bytes_in_it() -> None:
    log = single_rows_log(_ROWS, 4, seed=1)
    written = [
        record for record in log.records if isinstance(decode_entry(record.key, record.value), Command)
    ]
    for record in written:
        entry = decode_entry(record.key, record.value)
        assert isinstance(entry, Command)
        assert [type(op) for op in entry.ops or ()] == [WriteValue]
    assert len(written) == log.rows == _ROWS
    assert 100 < sum(len(record.value) for record in written) / _ROWS < 250
