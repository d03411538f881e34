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
from typing import Final

from tidegate.client.kafka.transaction import GivenUpError, Record
from tidegate.errors import ClientsExhausted, ProducerFenced, SettingsError
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.markers.bounded_call import bounded

_OPEN_S: Final = 10.0  # an attempt to open a producer


class UnansweredError(GivenUpError):
    """Raised when a call took too long. Whether its transaction is committed is not known."""


class UnopenedError(UnansweredError):
    """Raised when ``open`` took too long. Kafka may handle its request late, and fence a later producer."""


class ProgressProducer:
    """Commits progress and markers of one feed. No call keeps a thread for long.

    ``new`` makes the producer. It is called for the first ``open``, and for each ``open`` that follows a call
    which was given up or fenced. ``threads`` do the calls. But after a call without an answer, ``reopening``
    do the calls of ``open``. So feeds that wait for their topics take no thread from other feeds.
    """

    def __init__(
        self, new: Callable[[], WorkerTransactionalProducer], threads: Executor, reopening: Executor
    ) -> None:
        self._new = new
        self._threads = threads
        self._reopening = reopening
        self._openers = threads  # the threads of the next ``open``
        self._producer: WorkerTransactionalProducer | None = None
        self._given_up = False
        #: Whether there is no producer yet, or a call of it was given up or fenced. Then ``open`` has to come
        #: before the next ``commit``.
        self.is_lost = True

    async def open(self) -> None:
        """Fence earlier writers, and end their transaction. M0 has to follow.

        Raises ``ProducerFenced`` and ``DeliveryError`` when the broker refuses, ``UnopenedError`` when it
        does not answer, ``UnansweredError`` where no producer can be made, and ``GivenUpError`` after
        ``give_up``.
        """
        if self.is_lost:
            await self._replace()
        await self._bounded(self._present().open, self._openers, _OPEN_S, UnopenedError)

    async def commit(self, records: Sequence[Record], *, insist: bool = True) -> None:
        """Commit records in one transaction, as ``TransactionalProducer.commit`` does.

        Raises what ``TransactionalProducer.commit`` and ``open`` raise. After an ``UnansweredError`` and
        after a ``ProducerFenced``, ``open`` has to be called next.
        """
        await self._bounded(partial(self._present().commit, records, insist=insist), self._threads)

    def give_up(self) -> None:
        """Make the call under way, and all later ones, raise ``GivenUpError``."""
        self._given_up = True
        if self._producer is not None:
            self._producer.give_up()

    async def close(self) -> None:
        """Close the connections. The next owner of the feed ends a transaction that was given up."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await self._in_thread(producer.close, self._threads)

    def _present(self) -> WorkerTransactionalProducer:
        assert self._producer is not None, "open comes before commit"
        return self._producer

    async def _replace(self) -> None:
        former, self._producer = self._producer, None
        if former is not None:  # first, since a process may have no room for one more client
            await self._in_thread(former.close, self._openers)
        try:
            new = self._new()
        except (SettingsError, ClientsExhausted) as error:  # such as a certificate that is being replaced
            raise UnansweredError(str(error)) from None
        self._producer = new
        if self._given_up:
            new.give_up()
        self.is_lost = False

    async def _bounded(
        self,
        call: Callable[[], object],
        threads: Executor,
        patience_s: float | None = None,
        unanswered: type[UnansweredError] = UnansweredError,
    ) -> None:
        try:
            await bounded(self._present(), call, threads, patience_s)
        except ProducerFenced:
            self.is_lost, self._openers = True, self._threads
            raise
        except GivenUpError:
            self.is_lost, self._openers = True, self._reopening
            if self._given_up:
                raise
            raise unanswered(
                "Kafka has not ended a transaction of the feed in time: a topic of it may have fewer "
                "replicas in sync than its min.insync.replicas"
            ) from None

    async def _in_thread(self, call: Callable[[], object], threads: Executor) -> None:
        await asyncio.get_running_loop().run_in_executor(threads, call)
