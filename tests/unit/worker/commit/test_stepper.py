"""A step that takes long can be seen from outside while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from tests.logs import Record
from tests.unit.worker.hand_ids import HandIds
from tidegate.processor.batch import LogRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.worker.commit.framing import Framing
from tidegate.worker.commit.stepper import RunningStep, Stepper

_RECORDS = [Record(offset, b"", b"", 0) for offset in (5, 6, 9)]


def test_a_step_is_told_of_while_it_runs_with_its_time_and_its_records() -> None:
    now, goes_on, began = [100.0], Event(), Event()

    def step(_: Sequence[LogRecord]) -> StepResult:
        began.set()
        assert goes_on.wait(30)
        return StepResult(None)

    async def main() -> None:
        with ThreadPoolExecutor(1) as thread:
            processor = PartitionProcessor(0, 1, ProcessorConfig())
            stepper = Stepper(processor, Framing(processor, HandIds()), thread, lambda: now[0])
            assert stepper.running == RunningStep(0.0, "")
            stepping = asyncio.ensure_future(stepper.step(step, _RECORDS))
            await asyncio.to_thread(began.wait, 30)
            now[0] += 70
            assert stepper.running == RunningStep(70.0, "offsets 5 to 9")
            goes_on.set()
            await stepping
            assert stepper.running == RunningStep(0.0, "")

    asyncio.run(main())
