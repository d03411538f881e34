"""An error at any await point of a partition's tasks: nothing beyond it is acknowledged, nothing is lost.

The tasks run under a task factory that throws into them where they are suspended, at the n-th such place of a
run, for every n that a run has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from typing import Any, Final

import pytest

import tidegate.worker.commit.commit_loop
from tests.feeds import activation
from tests.hand_log import HandLog, HandTable
from tests.logs import Record
from tests.unit.worker.commit.hand_loop import InPlace
from tests.unit.worker.hand_ids import HandIds
from tests.unit.worker.hand_limits import PATIENT
from tidegate.processor.batch import ControlRecord, OutputRecord, StateTable, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset
from tidegate.worker.commit.commit_loop import CommitLimits, CommitLoop, Threads
from tidegate.worker.commit.in_flight import InFlight
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.output.barrier import Barrier

_TABLE: Final = HandTable.of(104, "plain")
_FEED: Final = activation([_TABLE.descriptor])
_TASKS: Final = CommitLoop._guarded.__qualname__
_SETTLED: Final = 60  # turns of the loop: far more than three batches take


class _Trouble(Exception):
    """The error that is thrown."""


class _Points:
    """Counts the await points that were passed; at the n-th the error comes."""

    def __init__(self, nth: int) -> None:
        self._left = nth

    @property
    def reached(self) -> bool:
        """Whether the n-th point was there at all."""
        return self._left <= 0

    def is_due(self) -> bool:
        """Pass one."""
        self._left -= 1
        return self._left == 0


class _Thrown(Coroutine[Any, Any, None]):
    """A coroutine that is gone on with by an error instead, when that is due."""

    def __init__(self, work: Coroutine[Any, Any, None], points: _Points) -> None:
        self._work = work
        self._points = points
        self._begun = False

    def send(self, value: Any) -> Any:
        if self._begun and self._points.is_due():
            return self._work.throw(_Trouble("thrown"))
        self._begun = True
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError("only tasks run it")


class _Valve:
    def halt(self) -> None:
        """Nobody flows here."""

    proceed = halt


class _Kafka:
    """The durable records: rows that are acknowledged, and the state of commits."""

    is_over = False

    def __init__(self) -> None:
        self.rows: list[OutputRecord] = []
        self.state: dict[tuple[StateTable, bytes], bytes] = {}
        self.position = -1
        self._begun = self._unacknowledged = 0
        self.ended: list[BaseException] = []

    is_held = False

    def begin(self) -> None:
        """A process begins: what the one before has written is not an acknowledgement to it."""
        self._begun = len(self.rows)

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """Each row is acknowledged a little later."""
        for row in rows[first:]:
            self._unacknowledged += 1
            asyncio.get_running_loop().call_soon(self._acknowledge, row, barrier)
        return len(rows)

    def _acknowledge(self, row: OutputRecord, barrier: Barrier) -> None:
        self._unacknowledged -= 1
        self.rows.append(row)
        barrier.row_acknowledged()

    def commit(self, results: Sequence[StepResult]) -> None:
        """The rows up to the position that is committed must be there, and the process too."""
        assert not self.ended, "a commit after the end of the process"
        for result in results:
            acknowledged = self.rows[self._begun :]
            assert all(row in acknowledged for rows in result.outputs.values() for row in rows)
            self.position = max(self.position, -1 if result.offset is None else int(result.offset))
            for table, key, value in result.changes:
                if value is None:
                    self.state.pop((table, key), None)
                else:
                    self.state[table, key] = value

    def completed(self, flight: InFlight) -> None:
        """Check that an offset which may be committed to the group is in the state."""
        assert flight.end is None or flight.end <= self.position + 1


def _log() -> tuple[Record, ...]:
    log = HandLog(partitions=1)
    log.describe(_TABLE)
    rows = log.open_range(1, _TABLE.span)
    for second in range(1, 7):
        rows.apply(_TABLE.put(second, second, "x"), close=second)
    return log.partitions[0]


async def settle() -> None:
    """Let the loop turn until nothing happens any more."""
    for _ in range(_SETTLED):
        await asyncio.sleep(0)


async def _run(kafka: _Kafka, records: Sequence[Record], points: _Points) -> None:
    """One process: it reads from the position in the state to the end of the log, or to its own end."""

    def task(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[None]:
        thrown = _Thrown(work, points) if work.__qualname__ == _TASKS else work
        return asyncio.Task(thrown, loop=loop, **more)

    kafka.begin()
    loop = asyncio.get_running_loop()
    loop.set_task_factory(task)  # type: ignore[arg-type]  # the stub has it generic in what a task returns
    rows = [(table, key, value) for (table, key), value in kafka.state.items()]
    processor = PartitionProcessor.restore(0, 1, ProcessorConfig(), rows)
    commit_loop = CommitLoop(
        processor,
        kafka,
        lambda _: lambda: kafka,
        _Valve(),
        Threads(InPlace(), InPlace()),
        CommitLimits(batch_records=1, inflight_batches=3, queued_batches=4, outlets=PATIENT),
        schema_ids=HandIds(),
        completed=kafka.completed,
    )
    commit_loop.start()
    if processor.next_offset is None:
        commit_loop.control([ControlRecord(Offset(0), _FEED)])
    for number in range(processor.next_offset or 0, len(records)):
        commit_loop.queue_batch(
            FetchedBatch("log", 0, number, number + 1, len(records), records[number : number + 1])
        )
        if number % 3 == 0:  # some alone, some behind others
            await settle()
    await settle()
    draining = asyncio.create_task(commit_loop.drain())
    await settle()
    assert draining.done() or kafka.ended
    for left in asyncio.all_tasks() - {asyncio.current_task()}:
        left.cancel()  # as the end of the process does it


@pytest.mark.long
def test_an_error_at_any_await_point_acknowledges_nothing_beyond_it_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = _log()
    undisturbed = _Kafka()
    monkeypatch.setattr(tidegate.worker.commit.commit_loop, "end_process", undisturbed.ended.append)
    asyncio.run(_run(undisturbed, records, _Points(0)))
    assert len(undisturbed.rows) == 6
    assert not undisturbed.ended
    assert undisturbed.position == len(records) - 1
    for nth in range(1, 1_000):
        kafka, points = _Kafka(), _Points(nth)
        monkeypatch.setattr(tidegate.worker.commit.commit_loop, "end_process", kafka.ended.append)
        asyncio.run(_run(kafka, records, points))
        if not points.reached:
            break
        assert [type(error) for error in kafka.ended] == [_Trouble], f"point {nth}"
        kafka.ended.clear()
        asyncio.run(_run(kafka, records, _Points(0)))
        assert {(row.key, row.value) for row in kafka.rows} == {
            (row.key, row.value) for row in undisturbed.rows
        }
        assert kafka.state == undisturbed.state, f"point {nth}"
    assert nth > 30, "a run has more await points than that"
