"""Steps of tasks that take long are told of while they run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.hand_log import HandLog, HandTable
from tests.unit.spark.one_partition import NOBODY, tasks_on
from tidegate.processor.processor import PartitionProcessor
from tidegate.spark.changefeed.task import partition_task
from tidegate.spark.changefeed.task.long_steps import LongSteps


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _idle(clock: _Clock) -> LongSteps:
    """A watch whose own thread never looks, so that the test does."""
    return LongSteps(alarm_s=60.0, look_s=1e6, clock=clock)


def test_a_step_is_told_of_when_it_takes_long_and_again_each_minute(caplog: pytest.LogCaptureFixture) -> None:
    watch = _idle(clock := _Clock())
    with watch.watched(3, "offsets 5 to 9"):
        for clock.now in range(150):
            watch.look()
    assert [record.getMessage() for record in caplog.records] == [
        f"partition 3: a step of offsets 5 to 9 takes long, {seconds} s so far, and all feeds wait for it; "
        "please report it with its records"
        for seconds in (60, 120)
    ]


def test_many_short_steps_are_no_long_one(caplog: pytest.LogCaptureFixture) -> None:
    watch = _idle(clock := _Clock())
    for clock.now in range(0, 600, 50):
        with watch.watched(3, "offsets 5 to 9"):
            watch.look()
            clock.now += 49
            watch.look()
    clock.now += 100
    watch.look()
    assert not caplog.records


class _Told(logging.Handler):
    """Ends the wait of a step once it is told of."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.came = Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.came.set()


def test_a_task_tells_of_a_step_with_partition_and_offsets_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, step_some = _Told(), PartitionProcessor.step_some

    def waiting(self: PartitionProcessor, records: Sequence[Any]) -> Any:
        if records:
            assert told.came.wait(30), "the step runs, and nobody tells of it"
        return step_some(self, records)

    log = HandLog(partitions=1)
    log.open_range(1, HandTable.of(104, "t").span)
    monkeypatch.setattr(PartitionProcessor, "step_some", waiting)
    monkeypatch.setattr(partition_task, "LONG_STEPS", LongSteps(alarm_s=0.0, look_s=0.01))
    logger = logging.getLogger("tidegate.spark")
    logger.addHandler(told)
    try:
        tasks_on(NOBODY, "raftlog", tmp_path).run(log.partitions[0])
    finally:
        logger.removeHandler(told)
    last = log.partitions[0][-1].offset
    assert told.lines[0].startswith(f"partition 0: a step of offsets 0 to {last} takes long")
