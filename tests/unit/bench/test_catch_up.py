"""Tests what is timed of feeds that catch up: they are given all that they miss, live ones all that is
written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from rich.console import Console

import bench.catch_up
from bench.catch_up import CatchUpLog, Passage, catch_up_costs, write_log
from bench.report import Report
from bench.workload import BENCH_OPTIONS
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.hlc import Timestamp
from tidegate.kernel.kernel_mode import KernelMode

_VERSIONS, _FEW_VERSIONS = 2_000, 200
_CURSOR = replace(BENCH_OPTIONS, cursor=Timestamp(1))
_LATE = FeedId("late")
_LIVE = FeedId("live0")


@pytest.fixture(scope="module", autouse=True)
def slow_store() -> Iterator[None]:
    """A store that writes on does so until its answers are closed, seconds later: a fifth as many rows do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.catch_up, "_WRITE_RATE", 1_000)
        yield


@pytest.fixture(scope="module")
def finished() -> CatchUpLog:
    return write_log(_VERSIONS, 1, _CURSOR, write_on=False)


def test_a_cursor_brings_every_row_that_was_live_and_only_in_answers(finished: CatchUpLog) -> None:
    done = Passage(finished, late=True)
    assert done.before_rows >= _VERSIONS
    assert done.step(finished.after).rows == {(True, _LATE): done.before_rows}
    assert not done.processor.status().with_gaps


def test_a_scan_brings_a_row_for_each_key() -> None:
    log = write_log(_VERSIONS, 1, replace(BENCH_OPTIONS, initial_scan=InitialScan.YES), write_on=False)
    done = Passage(log, late=True).step(log.after)
    keys = done.rows[True, _LATE]
    assert 0 < keys < done.before_rows
    assert not done.processor.status().with_gaps


@pytest.mark.long
def test_what_is_written_beside_a_catch_up_is_held_and_comes_out_once() -> None:
    log = write_log(_VERSIONS, 1, _CURSOR, write_on=True)
    done = Passage(log, late=True).step(log.after)
    assert done.rows[False, _LIVE] > 0
    assert done.held_bytes > 0
    assert done.rows[True, _LATE] + done.rows[False, _LATE] == done.before_rows + done.rows[False, _LIVE]


@pytest.mark.long
def test_the_report_has_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.catch_up, "_PASSES", 1)  # as few as give figures: nobody reads these
    python, kernel = catch_up_costs(_FEW_VERSIONS, 1, (KernelMode.OFF, KernelMode.ON))
    assert (python.kernel, kernel.kernel) == ("off", "on")
    for costs in (python, kernel):
        assert [found.start for found in costs.speeds] == ["initial scan", "cursor"]
        assert all(found.ratio == found.rows_per_s / found.live_rows_per_s > 0 for found in costs.speeds)
    assert python.speeds[0].rows == kernel.speeds[0].rows
    report = Report(seed=1, quick=True, catch_up=[python, kernel])
    assert report.to_json()["catch_up"][1]["beside"]["held_mib"] > 0
    console = Console(record=True, width=200, file=None, quiet=False)
    with console.capture() as printed:
        report.print(console)
    assert "beside a feed that catches up" in printed.get()
