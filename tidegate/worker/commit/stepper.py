"""Runs the steps of one log partition's processor: steps 2 and 2a of docs/protocols/batches.md.

The steps of all partitions run in one thread, and a processor's state is read in that thread alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar, TypeVarTuple

from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import RowRefused, StateError
from tidegate.processor.batch import ControlRecord, ExchangeRecord, LogRecord, PartitionCheckpoint, StepResult
from tidegate.processor.status import PartitionStatus
from tidegate.raftlog.entry import Offset
from tidegate.worker.commit.framing import Answer, FeedProcessor, Framing, Wanted

_STATUS_S: Final = 1.0  # the status that operators see is taken at most this often

ArgumentT = TypeVar("ArgumentT")
ArgumentTs = TypeVarTuple("ArgumentTs")
ResultT = TypeVar("ResultT")


class Processor(FeedProcessor, Protocol):
    """The part of ``tidegate.processor.processor.PartitionProcessor`` that the commit loop uses."""

    @property
    def held(self) -> bool: ...
    @property
    def ready(self) -> bool: ...
    @property
    def held_for(self) -> frozenset[FeedId]: ...
    def step_some(self, records: Sequence[LogRecord], end: int | None = None) -> StepResult: ...
    def control(self, records: Sequence[ControlRecord]) -> StepResult: ...
    def exchange(self, records: Sequence[ExchangeRecord]) -> StepResult: ...
    def give_up(self, held_s: float) -> StepResult: ...
    def missing_below(self, log_start: Offset) -> StepResult: ...
    def committed(self, serial: int) -> None: ...
    def detach(self, feed_id: FeedId, uncommitted: Sequence[StepResult]) -> StepResult: ...
    def fail_delivery(
        self, feed_id: FeedId, refusal: RowRefused, uncommitted: Sequence[StepResult]
    ) -> StepResult: ...
    def is_spooling(self, feed_id: FeedId) -> bool: ...
    def attach(self, feed_id: FeedId) -> StepResult: ...
    def stall(self, feed_id: FeedId) -> StepResult: ...
    def resume(self, feed_id: FeedId) -> StepResult: ...
    def full_checkpoint(self) -> PartitionCheckpoint: ...
    def status(self) -> PartitionStatus: ...


class RunningStep(NamedTuple):
    """The step that is under way: its seconds so far, and the records that it takes, in words.

    If there is none, ``seconds`` is 0.
    """

    seconds: float = 0.0
    records: str = ""


class Stepper:
    """Runs the steps of one processor in ``thread``. One task calls it; ``clock`` is monotonic."""

    def __init__(
        self, processor: Processor, framing: Framing, thread: Executor, clock: Callable[[], float]
    ) -> None:
        self._processor = processor
        self._framing = framing
        self._thread = thread
        self._clock = clock
        self._committed = 0
        #: Whether a step's result was given up. The processor has taken its batch in, so no step may follow.
        self.abandoned = False
        self._status_behind = False
        self._status_due = 0.0
        self._running: tuple[float, object] | None = None  # since when, and the argument of the step
        #: The status after some step. It may be older than the last step: by a second, or by 20 times the
        #: seconds that making it took, if that is more. ``look`` has to be called when it is due.
        self.status = processor.status()

    async def step(
        self, step: Callable[[ArgumentT], StepResult], argument: ArgumentT
    ) -> tuple[StepResult, list[Wanted]]:
        """Run ``step`` in the thread. Returns its result, and the schemas whose ids its rows still wait for.

        Raises ``StateError`` once a result was given up.
        """
        if self.abandoned:
            raise StateError("a step was given up: the changes of the next step would be durable without it")
        told = partial(self._tell, self._committed, step)
        return await self.in_thread(self._run, told, argument)

    @property
    def running(self) -> RunningStep:
        """The step that is under way now. All feeds of the partition wait for it."""
        running = self._running  # the thread of the steps sets it
        if running is None:
            return RunningStep()
        return RunningStep(self._clock() - running[0], _records_of(running[1]))

    async def settle(self, answers: Mapping[FeedId, Answer], result: StepResult) -> None:
        """Put the ids of ``answers`` into the rows of ``result``, which is the last step's."""
        await self.in_thread(self._settle, answers, result)

    def give_up(self) -> None:
        """Abandon the last step's result: it is never made durable, and the next owner repeats its batch.

        No step may follow. The processor's state has the batch already, so a later result would store a
        position after it.
        """
        self.abandoned = True

    async def full_checkpoint(self) -> StepResult:
        """Return the whole checkpoint, as of the last step."""
        checkpoint = await self.in_thread(self._processor.full_checkpoint)
        return StepResult(None, checkpoint=checkpoint if checkpoint.ranges else None)

    def committed(self, results: Iterable[StepResult]) -> None:
        """Note that these results are durable. The processor is told of it before its next step."""
        self._committed = max(self._committed, *(result.serial for result in results))

    @property
    def look_due(self) -> float | None:
        """The time of ``clock`` at which ``look`` is due; ``None`` if the status is that of the last step."""
        return self._status_due if self._status_behind else None

    async def look(self) -> None:
        """Take the processor's status anew, if that is due: at most once a second, and less often if it takes
        long.
        """
        await self.in_thread(self._look)

    async def in_thread(self, call: Callable[[*ArgumentTs], ResultT], *arguments: *ArgumentTs) -> ResultT:
        """Run ``call`` in the thread, between two steps, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    # ---- in the thread

    def _tell(
        self, committed: int, step: Callable[[ArgumentT], StepResult], argument: ArgumentT
    ) -> StepResult:
        self._processor.committed(committed)
        return step(argument)

    def _run(
        self, step: Callable[[ArgumentT], StepResult], argument: ArgumentT
    ) -> tuple[StepResult, list[Wanted]]:
        self._running = self._clock(), argument
        try:
            result = step(argument)
            wanted = self._framing.frame_known(result)
        finally:
            self._running = None
        self._status_behind = True
        self._look()
        return result, wanted

    def _settle(self, answers: Mapping[FeedId, Answer], result: StepResult) -> None:
        for feed_id, answer in answers.items():
            self._framing.settle(feed_id, answer, result)

    def _look(self) -> None:
        """Take the status at most once a second, and so rarely that it takes at most 5 % of the time."""
        begun = self._clock()
        if self._status_behind and begun >= self._status_due:
            self.status = self._processor.status()
            self._status_behind = False
            taken_s = self._clock() - begun
            self._status_due = begun + max(_STATUS_S, 20 * taken_s)


def _records_of(argument: object) -> str:
    """Return in words which records a step takes: ``offsets 5 to 9``. Empty if it takes none."""
    if not isinstance(argument, Sequence) or isinstance(argument, str) or not argument:
        return ""
    first, last = (getattr(each, "offset", None) for each in (argument[0], argument[-1]))
    return "" if first is None else f"offsets {first} to {last}"
