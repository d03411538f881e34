"""Asks the cluster of a new feed's sink whether it answers, and which cluster it is.

That is asked before the feed is announced (``tidegate.worker.feeds.admission``). The id in the answer shows
whether it is the worker's own cluster. It also shows whether two sinks are one cluster at different
addresses: a topic there belongs to one feed alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.delivery.sink_clusters import SinkClusters, begun_on
from tidegate.errors import RetryError
from tidegate.worker.feeds.admission import Admitted, LookAt, Questions, Tell, Verdict, WaitingVerdict
from tidegate.worker.output.worker_sinks import SinkCluster, WorkerSinks


class FeedSinks:
    """The jobs agent's questions to the Kafka clusters of sinks.

    ``look_at`` is called with a feed and the seconds until there may be news of it.
    """

    def __init__(
        self, sinks: WorkerSinks, look_at: LookAt, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sinks = sinks
        self._questions = Questions("sink", look_at, clock)
        self._clusters = SinkClusters(sinks.own.servers)
        self._own_id = ""

    def verdict(self, definition: FeedDefinition, feed: FeedView) -> Verdict:
        """Return the verdict on a feed, as far as it is known now. Never waits.

        The URI of the feed's sink must be valid. If the feed has begun in an earlier epoch, its sink has to
        be the cluster of that epoch.
        """
        stored = begun_on(feed)
        if self._clusters.is_home(definition.sink) and not stored:
            return Admitted()
        return self._questions.verdict(definition.id, partial(self._ask, definition, stored))

    def cluster_of(self, definition: FeedDefinition) -> str | None:
        """Return the id that the sink's cluster told last; empty for the worker's own, ``None`` while
        unknown.
        """
        return self._clusters.cluster_of(definition.sink)

    async def learn(self, definition: FeedDefinition) -> None:
        """Ask the cluster of the feed's sink for its id, and note it.

        Raises ``RetryError`` if the cluster does not answer, or may not be asked.
        """
        cluster_id = await _id_of(self._sinks.of(definition))
        self._own_id = self._own_id or await _id_of(self._sinks.own)
        self._clusters.learn(definition.sink, cluster_id, self._own_id)

    def share(self, definition: FeedDefinition, other: FeedView) -> bool:
        """Whether the topics of ``other`` are known to be on the cluster of ``definition``'s sink."""
        return self._clusters.share(definition, other)

    def forget(self, feed_id: FeedId) -> None:
        """Forget a feed that was announced, or has ended."""
        self._questions.forget(feed_id)

    def close(self) -> None:
        """Cancel all questions."""
        self._questions.close()

    async def _ask(self, definition: FeedDefinition, stored: str | None, tell: Tell) -> Verdict:
        waits_for = f"waiting for its sink, the Kafka cluster at {self._sinks.of(definition).servers}."
        tell(waits_for)
        try:
            await self.learn(definition)
        except RetryError as error:
            return WaitingVerdict(f"{waits_for} {error}.")
        other = self._clusters.other_than(stored, definition.sink)
        if other is None:
            return Admitted()
        sentence = other.sentence(definition.id, self._sinks.of(definition).servers, self._own_id)
        return WaitingVerdict(f"{sentence}.")


async def _id_of(cluster: SinkCluster) -> str:
    admin = cluster.admin
    return await asyncio.get_running_loop().run_in_executor(cluster.threads, admin.cluster_id)
