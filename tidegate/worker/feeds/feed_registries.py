"""Asks schema registries whether a new feed can begin.

They are asked before the feed is announced (``tidegate.worker.feeds.admission``). A registry that answers may
still take no schemas. So the new feed also waits while rows or markers of this worker wait for a registry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from tidegate.changefeed.definition.feed import LIVE, Engine, FeedDefinition, FeedId
from tidegate.changefeed.definition.options import Format
from tidegate.changefeed.encoding.confluent import NewSubjects
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.errors import FeedError, RegistryAway, RetryError
from tidegate.worker.feeds.admission import (
    SILENCE_S,
    Admitted,
    LookAt,
    Questions,
    Refused,
    Tell,
    Verdict,
    WaitingVerdict,
)
from tidegate.worker.operations.metrics import REGISTRY_RETRIES
from tidegate.worker.process.schema_ids import RegistryWait, SchemaIds

_NONE: Final = NewSubjects()
_LOOK_AGAIN_S: Final = 1.0  # how often to look whether rows still wait


class FeedRegistries:
    """The jobs agent's questions to schema registries.

    ``look_at`` is called with a feed and the seconds until there may be news of it.
    """

    def __init__(
        self, schema_ids: SchemaIds, look_at: LookAt, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._schema_ids = schema_ids
        self._look_at = look_at
        self._clock = clock
        self._questions = Questions("registry", look_at, clock)

    def verdict(
        self,
        definition: FeedDefinition,
        live: Iterable[FeedDefinition],
        *,
        has_begun: bool = False,
        subjects: NewSubjects = _NONE,
    ) -> Verdict:
        """Return the verdict on a feed, as far as it is known now. Never waits.

        The feed is new, or it goes on in another epoch if it ``has_begun``.
        ``live`` are the feeds that run. Of the feeds that share a registry, the first and the last by id are
        enough.
        ``subjects`` must be new in the feed's registry.
        """
        verdict: Verdict = Admitted()
        if registries := _registries(definition, live):
            verdict = self._questions.verdict(
                definition.id, partial(self._ask, definition, registries, has_begun, subjects)
            )
        return self._behind_others(definition.id) if isinstance(verdict, Admitted) else verdict

    def forget(self, feed_id: FeedId) -> None:
        """Forget a feed that was announced, or has ended."""
        self._questions.forget(feed_id)

    def close(self) -> None:
        """Cancel all questions."""
        self._questions.close()

    async def _ask(
        self,
        definition: FeedDefinition,
        registries: Mapping[str, FeedDefinition],
        has_begun: bool,
        subjects: NewSubjects,
        tell: Tell,
    ) -> Verdict:
        """Ask the registries one after the other, up to the first that keeps the feed from beginning."""
        for url, feed in registries.items():
            tell(_waiting_for(definition, feed))
            try:
                await self._schema_ids.try_ids(url, definition.id, ())
                if feed.id == definition.id and subjects.names:
                    await self._schema_ids.require_new(url, subjects)
            except (FeedError, RetryError) as error:
                verdict = _verdict_on(definition, feed, error, has_begun=has_begun)
                if isinstance(verdict, WaitingVerdict):
                    REGISTRY_RETRIES.labels(definition.id).inc()
                return verdict
        return Admitted()

    def _behind_others(self, feed_id: FeedId) -> Verdict:
        """Return a verdict that makes the feed wait, if a partition of this worker waits for ids of schemas.

        Such a partition would not answer the announcement. It may also wait for a feed that has ended, until
        it has heard of the end.
        """
        waits = self._schema_ids.waiting()
        if not waits:
            return Admitted()
        self._look_at(feed_id, _LOOK_AGAIN_S)
        told = next((wait for wait in waits if self._is_told(wait)), None)
        if told is None:
            return WaitingVerdict("")
        return WaitingVerdict(
            f"{_waiting_for_other(told.feed_id)} {told.cause or 'It has not answered yet.'}"
        )

    def _is_told(self, wait: RegistryWait) -> bool:
        """Whether a wait is mentioned in the sentence that users see.

        A wait that has just begun, and whose first question has no answer yet, is normal and not mentioned.
        """
        return wait.tries > 0 or self._clock() - wait.since >= SILENCE_S


def live_registry(feed: FeedView) -> Iterable[str]:
    """Return the registry of a live feed of workers; nothing for other feeds, or without a registry."""
    definition = feed.definition if feed.runs_on(Engine.WORKERS) and feed.status in LIVE else None
    if definition is None or definition.options.format is not Format.AVRO:
        return ()
    return (definition.options.confluent_schema_registry,)


def _registries(definition: FeedDefinition, live: Iterable[FeedDefinition]) -> dict[str, FeedDefinition]:
    """Return the registries to ask before the feed is announced, each with a feed that needs it.

    The registries of live feeds are among them. A log partition that waits for one of these does not answer
    the announcement, and all other partitions would be held until it does.
    """
    feeds = [feed for feed in (definition, *live) if feed.options.format is Format.AVRO]
    return {feed.options.confluent_schema_registry: feed for feed in reversed(feeds)}


def _verdict_on(
    definition: FeedDefinition, feed: FeedDefinition, error: FeedError | RetryError, *, has_begun: bool
) -> Verdict:
    may_wait = isinstance(error, RetryError) if has_begun else isinstance(error, RegistryAway)
    if feed.id == definition.id and not may_wait:
        return Refused(str(error))
    return WaitingVerdict(f"{_waiting_for(definition, feed)} {error}")


def _waiting_for(definition: FeedDefinition, feed: FeedDefinition) -> str:
    if feed.id == definition.id:
        return "waiting for its schema registry."
    return _waiting_for_other(feed.id)


def _waiting_for_other(feed_id: FeedId) -> str:
    return (
        f"waiting for the schema registry of feed {feed_id}: log partitions may wait for it too, and a new "
        "feed would hold all others until they go on."
    )
