"""Fences processes that may still write progress and markers of a feed that has ended.

Each feed has a transactional id on the worker's own cluster, and others on the cluster of its sink
(``tidegate.delivery.producer_ids``). A producer that opens with such an id shuts out every earlier writer:
an owner of the feed's frontier that was believed to be dead, or that has not read that the feed has ended
(docs/protocols/ends-of-feeds.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Final

from tidegate.changefeed.definition.feed import FeedId
from tidegate.client.kafka.transaction import GivenUpError
from tidegate.delivery import sink_fence
from tidegate.delivery.producer_ids import MarkerIds, progress_id
from tidegate.errors import DeliveryError, RetryError, SinkHeld
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.output.worker_sinks import SinkCluster
from tidegate.worker.shell import Shell

_FENCE_S: Final = 15.0  # the longest wait for a cluster, for each transactional id


class FeedFences:
    """Fences the writers of feeds for one jobs agent, and remembers which feeds it has fenced.

    A later agent does not know which ones, and fences them again. This does no harm.
    """

    def __init__(self, app: Shell) -> None:
        self._app = app
        self._ended: set[FeedId] = set()
        self._shut_out: set[FeedId] = set()

    def is_shut_out(self, feed_id: FeedId) -> bool:
        """Whether no process can write markers of the feed to its topics any more."""
        return feed_id in self._shut_out

    def has_ended(self, feed_id: FeedId) -> bool:
        """Whether ``end`` is done for the feed."""
        return feed_id in self._ended

    async def end(self, feed_id: FeedId) -> None:
        """Fence the feed on the worker's own cluster (step E2): from here on nobody persists its progress.

        Raises ``RetryError`` as ``fence`` does.
        """
        if feed_id not in self._ended:
            await self.fence(feed_id)
            self._ended.add(feed_id)

    async def shut_out(self, feed_id: FeedId, sink: SinkCluster, topic: str, cluster: str) -> None:
        """Fence the feed at its sink as well (step E5): from here on no marker of it comes to its ``topic``.

        The topic is on ``sink``, the cluster with the id ``cluster``. Raises ``RetryError`` when a cluster
        does not fence the feed in time, and ``SinkHeld`` when the sink's address means another cluster.
        """
        await self.end(feed_id)
        if not sink.own:
            await self._fence_there(feed_id, sink, topic, cluster)
        self._shut_out.add(feed_id)

    async def fence(self, feed_id: FeedId) -> None:
        """Shut out earlier writers on the worker's own cluster.

        Raises ``RetryError`` when that is not done in time. For example, Kafka may keep their transaction
        open while a topic of it has too few replicas in sync.
        """
        own = self._app.runtime.sinks.own
        fence = self._producer(progress_id(self._app.settings.app_id, feed_id), own)
        fencing = Fencing(
            fence.open, fence, own.servers, f"earlier owners of feed {feed_id} are not shut out"
        )
        await fencing.done_by(self._app.runtime.publisher_threads)

    async def _fence_there(self, feed_id: FeedId, sink: SinkCluster, topic: str, cluster: str) -> None:
        may_come = f"until it has, a marker of feed {feed_id}, which has ended, may still come to its topics"
        for each in MarkerIds.of(self._app.settings.app_id, feed_id, cluster):
            fence = self._producer(each, sink)
            shut_out = partial(sink_fence.shut_out, [fence], feed_id, sink.servers, topic, cluster)
            await Fencing(shut_out, fence, sink.servers, may_come).done_by(sink.threads)

    def _producer(self, transactional_id: str, cluster: SinkCluster) -> WorkerTransactionalProducer:
        return WorkerTransactionalProducer(cluster.settings, transactional_id, self._app.runtime.machine)


class Fencing:
    """A call that fences the writers of one transactional id. It is made once, in a thread.

    ``call`` uses the producer ``fence``, which is closed after it. ``servers`` are the cluster's addresses.
    ``until_then`` is a clause for errors: it says what is true until the call has succeeded.
    """

    def __init__(
        self,
        call: Callable[[], None],
        fence: WorkerTransactionalProducer,
        servers: str,
        until_then: str,
    ) -> None:
        self._call = call
        self._fence = fence
        self._begun = Event()
        self._where = f"the Kafka cluster at {servers}"
        self._until_then = until_then

    async def done_by(self, threads: Executor) -> None:
        """Make the call in one of ``threads``, and wait for it for a bounded time.

        Raises ``RetryError`` if the call fails, or has not succeeded by then. If other feeds that wait for
        the cluster keep all the threads for that time, the call is not begun.
        """
        calling = asyncio.get_running_loop().run_in_executor(threads, self._make)
        try:
            await asyncio.wait_for(asyncio.shield(calling), _FENCE_S)
        except TimeoutError:
            self._fence.give_up()
            if self._begun.is_set():
                with suppress(GivenUpError, DeliveryError, RetryError):
                    await calling
            calling.cancel()
            raise self._retried(f"did not answer within {_FENCE_S:.0f} s") from None
        except SinkHeld:
            raise
        except RetryError:
            raise self._retried("did not answer") from None
        except DeliveryError as error:
            raise self._retried(f"did not fence them: {error}") from None

    def _make(self) -> None:
        self._begun.set()
        try:
            self._call()
        finally:
            self._fence.close()

    def _retried(self, what: str) -> RetryError:
        return RetryError(f"{self._where} {what}; {self._until_then}")
