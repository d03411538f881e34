"""Whether the cluster of a new feed's sink answers, and which it is.

A cluster that is away must be known before the feed is announced (``agents.admission``). The id that one
answers with tells whether two sinks are one cluster by different addresses, for a topic there belongs to one
feed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from agents.admission import Admitted, LookAt, Questions, Refused, Tell, Verdict, Waiting
from app.sinks import SinkCluster, Sinks
from tidegate.changefeed.feed import FeedDefinition, FeedId
from tidegate.changefeed.jobs import FeedView
from tidegate.errors import FeedError, RetryError, StatementError


class FeedSinks:
    """The jobs agent's questions. ``look_at`` is called when, or some seconds before, there may be news."""

    def __init__(self, sinks: Sinks, look_at: LookAt, clock: Callable[[], float] = time.monotonic) -> None:
        self._sinks = sinks
        self._questions = Questions("sink", look_at, clock)
        self._ids: dict[str, str] = {}  # by servers

    def verdict(self, definition: FeedDefinition) -> Verdict:
        """What is known at the moment about a feed whose sink can be one at all. Never waits."""
        cluster = self._sinks.of(definition.sink_uri)
        if cluster.own:
            return Admitted()
        return self._questions.verdict(definition.id, partial(self._ask, cluster))

    def cluster_of(self, definition: FeedDefinition) -> str | None:
        """The id of its sink's cluster; empty for the worker's own, ``None`` while it is not known."""
        cluster = self._sinks.of(definition.sink_uri)
        return "" if cluster.own else self._ids.get(cluster.servers)

    async def learn(self, definition: FeedDefinition) -> None:
        """Ask its sink's cluster for its id. Raises ``RetryError``; ``FeedError`` for the worker's own."""
        await self._identify(self._sinks.of(definition.sink_uri))

    def share_topics(self, definition: FeedDefinition) -> Callable[[FeedView], bool]:
        """Tells of other feeds whether their topics are on the cluster of this feed's, as far as is known."""
        cluster = self.cluster_of(definition)

        def shares(other: FeedView) -> bool:
            if other.current_state is not None and other.current_state.targets:
                return other.current_state.sink_cluster == cluster
            return other.definition is not None and self._is_one(definition, other.definition)

        return shares

    def forget(self, feed_id: FeedId) -> None:
        """The feed was announced, or has ended."""
        self._questions.forget(feed_id)

    def close(self) -> None:
        """Ask nothing more."""
        self._questions.close()

    def _is_one(self, one: FeedDefinition, other: FeedDefinition) -> bool:
        try:
            known, others = self.cluster_of(one), self.cluster_of(other)
            same = self._sinks.of(one.sink_uri) is self._sinks.of(other.sink_uri)
        except StatementError:  # the other is no sink, and its feed will never run
            return False
        return same or (known is not None and known == others)

    async def _ask(self, cluster: SinkCluster, tell: Tell) -> Verdict:
        waits_for = f"waiting for its sink, the Kafka cluster at {cluster.servers}."
        tell(waits_for)
        try:
            await self._identify(cluster)
        except FeedError as error:
            return Refused(str(error))
        except RetryError as error:
            return Waiting(f"{waits_for} {error}.")
        return Admitted()

    async def _identify(self, cluster: SinkCluster) -> None:
        """Ask the cluster, for the worker's own must not be taken for another. Raises as ``learn`` does."""
        own = self._sinks.own
        for asked in (cluster, own):
            if asked is cluster or asked.servers not in self._ids:
                ask = asyncio.get_running_loop().run_in_executor(asked.threads, asked.admin.cluster_id)
                self._ids[asked.servers] = await ask
        if self._ids[cluster.servers] == self._ids[own.servers]:
            del self._ids[cluster.servers]
            raise FeedError(
                f"the sink kafka://{cluster.servers} is the worker's own Kafka cluster by other addresses; "
                f"name it by those that the worker has ({own.servers})"
            )
