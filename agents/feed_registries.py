"""Whether the schema registries let a new feed begin, asked while nobody waits for the feed yet.

From its registration to its activation a feed holds every log partition. One that then had to wait for a
registry would make all feeds wait, so the registry is asked first, in the background, again and again. One
that answers may still take no schemas, so the feed also waits while rows or markers of this worker do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from app.ending import guarded_task
from app.metrics import REGISTRY_RETRIES
from app.schema_ids import RegistryWait, SchemaIds
from tidegate.changefeed.confluent import Schema
from tidegate.changefeed.encoder import compile_marker
from tidegate.changefeed.feed import FeedDefinition, FeedId
from tidegate.changefeed.options import Format
from tidegate.errors import FeedError, RegistryAway, RetryError

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 15.0
_SILENCE_S: Final = 3.0  # a question that has no answer after this time is told of
_LOOK_AGAIN_S: Final = 1.0  # whether rows still wait


@dataclass(frozen=True, slots=True)
class Admitted:
    """The feed may be announced."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """It may not yet; ``reason`` is a sentence, empty while the first question is young."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It never will be."""

    reason: str


Verdict: TypeAlias = Admitted | Waiting | Refused


class _Question:
    """What is known of a feed's registries, and when to ask again."""

    def __init__(self) -> None:
        self.verdict: Verdict = Waiting("")
        self.pause_s = _FIRST_PAUSE_S
        self.begun = 0.0
        self.due = 0.0
        self.silent = ""
        self.task: asyncio.Task[None] | None = None


class FeedRegistries:
    """The jobs agent's questions. ``look_at`` is called when, or some seconds before, there may be news."""

    def __init__(
        self,
        schema_ids: SchemaIds,
        look_at: Callable[[FeedId, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._schema_ids = schema_ids
        self._look_at = look_at
        self._clock = clock
        self._questions: dict[FeedId, _Question] = {}

    def verdict(self, definition: FeedDefinition, live: Iterable[FeedDefinition]) -> Verdict:
        """What is known at the moment about a feed beside those that are ``live``. Never waits."""
        verdict = self._asked(definition, live)
        return self._behind_others(definition.id) if isinstance(verdict, Admitted) else verdict

    def _asked(self, definition: FeedDefinition, live: Iterable[FeedDefinition]) -> Verdict:
        asked = _registries(definition, live)
        if not asked:
            return Admitted()
        question = self._questions.setdefault(definition.id, _Question())
        now = self._clock()
        if question.task is not None:
            return self._silent(definition.id, question, now - question.begun)
        if isinstance(question.verdict, Waiting):
            if now < question.due:
                self._look_at(definition.id, question.due - now)
            else:
                self._ask(definition, asked, question)
        return question.verdict

    def forget(self, feed_id: FeedId) -> None:
        """The feed was announced, or has ended."""
        question = self._questions.pop(feed_id, None)
        if question is not None and question.task is not None:
            question.task.cancel()

    def close(self) -> None:
        """Ask nothing more."""
        for feed_id in list(self._questions):
            self.forget(feed_id)

    def _behind_others(self, feed_id: FeedId) -> Verdict:
        """A partition of this worker that waits for ids would not answer the announcement.

        Whatever it waits for: also a feed that is live no more, until the partition has heard of that.
        """
        waits = self._schema_ids.waiting()
        if not waits:
            return Admitted()
        self._look_at(feed_id, _LOOK_AGAIN_S)
        told = next((wait for wait in waits if self._is_told(wait)), None)
        if told is None:
            return Waiting("")
        return Waiting(f"{_waiting_for_other(told.feed_id)} {told.cause or 'It has not answered yet.'}")

    def _is_told(self, wait: RegistryWait) -> bool:
        """A first question that is young is the usual way of things."""
        return wait.tries > 0 or self._clock() - wait.since >= _SILENCE_S

    def _silent(self, feed_id: FeedId, question: _Question, asked_s: float) -> Verdict:
        if asked_s < _SILENCE_S:
            self._look_at(feed_id, _SILENCE_S - asked_s)
        elif question.verdict == Waiting(""):
            question.verdict = Waiting(f"{question.silent} It has not answered for {_SILENCE_S:.0f} s.")
        return question.verdict

    def _ask(self, definition: FeedDefinition, asked: dict[str, FeedDefinition], question: _Question) -> None:
        question.begun = self._clock()
        question.task = guarded_task(
            self._answer(definition, asked, question), f"registry of {definition.id}"
        )
        self._look_at(definition.id, _SILENCE_S)

    async def _answer(
        self, definition: FeedDefinition, asked: dict[str, FeedDefinition], question: _Question
    ) -> None:
        verdict = await self._verdict(definition, asked, question)
        if isinstance(verdict, Waiting):
            REGISTRY_RETRIES.labels(definition.id).inc()
            verdict = Waiting(f"{verdict.reason} Asked again in {question.pause_s:.0f} s.")
            question.due = self._clock() + question.pause_s
            question.pause_s = min(2 * question.pause_s, _LONGEST_PAUSE_S)
        question.verdict, question.task = verdict, None
        self._look_at(definition.id, 0.0)

    async def _verdict(
        self, definition: FeedDefinition, asked: dict[str, FeedDefinition], question: _Question
    ) -> Verdict:
        for url, feed in asked.items():
            question.silent = _waiting_for(definition, feed)
            try:
                await self._schema_ids.try_ids(url, definition.id, ())
            except (FeedError, RetryError) as error:
                return _verdict_on(definition, feed, error)
        return Admitted()


def marker_schemas(definition: FeedDefinition) -> list[Schema]:
    """The schemas of the feed's markers. Raises ``FeedError`` for a feed that can have none."""
    options = definition.options
    if options.resolved_interval_ns is None:
        return []
    encoders = (compile_marker(table, options) for table in definition.tables)
    return [encoder.schema for encoder in encoders if encoder.schema is not None]


def _registries(definition: FeedDefinition, live: Iterable[FeedDefinition]) -> dict[str, FeedDefinition]:
    """The registries to ask before the feed is announced, each with a feed that needs it.

    Those of live feeds are among them: a log partition that waits for one of them does not answer the
    announcement, and all others would be held until it does.
    """
    feeds = [feed for feed in (definition, *live) if feed.options.format is Format.AVRO]
    return {feed.options.confluent_schema_registry: feed for feed in reversed(feeds)}


def _verdict_on(definition: FeedDefinition, feed: FeedDefinition, error: FeedError | RetryError) -> Verdict:
    if feed.id == definition.id and not isinstance(error, RegistryAway):
        return Refused(str(error))
    return Waiting(f"{_waiting_for(definition, feed)} {error}")


def _waiting_for(definition: FeedDefinition, feed: FeedDefinition) -> str:
    if feed.id == definition.id:
        return "waiting for its schema registry."
    return _waiting_for_other(feed.id)


def _waiting_for_other(feed_id: FeedId) -> str:
    return (
        f"waiting for the schema registry of feed {feed_id}: log partitions may wait for it too, and a new "
        "feed would hold all others until they go on."
    )
