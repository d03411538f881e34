"""Fences processes that may still write progress and markers of a feed that has ended.

Each feed has a transactional id on the worker's own cluster, and others on the cluster of its sink
(``tidegate.delivery.producer_ids``). A producer that opens with such an id shuts out every earlier writer:
an owner of the feed's frontier that was taken for dead, or that has not read that the feed has ended
(docs/protocols/ends-of-feeds.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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

_SINK_S: Final = 15.0  # the longest wait for another cluster, for each transactional id


class FeedFences:
    """Fences the writers of feeds for one jobs agent, and remembers which feeds it has fenced.

    A later agent does not know that, and fences again. This does no harm.
    """

    def __init__(self, app: Shell) -> None:
        self._app = app
        self._ended: set[FeedId] = set()
        self._shut_out: set[FeedId] = set()

    def is_shut_out(self, feed_id: FeedId) -> bool:
        """Whether no process can write markers of the feed to its topics any more."""
        return feed_id in self._shut_out

    async def end(self, feed_id: FeedId) -> None:
        """Fence the feed at home (step E2): from here on no process persists progress of it."""
        if feed_id not in self._ended:
            await self.fence(feed_id)
            self._ended.add(feed_id)

    async def shut_out(self, feed_id: FeedId, sink: SinkCluster, topic: str, cluster: str) -> None:
        """Fence the feed at its sink as well (step E5): from here on no marker of it comes to its ``topic``.

        The topic is on ``sink``, the cluster with the id ``cluster``. Raises ``RetryError``.
        """
        await self.end(feed_id)
        if not sink.own:
            await self._fence_there(feed_id, sink, topic, cluster)
        self._shut_out.add(feed_id)

    async def fence(self, feed_id: FeedId) -> None:
        """Shut out earlier writers on the worker's own cluster. Waits for that cluster without limit."""
        fence = self._producer(progress_id(self._app.settings.app_id, feed_id), self._app.runtime.sinks.own)
        threads = self._app.runtime.threads.commits
        await asyncio.get_running_loop().run_in_executor(threads, _do_and_close, fence.open, fence)

    async def _fence_there(self, feed_id: FeedId, sink: SinkCluster, topic: str, cluster: str) -> None:
        for each in MarkerIds.of(self._app.settings.app_id, feed_id, cluster):
            fence = self._producer(each, sink)
            fencing = partial(sink_fence.shut_out, [fence], feed_id, sink.servers, topic, cluster)
            await self._wait_for(fencing, fence, feed_id, sink)

    async def _wait_for(
        self,
        fencing: Callable[[], None],
        fence: WorkerTransactionalProducer,
        feed_id: FeedId,
        sink: SinkCluster,
    ) -> None:
        """Call ``fencing`` in a thread of the sink, and wait for it for a bounded time.

        Other feeds that wait for the cluster may have taken all its threads. Then ``fencing`` is not begun.
        """
        begun = Event()

        def begin() -> None:
            begun.set()
            _do_and_close(fencing, fence)

        opening = asyncio.get_running_loop().run_in_executor(sink.threads, begin)
        may_come = f"until it has, a marker of feed {feed_id}, which has ended, may still come to its topics"
        try:
            await asyncio.wait_for(asyncio.shield(opening), _SINK_S)
        except TimeoutError:
            fence.give_up()
            if begun.is_set():
                with suppress(GivenUpError, DeliveryError, RetryError):
                    await opening
            opening.cancel()
            raise RetryError(
                f"the Kafka cluster at {sink.servers} did not answer within {_SINK_S:.0f} s; {may_come}"
            ) from None
        except SinkHeld:
            raise
        except RetryError:
            raise RetryError(f"the Kafka cluster at {sink.servers} did not answer; {may_come}") from None
        except DeliveryError as error:
            raise RetryError(
                f"the Kafka cluster at {sink.servers} did not fence the markers: {error}; {may_come}"
            ) from None

    def _producer(self, transactional_id: str, cluster: SinkCluster) -> WorkerTransactionalProducer:
        return WorkerTransactionalProducer(cluster.settings, transactional_id, self._app.runtime.machine)


def _do_and_close(work: Callable[[], None], fence: WorkerTransactionalProducer) -> None:
    try:
        work()
    finally:
        fence.close()
