"""The alarm about partitions that stand still."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.worker.ended_process import Ended
from tidegate.worker.operations import stall_alarm
from tidegate.worker.operations.report import WorkerReport


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
