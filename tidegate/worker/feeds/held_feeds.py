"""Finds the held feeds: the address of their sink means another cluster now, or is not allowed to them.

Row producers and marker writers compare cluster ids themselves, before an acknowledgement counts. This module
asks the clusters of live feeds at intervals, so that ``tidegate feed show`` and ``why`` have the sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.feed_faults import FeedFaults
from tidegate.delivery.sink_identity import held
from tidegate.errors import RetryError, SettingsError, SinkNotAllowed
from tidegate.worker.feeds.admission import LookAt
from tidegate.worker.operations.metrics import INCIDENTS
from tidegate.worker.output.worker_sinks import WorkerSinks
from tidegate.worker.process.ending import guarded_task

_EVERY_S: Final = 10.0
_PATIENCE_S: Final = 10.0


class HeldFeeds:
    """The jobs agent's watch over the sinks of ``live`` feeds, which may still be starting.

    Every 10 s each feed with a stored cluster id is looked at; a feed on the workers' own cluster has none.
    ``look_at`` is called, each time, for a feed whose stored error is not the sentence that was found.
    """

    def __init__(self, sinks: WorkerSinks, live: Callable[[], Iterable[FeedView]], look_at: LookAt) -> None:
        self._sinks = sinks
        self._live = live
        self._look_at = look_at
        self._faults = FeedFaults(INCIDENTS.labels("jobs").inc)
        self._sentences: dict[FeedId, tuple[str, str]] = {}  # the feed's stored cluster, and the sentence
        self._task = guarded_task(self._work(), "held feeds")

    def sentence(self, feed_id: FeedId, cluster: str) -> str | None:
        """Return why a feed is held; empty if it is not held, ``None`` while that is unknown.

        ``cluster`` is the id that is stored for the feed.
        """
        of, sentence = self._sentences.get(feed_id, ("", None))
        return sentence if of == cluster else None

    def close(self) -> None:
        """Stop asking."""
        self._task.cancel()

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await asyncio.gather(*(self._ask_contained(feed) for feed in self._live()))

    async def _ask_contained(self, feed: FeedView) -> None:
        """Ask about a feed. After an exception that nobody foresaw its sentence stays as it is (U7)."""
        try:
            await self._ask(feed)
        except SettingsError:  # its rows and markers tell of it
            return
        except Exception as error:
            if feed.definition is None:
                raise
            self._faults.reported(feed.definition.id, error)

    async def _ask(self, feed: FeedView) -> None:
        """Ask the cluster of a feed's sink for its id. Without an answer the sentence stays as it is."""
        definition, state = feed.definition, feed.current_state
        if definition is None or state is None or not state.sink_cluster:
            return
        sink = self._sinks.of(definition, state.sink_cluster)
        try:
            admin = sink.admin
        except SinkNotAllowed as error:
            self._note(definition.id, state, str(error))
            return
        except RetryError:  # a secret of its login is missing
            return
        with suppress(RetryError, TimeoutError):
            ask = asyncio.get_running_loop().run_in_executor(sink.threads, admin.cluster_id)
            found = await asyncio.wait_for(ask, _PATIENCE_S)
            stored = state.sink_cluster
            sentence = "" if found == stored else held(definition.id, sink.servers, stored, found)
            self._note(definition.id, state, sentence)

    def _note(self, feed_id: FeedId, state: StateRecord, sentence: str) -> None:
        self._sentences[feed_id] = state.sink_cluster, sentence
        if sentence != state.error:
            self._look_at(feed_id, 0.0)
