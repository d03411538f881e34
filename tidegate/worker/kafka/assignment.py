"""The partitions that this worker holds, and the way from one assignment to the next.

Usually the group revokes partitions before it assigns others. But a member that missed a rebalance gets its
next assignment without a revocation. So all partitions that are still held are released before others are
taken up. Only the newest assignment counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Protocol

import structlog
from faust.types import TP

from tidegate.errors import FatalError
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.process.ending import end_process, guarded_task

_log = structlog.get_logger("tidegate.worker")


class Holder(Protocol):
    """The part of a worker that takes care of one topic's partitions while they are assigned to it."""

    def assigned(self, partition: int) -> None:
        """Begin to hold the partition: it is this worker's from now on."""

    def receive_batch(self, batch: FetchedBatch) -> None:
        """Receive a batch that came for one of its partitions."""

    async def released(self) -> None:
        """Release every partition. After the return nothing is written for them any more."""


class Assignment:
    """The partitions of this worker. It hands those of each topic to their holder, and takes them back.

    The loop calls it.
    """

    def __init__(self, drain_timeout_s: float) -> None:
        self._drain_timeout_s = drain_timeout_s
        self._holders: dict[str, Holder] = {}
        self._changes = 0
        self._changing = asyncio.Lock()
        self._closed = False
        self._exchanges: set[asyncio.Task[None]] = set()

    def hold(self, topic: str, holder: Holder) -> None:
        """Give the partitions of ``topic`` to ``holder``."""
        self._holders[topic] = holder

    @property
    def holders(self) -> Mapping[str, Holder]:
        """The holder of each topic, by the topic's name."""
        return self._holders

    def take_up(self, partitions: Iterable[TP]) -> None:
        """Begin to hold these partitions and no others, in the background.

        Does nothing if the assignment changes again before that, or after ``close``: a rebalance may still
        finish while the worker stops.
        """
        if self._closed:
            return
        self._changes += 1
        work = self._exchange(sorted(partitions), self._changes)
        self._exchanges.add(task := guarded_task(work, "assignment"))
        task.add_done_callback(self._exchanges.discard)

    async def release(self) -> None:
        """Finish the batches in flight of every partition, and release it."""
        self._changes += 1
        async with self._changing:
            await self._release()

    async def close(self) -> None:
        """Release every partition. Afterwards no partition is taken up any more."""
        self._closed = True
        await self.release()

    async def _exchange(self, partitions: list[TP], change: int) -> None:
        async with self._changing:
            await self._release()
            if change != self._changes:
                return
            _log.info("partitions assigned", partitions=_readable(partitions))
            for topic, partition in partitions:
                self._holders[topic].assigned(partition)

    async def _release(self) -> None:
        """Release all partitions. If that takes too long, the process ends, and others get the partitions."""
        releases = asyncio.gather(*(holder.released() for holder in self._holders.values()))
        try:
            await asyncio.wait_for(releases, self._drain_timeout_s)
        except TimeoutError:
            end_process(
                FatalError(
                    f"What was in flight was not done within {self._drain_timeout_s:.0f} s of losing the "
                    "partitions; the worker ends and the next owner repeats it"
                )
            )


def _readable(partitions: Iterable[TP]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
