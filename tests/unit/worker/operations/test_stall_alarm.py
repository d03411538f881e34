"""The alarm about partitions that stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import pytest

from tests.unit.worker.ended_process import Ended
from tidegate.worker.operations import stall_alarm
from tidegate.worker.operations.report import PartitionReport, WorkerReport


def test_a_stall_alarm_that_cannot_look_ends_the_process(
    reasons: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall_alarm, "_LOOK_S", 0.0)

    def report() -> WorkerReport:
        raise RuntimeError("dictionary changed size during iteration")

    async def main() -> None:
        with pytest.raises(Ended):
            await stall_alarm.start_stall_alarm(report)

    asyncio.run(main())
    assert [str(reason) for reason in reasons] == ["dictionary changed size during iteration"]


class _Lines:
    """Takes the place of the alarm's log, whose lines go where other tests have them go."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Mapping[str, object]]] = []

    def error(self, event: str, **fields: object) -> None:
        self.told.append((event, fields))


def test_a_step_that_takes_long_is_told_of_with_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_alarm, "_LOOK_S", 0.0)
    monkeypatch.setattr(stall_alarm, "_log", lines := _Lines())
    slow = PartitionReport(3, "running", step_ms=61_000, step_of="offsets 5 to 9")
    report = WorkerReport("app", None, "raftlog", 4, stall_alarm_ms=60_000, partitions=(slow,))
    assert report.stuck == (slow,)

    async def main() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(stall_alarm.watch_for_stalls(lambda: report), 0.2)

    asyncio.run(main())
    ((event, fields),) = lines.told
    assert event.startswith("a step takes long")
    assert fields == {"partition": 3, "step_ms": 61_000, "records": "offsets 5 to 9"}
