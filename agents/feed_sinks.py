"""Whether the cluster of a new feed's sink answers, and which it is, asked while nobody waits for the feed.

From its registration to its activation a feed holds every log partition, so a cluster that is away must be
known before: the feed is pending then, and its state says for what it waits. The id that a cluster answers
with tells whether two sinks are one cluster by different addresses, for a topic there belongs to one feed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from agents.feed_registries import Admitted, Refused, Verdict, Waiting
from app.ending import guarded_task
from app.sinks import SinkCluster, Sinks
from tidegate.changefeed.feed import FeedDefinition, FeedId
from tidegate.changefeed.jobs import FeedView
from tidegate.errors import FeedError, RetryError, StatementError

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 15.0
_SILENCE_S: Final = 3.0  # a question that has no answer after this time is told of


@dataclass(slots=True)
class _Question:
    """What is known of a feed's sink, and when to ask again."""

    verdict: Verdict = field(default_factory=lambda: Waiting(""))
    pause_s: float = _FIRST_PAUSE_S
    begun: float = 0.0
    due: float = 0.0
    task: asyncio.Task[None] | None = None


class FeedSinks:
    """The jobs agent's questions. ``look_at`` is called when, or some seconds before, there may be news."""

    def __init__(
        self,
        sinks: Sinks,
        look_at: Callable[[FeedId, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sinks = sinks
        self._look_at = look_at
        self._clock = clock
        self._questions: dict[FeedId, _Question] = {}
        self._ids: dict[str, str] = {}  # by servers

    def verdict(self, definition: FeedDefinition) -> Verdict:
        """What is known at the moment about a feed whose sink can be one at all. Never waits."""
        cluster = self._sinks.of(definition.sink_uri)
        if cluster.own:
            return Admitted()
        question = self._questions.setdefault(definition.id, _Question())
        now = self._clock()
        if question.task is not None:
            return self._silent(definition.id, cluster, question, now - question.begun)
        if isinstance(question.verdict, Waiting):
            if now < question.due:
                self._look_at(definition.id, question.due - now)
            else:
                self._ask(definition.id, cluster, question)
        return question.verdict

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
        question = self._questions.pop(feed_id, None)
        if question is not None and question.task is not None:
            question.task.cancel()

    def close(self) -> None:
        """Ask nothing more."""
        for feed_id in list(self._questions):
            self.forget(feed_id)

    def _is_one(self, one: FeedDefinition, other: FeedDefinition) -> bool:
        try:
            known, others = self.cluster_of(one), self.cluster_of(other)
            same = self._sinks.of(one.sink_uri) is self._sinks.of(other.sink_uri)
        except StatementError:  # the other is no sink, and its feed will never run
            return False
        return same or (known is not None and known == others)

    def _silent(self, feed_id: FeedId, cluster: SinkCluster, question: _Question, asked_s: float) -> Verdict:
        if asked_s < _SILENCE_S:
            self._look_at(feed_id, _SILENCE_S - asked_s)
        elif question.verdict == Waiting(""):
            question.verdict = Waiting(f"{_waiting(cluster)} It has not answered for {_SILENCE_S:.0f} s.")
        return question.verdict

    def _ask(self, feed_id: FeedId, cluster: SinkCluster, question: _Question) -> None:
        question.begun = self._clock()
        question.task = guarded_task(self._answer(feed_id, cluster, question), f"sink of {feed_id}")
        self._look_at(feed_id, _SILENCE_S)

    async def _answer(self, feed_id: FeedId, cluster: SinkCluster, question: _Question) -> None:
        verdict: Verdict
        try:
            await self._identify(cluster)
            verdict = Admitted()
        except FeedError as error:
            verdict = Refused(str(error))
        except RetryError as error:
            verdict = Waiting(f"{_waiting(cluster)} {error}. Asked again in {question.pause_s:.0f} s.")
            question.due = self._clock() + question.pause_s
            question.pause_s = min(2 * question.pause_s, _LONGEST_PAUSE_S)
        question.verdict, question.task = verdict, None
        self._look_at(feed_id, 0.0)

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


def _waiting(cluster: SinkCluster) -> str:
    return f"waiting for its sink, the Kafka cluster at {cluster.servers}."
