"""The producer of one feed's progress, and of its markers on the worker's own cluster.

A transaction ends only once each of its partitions has enough replicas in sync. One output topic that lacks
them keeps the transaction open, and after 300 s Kafka fences its producer. So a call that takes 60 s is given
up, and the owner of the feed begins anew, like a successor: it opens a new producer, which ends the old
transaction, and reads what was persisted (M0 of docs/protocols/markers.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial

from tidegate.client.kafka.transaction import GivenUpError, Record
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.markers.bounded_call import PATIENCE_S, bounded


class UnansweredError(GivenUpError):
    """Raised when a call took too long. Whether its transaction is committed is not known."""


class ProgressProducer:
    """Commits progress and markers of one feed. Each call keeps a thread for at most ``PATIENCE_S``.

    ``new`` makes the producer: for the first time at once, and again for each ``open`` that follows a call
    which was given up. ``threads`` do the calls.
    """

    def __init__(self, new: Callable[[], WorkerTransactionalProducer], threads: Executor) -> None:
        self._new = new
        self._threads = threads
        self._producer = new()
        self._given_up = False
        #: Whether a call was given up, so that ``open`` has to come before the next ``commit``.
        self.is_lost = False

    async def open(self) -> None:
        """Fence earlier writers, and end their transaction. M0 has to follow.

        Raises ``DeliveryError`` when the broker refuses, ``UnansweredError`` when it does not answer, and
        ``GivenUpError`` after ``give_up``.
        """
        if self.is_lost:
            await self._in_thread(self._producer.close)
            self._producer = self._new()
            self.is_lost = False
        await self._bounded(self._producer.open)

    async def commit(self, records: Sequence[Record], *, insist: bool = True) -> None:
        """Commit records in one transaction, as ``TransactionalProducer.commit`` does.

        Raises what that raises and what ``open`` raises. After an ``UnansweredError`` ``open`` has to follow.
        """
        await self._bounded(partial(self._producer.commit, records, insist=insist))

    def give_up(self) -> None:
        """Make the call under way, and all later ones, raise ``GivenUpError``."""
        self._given_up = True
        self._producer.give_up()

    async def close(self) -> None:
        """Close the connections. The next owner of the feed ends a transaction that was given up."""
        await self._in_thread(self._producer.close)

    async def _bounded(self, call: Callable[[], object]) -> None:
        producer = self._producer
        if self._given_up:
            producer.give_up()
        try:
            await bounded(producer, self._in_thread(call))
        except GivenUpError:
            self.is_lost = True
            if self._given_up:
                raise
            raise UnansweredError(
                f"Kafka has not committed a transaction of the feed within {PATIENCE_S:.0f} s: a topic of it "
                "may have fewer replicas in sync than its min.insync.replicas"
            ) from None

    async def _in_thread(self, call: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, call)
