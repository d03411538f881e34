"""A written step by Python and by the kernel: all that differs is found."""

from __future__ import annotations

import re

import pytest

from tests.feeds import activation
from tests.unit.kernel.planted import PLANTED_IN_LOGS, PLANTED_IN_ROWS
from tests.unit.processor.logs import PLAIN
from tests.unit.replay.steps import step_of
from tidegate.changefeed.lifecycle.control import Register
from tidegate.errors import StateError
from tidegate.kernel import partition_kernel
from tidegate.kernel.instance import Instance
from tidegate.kernel.traps import Traps
from tidegate.processor.batch import ControlRecord
from tidegate.processor.log_step import LogStep
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset
from tidegate.replay import step_comparison
from tidegate.replay.step_comparison import compare
from tidegate.replay.written_step import WrittenStep

pytest.importorskip("wasmtime")


@pytest.mark.parametrize("seed", range(8))
def test_python_and_the_kernel_agree(seed: int) -> None:
    print(f"seed {seed}")
    step = step_of(seed)
    found = compare(step)
    assert (found.difference, found.broke, found.traps) == ("", "", 0)
    assert found.records == len([each for each in step.records if each.offset >= step.first]) > 0
    assert 0 <= found.followed <= found.records


def test_rows_and_records_that_the_kernel_followed_are_counted() -> None:
    all_of = [compare(step_of(seed)) for seed in range(8)]
    assert sum(each.followed for each in all_of) > sum(each.records for each in all_of) // 4
    assert sum(each.rows for each in all_of) > 100


@pytest.mark.sampled(4)
@pytest.mark.parametrize("stage", list(PLANTED_IN_LOGS)[::4])
def test_a_difference_is_found_and_shown(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [step_of(seed, 0.2) for seed in range(12)]
    PLANTED_IN_LOGS[stage](monkeypatch)
    told = [found for step in steps if (found := compare(step).difference)]
    assert told
    for each in told:
        assert " by the kernel, " in each
        assert each.endswith(" by Python")
        assert " of portion " in each


def test_the_row_that_differs_is_shown_with_its_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [step_of(seed, 0.2) for seed in range(12)]
    PLANTED_IN_ROWS["the template of a row"](monkeypatch)
    told = [found for step in steps if (found := compare(step).difference)]
    assert any(
        re.match(r"(outputs|unframed) of portion 1, feed feed-\d, number \d+: ", each) for each in told
    )


def test_a_kernel_that_traps_is_counted_and_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def traps(*_: object) -> None:
        raise RuntimeError("unreachable")

    monkeypatch.setattr(partition_kernel, "TRAPS", traps_here := Traps())
    monkeypatch.setattr(step_comparison, "TRAPS", traps_here)
    monkeypatch.setattr(Instance, "follow", traps)
    found = compare(step_of(1))
    assert found.difference == ""
    assert found.traps > 0


def test_a_step_that_breaks_does_so_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    step = step_of(1)

    def breaks(*_: object) -> None:
        raise ArithmeticError("nobody foresaw it")

    monkeypatch.setattr(LogStep, "settle", breaks)
    found = compare(step)
    assert "a step broke at offsets " in found.broke
    assert "nobody foresaw it" in found.broke
    assert found.difference == ""


def test_without_a_kernel_there_is_nothing_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_comparison, "compiled", lambda: None)
    with pytest.raises(StateError, match="no kernel in this process"):
        compare(step_of(1))


def test_a_partition_that_waits_for_a_feeds_start_is_named() -> None:
    registered = [ControlRecord(Offset(0), Register(activation([PLAIN.descriptor]).definition))]
    changes = PartitionProcessor(0, 1).control(registered).changes
    rows = {(table, key): value for table, key, value in changes if value is not None}
    with pytest.raises(StateError, match="waits for the start of feed"):
        compare(WrittenStep(0, 1, 0, rows, ()))
