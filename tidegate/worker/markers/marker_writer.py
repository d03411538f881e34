"""Where the transactions of step M3 go: the worker's own cluster, or that of the feed's sink.

On the worker's own cluster one producer writes progress and markers, and whoever is fenced there writes
neither. Another cluster knows nothing of that: the markers have a producer there, which is opened behind the
first and has to be proved before each use of a new one (docs/delivery.md#markers-on-another-cluster).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.client.kafka.transaction import GivenUpError, Record
from tidegate.delivery.producer_ids import MarkerIds
from tidegate.delivery.sink_identity import held, require_cluster
from tidegate.errors import DeliveryError, RecordRefused, RetryError, SinkHeld
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.output.worker_sinks import SinkCluster
from tidegate.worker.process.machine import Machine


class MarkerWriter(Protocol):
    """Writes one feed's markers. Nothing of it is called before the progress's producer is open."""

    @property
    def beside(self) -> bool:
        """Whether it may have to wait while progress goes on: then not in the publisher's own task."""

    @property
    def is_open(self) -> bool:
        """Whether earlier writers are fenced."""

    async def check(self) -> None:
        """Raises ``RetryError`` while the sink's address means another cluster than that of its topics, and
        ``GivenUpError`` once it is closed."""

    async def open(self) -> None:
        """Fence them. Raises ``RetryError``, and ``GivenUpError`` once it is closed."""

    async def write(self, records: Sequence[Record]) -> None:
        """One transaction, after ``check``. Raises as ``open`` does, and has to be opened again then; and
        ``RecordRefused`` for a topic that takes no marker."""

    def give_up(self) -> None:
        """Repeat nothing more that has no answer."""

    async def close(self) -> None:
        """Write no more."""


class OwnMarkers:
    """Markers on the worker's own cluster, by the producer of the progress: ``commit`` is its."""

    beside: Final = False
    is_open: Final = True

    def __init__(self, commit: Callable[[Sequence[Record]], Awaitable[None]]) -> None:
        self._commit = commit

    async def check(self) -> None:
        """The worker's own cluster is known by the ids of its topics."""

    async def open(self) -> None:
        """It is."""

    async def write(self, records: Sequence[Record]) -> None:
        """See ``MarkerWriter``. Any other failure ends the process, as with progress."""
        await self._commit(records)

    def give_up(self) -> None:
        """The worker's own cluster is waited for."""

    async def close(self) -> None:
        """The producer is not ours."""


class OtherMarkers:
    """Markers on another cluster. Whatever fails for good there costs a producer, and not the process.

    ``state`` is the feed's: it has the id of the cluster that its topics are on.
    """

    beside: Final = True

    def __init__(self, cluster: SinkCluster, ids: MarkerIds, machine: Machine, state: StateRecord) -> None:
        self._cluster = cluster
        self._state = state
        self._ids = ids
        self._machine = machine
        self._producer: WorkerTransactionalProducer | None = None
        self._is_former_out = False  # whoever wrote markers with the id of before
        self._given_up = False
        self.is_open = False

    async def open(self) -> None:
        """See ``MarkerWriter``."""
        if not self._is_former_out:
            await self._shut_former_out()
        await self._open(self._new_producer(self._ids.present))
        self.is_open = True

    async def check(self) -> None:
        """See ``MarkerWriter``. Asked by the producer itself, and by the client that asks for ends."""
        if self._state.sink_cluster and self._producer is not None:
            try:
                await self._ask_in_thread(partial(self._require_stored, self._producer))
            except SinkHeld:
                await self._let_go()
                raise

    def _new_producer(self, transactional_id: str) -> WorkerTransactionalProducer:
        """Raises ``RetryError`` where the operator allows none."""
        return WorkerTransactionalProducer(self._cluster.settings, transactional_id, self._machine)

    async def _shut_former_out(self) -> None:
        """Step M2d."""
        fence = self._new_producer(self._ids.former)
        await self._open(fence)
        await self.check()  # it may have been another cluster that answered
        await self._in_thread(fence.close)
        self._is_former_out = True

    async def _open(self, producer: WorkerTransactionalProducer) -> None:
        self._producer = producer
        self._require_wanted()  # whoever gives up from here on reaches the producer
        await self.check()  # before another cluster hears of the transactional id
        await self._guard(producer.open)

    def _require_stored(self, producer: WorkerTransactionalProducer) -> None:
        topic, stored = self._state.targets[0].topic, self._state.sink_cluster
        questions = partial(producer.cluster_id, topic), partial(self._cluster.admin.only_cluster, topic)
        say = partial(held, self._state.feed_id, self._cluster.servers, stored)
        require_cluster(questions, stored, say)

    async def write(self, records: Sequence[Record]) -> None:
        """See ``MarkerWriter``."""
        self._require_wanted()
        assert self._producer is not None
        try:
            await self._guard(partial(self._producer.commit_once, records))
        except RecordRefused:
            await self.check()  # another cluster may have refused it
            raise

    def give_up(self) -> None:
        """See ``MarkerWriter``."""
        self._given_up = True
        if self._producer is not None:
            self._producer.give_up()

    async def close(self) -> None:
        """See ``MarkerWriter``. What was given up is left for the next writer to abort."""
        await self._let_go()

    async def _guard(self, call: Callable[[], Any]) -> None:
        try:
            await self._ask_in_thread(call)
        except RecordRefused:
            raise
        except DeliveryError as error:
            await self._let_go()
            raise RetryError(
                f"the sink's cluster at {self._cluster.servers} did not take them ({error}); nothing of the "
                "marker is visible, and it is written again"
            ) from None

    async def _let_go(self) -> None:
        """One that was not opened has nothing to end."""
        producer, self._producer = self._producer, None
        if producer is not None and (self.is_open or producer.is_amid):
            await self._in_thread(producer.close)
        self.is_open = False

    def _require_wanted(self) -> None:
        if self._given_up:
            raise GivenUpError

    async def _ask_in_thread(self, call: Callable[[], Any]) -> None:
        """Do what may wait for the cluster, unless it was given up before a thread came to it.

        While the cluster is away each call holds its thread for seconds, and feeds share the threads.
        """

        def ask() -> None:
            self._require_wanted()
            call()

        await self._in_thread(ask)

    async def _in_thread(self, call: Callable[[], Any]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._cluster.threads, call)
