"""Takes one partition's batches in an unbroken sequence, whatever happens to them on the way (step 1).

On their way from the broker, batches pass through queues that are cleared on rebalances and at shutdown, and
through a consumer that resets its position when the log was cut. The intake trusts none of these. It takes a
batch only if it begins where the last one ended, and sends the consumer back otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

import structlog
from aiokafka.errors import KafkaError, KafkaTimeoutError
from faust.types import TP

from tidegate.errors import StateError
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.operations.metrics import REREADS
from tidegate.worker.process.ending import end_process

_LOOK_AGAIN_S: Final = 1.0

_log = structlog.get_logger("tidegate.intake")
AnswerT = TypeVar("AnswerT")


class Flow(Protocol):
    """The part of the consumer that an intake uses (``tidegate.worker.kafka.transport.BatchConsumer``)."""

    async def open_partition(self, tp: TP, offset: int) -> None: ...
    def halt_partition(self, tp: TP) -> None: ...
    def continue_partition(self, tp: TP) -> None: ...
    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]: ...
    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]: ...


class Intake:
    """The intake of one partition: receives the batches of ``tp``, and passes them on in sequence.

    If retention deleted records that were to be read next, ``cut`` is called with the first offset that is
    left, and the intake goes on from there. Example: 100 is to be read next and the log begins at 250, so
    ``cut(250)`` is called.
    """

    def __init__(
        self,
        tp: TP,
        flow: Flow,
        pass_on: Callable[[FetchedBatch], None],
        cut: Callable[[int], None] | None = None,
    ) -> None:
        self.tp = tp
        self._flow = flow
        self._pass_on = pass_on
        self._cut = cut
        self._next = 0
        self._halted = False
        self._settling: asyncio.Task[None] | None = None
        self._opened = False
        self._closed = False
        self._moved = asyncio.Event()
        #: The highest end of the partition that was told so far; ``None`` before the first.
        self.end: int | None = None

    @property
    def position(self) -> int:
        """The next offset to be received."""
        return self._next

    @property
    def hears_of_end(self) -> bool:
        """Whether fetches tell where the partition ends: not before the first one, nor while halted."""
        return self.end is not None and not self._halted

    def note_end(self, end: int) -> None:
        """Note where the partition ends. The news may be old: a lower end than before does not count."""
        self.end = end if self.end is None else max(self.end, end)

    def open(self, offset: int) -> None:
        """Begin to read at ``offset``. Does nothing if the intake is closed already."""
        if not self._closed:
            self._opened = True
            self._next = offset
            self._settle()

    def receive_batch(self, batch: FetchedBatch) -> None:
        """Take the batch if it begins where the last one ended; else send the consumer back to that place.

        A batch that follows the last one is taken even while the consumer is being sent back. The fetch may
        be faster than the answer to the seek, and no later fetch would bring that batch again.
        """
        if self._closed or not self._opened:
            return
        self.note_end(batch.partition_end)
        if batch.start == self._next:
            self._next = batch.end
            self._pass_on(batch)
            self._moved.set()
        elif self._settling is None:
            REREADS.inc()
            _log.info(
                "a batch does not follow the last one; reading it again",
                topic=self.tp.topic,
                partition=self.tp.partition,
                expected=self._next,
                got=batch.start,
            )
            self._settle()

    async def read_to(self, offset: int) -> bool:
        """Wait until every record below ``offset`` was taken.

        Returns ``False`` if the intake is closed before that.
        """
        while not self._closed and self._next < offset:
            self._moved.clear()
            await self._moved.wait()
        return not self._closed

    def halt(self) -> None:
        """Stop fetching until ``proceed``. Batches that are on their way still come."""
        self._halted = True
        if self._settling is None:
            self._flow.halt_partition(self.tp)

    def proceed(self) -> None:
        """Let the partition flow again."""
        if self._halted:
            self._halted = False
            if self._settling is None and not self._closed:
                self._flow.continue_partition(self.tp)

    def close(self) -> None:
        """Take no more batches."""
        self._closed = True
        self._moved.set()
        if self._settling is not None:
            self._settling.cancel()

    def _settle(self) -> None:
        """Bring the consumer to the next offset. Until then batches that do not begin there are ignored."""
        self._settling = asyncio.create_task(self._seek(), name=f"seek {self.tp.topic}")

    async def _seek(self) -> None:
        try:
            await insisted(self.tp, self._find_place)
            await self._flow.open_partition(self.tp, self._next)
        except Exception as error:  # without a position nothing can be read
            end_process(error)
        self._settling = None
        if self._halted:
            self._flow.halt_partition(self.tp)

    async def _find_place(self) -> None:
        """Move the next offset to the start of the topic, if the topic was cut above that offset.

        Batches may be taken while the answers are on their way, so ``_next`` may have risen by then. Raises
        ``StateError`` if the topic ends below the offset.
        """
        wanted = self._next
        first = (await self._flow.earliest_offsets(self.tp))[self.tp]
        end = (await self._flow.highwaters(self.tp))[self.tp]
        self.note_end(end)
        if wanted > max(first, end):
            raise StateError(
                f"{self.tp.topic} ends at offset {end} in partition {self.tp.partition}, where offset "
                f"{wanted} was to be read next: the topic was deleted and created again, or cut at its "
                "end. Nothing was written since; bring the old topic back, or start with another app_id"
            )
        if first > self._next:
            self._next = first
            self._moved.set()
            if self._cut is not None:
                self._cut(first)


async def insisted(
    tp: TP, ask: Callable[[], Awaitable[AnswerT]], is_over: Callable[[], bool] = lambda: False
) -> AnswerT | None:
    """Ask Kafka about a partition until it answers. Returns ``None`` once ``is_over`` returns true.

    It may be that no broker leads the partition at present. Then the question is asked again each second.
    Raises errors of Kafka that asking again does not cure.
    """
    while not is_over():
        try:
            return await ask()
        except KafkaError as error:
            if not error.retriable and not isinstance(error, KafkaTimeoutError):
                raise
            _log.warning(
                "Kafka does not say where a partition begins and ends; it is asked again",
                topic=tp.topic,
                partition=tp.partition,
                cause=str(error) or repr(error),
            )
        await asyncio.sleep(_LOOK_AGAIN_S)
    return None
