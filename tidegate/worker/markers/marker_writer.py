"""Writes the transactions of step M3: to the worker's own cluster, or to that of the feed's sink.

On the worker's own cluster one producer writes progress and markers, and an owner that is fenced there writes
neither. Another cluster does not know of that fence. So on another cluster markers have a producer of their
own, which is opened after the first one. Before such a producer is used for the first time, progress is
persisted once more. That shows that this owner is not fenced on the worker's own cluster (M2b,
docs/protocols/markers-on-another-cluster.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.client.kafka.transaction import GivenUpError, Record
from tidegate.delivery.producer_ids import MarkerIds
from tidegate.delivery.sink_identity import held, require_marker_cluster
from tidegate.errors import DeliveryError, RecordRefused, RetryError, SinkHeld
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.markers.bounded_call import bounded
from tidegate.worker.output.worker_sinks import SinkCluster
from tidegate.worker.process.machine import Machine


class MarkerWriter(Protocol):
    """Writes one feed's markers. Its methods are called only once the progress's producer is open."""

    @property
    def beside(self) -> bool:
        """Whether a call may wait for long while progress goes on: then it needs a task of its own."""

    @property
    def is_open(self) -> bool:
        """Whether earlier writers are fenced, so that markers may be written."""

    async def check(self) -> None:
        """Make sure that the sink's address means the cluster of the feed's topics.

        Raises ``RetryError`` while it means another cluster, and ``GivenUpError`` after ``give_up``.
        """

    async def open(self) -> None:
        """Fence earlier writers. Raises ``RetryError``, and ``GivenUpError`` after ``give_up``."""

    async def write(self, records: Sequence[Record]) -> None:
        """Write the records in one transaction, after ``check``.

        Raises what ``open`` raises: the writer has to be opened again then. Raises ``RecordRefused`` for a
        topic that takes no marker.
        """

    def give_up(self) -> None:
        """Stop repeating calls that have no answer. Another thread may be in one of them."""

    async def close(self) -> None:
        """Write no more."""


class OwnMarkers:
    """Markers on the worker's own cluster, written by the producer of the progress with its ``commit``."""

    beside: Final = False
    is_open: Final = True

    def __init__(self, commit: Callable[[Sequence[Record]], Awaitable[None]]) -> None:
        self._commit = commit

    async def check(self) -> None:
        """Do nothing: the worker knows its own cluster by the ids of the topics there."""

    async def open(self) -> None:
        """Do nothing: the producer of the progress is open."""

    async def write(self, records: Sequence[Record]) -> None:
        """See ``MarkerWriter``. A failure that is not named there is a failure of the progress, too."""
        await self._commit(records)

    def give_up(self) -> None:
        """Do nothing: the publisher gives its producer up."""

    async def close(self) -> None:
        """Do nothing: the producer belongs to the publisher, which closes it."""


class OtherMarkers:
    """Markers on another cluster. A failure there ends the producer of markers, and never the process.

    ``state`` is the feed's, with the id of the cluster that its topics are on.
    """

    beside: Final = True

    def __init__(self, cluster: SinkCluster, ids: MarkerIds, machine: Machine, state: StateRecord) -> None:
        self._cluster = cluster
        self._state = state
        self._ids = ids
        self._machine = machine
        self._producer: WorkerTransactionalProducer | None = None
        self._is_former_out = False  # whether writers with the id of earlier versions are fenced
        self._given_up = False
        self.is_open = False

    async def open(self) -> None:
        """See ``MarkerWriter``."""
        try:
            if not self._is_former_out:
                await self._shut_former_out()
            await self._open(self._new_producer(self._ids.present))
        except (RetryError, GivenUpError):
            raise
        except Exception:
            await self._let_go()
            raise
        self.is_open = True

    async def check(self) -> None:
        """See ``MarkerWriter``. The producer checks it, and so does the client that asks for ends (M2c)."""
        if self._state.sink_cluster and self._producer is not None:
            try:
                await self._ask_in_thread(partial(self._require_stored, self._producer))
            except SinkHeld:
                await self._let_go()
                raise

    def _new_producer(self, transactional_id: str) -> WorkerTransactionalProducer:
        """Make a producer. Raises ``RetryError`` where the operator does not allow one."""
        return WorkerTransactionalProducer(self._cluster.settings, transactional_id, self._machine)

    async def _shut_former_out(self) -> None:
        """Fence writers of earlier versions: step M2d."""
        fence = self._new_producer(self._ids.former)
        await self._open(fence)
        await self.check()  # another cluster may have answered
        await self._in_thread(fence.close)
        self._is_former_out = True

    async def _open(self, producer: WorkerTransactionalProducer) -> None:
        self._producer = producer
        self._require_wanted()  # a later ``give_up`` reaches the producer
        await self.check()  # first: another cluster must not hear of the transactional id
        await self._guard(producer, producer.open)

    def _require_stored(self, producer: WorkerTransactionalProducer) -> None:
        say = partial(held, self._state.feed_id, self._cluster.servers, self._state.sink_cluster)
        require_marker_cluster(producer.cluster_id, self._cluster.admin.only_cluster, self._state, say)

    async def write(self, records: Sequence[Record]) -> None:
        """See ``MarkerWriter``."""
        self._require_wanted()
        assert self._producer is not None
        try:
            await self._guard(self._producer, partial(self._producer.commit_once, records))
        except RecordRefused:
            await self.check()  # another cluster may have refused it
            raise

    def give_up(self) -> None:
        """See ``MarkerWriter``."""
        self._given_up = True
        if self._producer is not None:
            self._producer.give_up()

    async def close(self) -> None:
        """See ``MarkerWriter``. The next writer aborts a transaction that was given up."""
        await self._let_go()

    async def _guard(self, producer: WorkerTransactionalProducer, call: Callable[[], Any]) -> None:
        try:
            await bounded(producer, self._wanted(call), self._cluster.threads)
        except RecordRefused:
            raise
        except DeliveryError as error:
            await self._let_go()
            raise RetryError(
                f"the sink's cluster at {self._cluster.servers} did not take them ({error}); nothing of the "
                "marker is visible, and it is written again"
            ) from None
        except GivenUpError:
            if self._given_up:
                raise
            await self._let_go()
            raise RetryError(
                f"the sink's cluster at {self._cluster.servers} did not take them in time; they are "
                "written again"
            ) from None

    async def _let_go(self) -> None:
        """Close the producer.

        A producer that was never opened has no transaction to end, so this does not wait for its close.
        """
        producer, self._producer = self._producer, None
        was_open, self.is_open = self.is_open, False
        if producer is None:
            return
        if was_open or producer.is_amid:
            await self._in_thread(producer.close)
        else:
            asyncio.get_running_loop().run_in_executor(self._cluster.threads, producer.close)

    def _require_wanted(self) -> None:
        if self._given_up:
            raise GivenUpError

    async def _ask_in_thread(self, call: Callable[[], Any]) -> None:
        await self._in_thread(self._wanted(call))

    def _wanted(self, call: Callable[[], Any]) -> Callable[[], None]:
        """Return ``call`` for a thread, in a form that raises ``GivenUpError`` after ``give_up``.

        While the cluster is away each call keeps its thread for seconds, and all feeds share the threads.
        """

        def ask() -> None:
            self._require_wanted()
            call()

        return ask

    async def _in_thread(self, call: Callable[[], Any]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._cluster.threads, call)
