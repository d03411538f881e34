"""Closes the clients of sinks and schema registries that no live feed of this worker needs any more.

1. Every 30 s the live feeds are looked at. These are all feeds that run on workers and have not ended. It
   does not matter which partitions this worker has.
2. A cluster or a registry that no live feed names at two looks, one after the other, is closed in a thread.
3. A feed that comes back opens it anew.

Failure cases:

* Rows of an ended feed still wait for a cluster. Then the cluster is closed only after ten minutes. Its row
  writer comes to its end then, and a feed that still uses this writer opens another one (step R6 of
  docs/protocols/refused-rows.md).
* Markers are still being written. Then the cluster stays open until their publisher has ended.
* A registry is being asked. Then it stays open until the answer has come.
* The jobs topic is not read to its end yet. Then the registry of a feed that this worker does not know yet
  may be closed, and is opened anew for the feed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from typing import Final, Protocol

from tidegate.changefeed.definition.feed import ENDED, Engine, FeedDefinition, FeedId
from tidegate.changefeed.definition.sink import SinkUri
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.errors import StatementError
from tidegate.worker.process.ending import guarded_task
from tidegate.worker.process.schema_ids import SchemaIds

_EVERY_S: Final = 30.0


class Sinks(Protocol):
    """The part of ``tidegate.worker.output.worker_sinks.WorkerSinks`` that this module needs."""

    def close_unused(self, live: Collection[tuple[FeedId, SinkUri]]) -> None: ...


class UnusedClients:
    """Looks every 30 s for clients that no feed of ``view`` needs any more, and closes them."""

    def __init__(self, sinks: Sinks, schema_ids: SchemaIds, view: JobsView) -> None:
        self._sinks = sinks
        self._schema_ids = schema_ids
        self._view = view
        self._task = guarded_task(self._work(), "unused clients")

    def look(self) -> None:
        """Close the clients that no live feed names, as the module says. This is one look."""
        live = list(_live(self._view))
        self._sinks.close_unused(frozenset(_sinks(live)))
        urls = (definition.options.confluent_schema_registry for definition in live)
        self._schema_ids.close_unused(frozenset(filter(None, urls)))

    def close(self) -> None:
        """Look no more."""
        self._task.cancel()

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            self.look()


def _live(view: JobsView) -> Iterator[FeedDefinition]:
    for _, feed in view.feeds():
        if feed.runs_on(Engine.WORKERS) and feed.status not in ENDED:
            yield from (each for each in (feed.definition, feed.defined) if each is not None)


def _sinks(definitions: Iterable[FeedDefinition]) -> Iterator[tuple[FeedId, SinkUri]]:
    for definition in definitions:
        try:
            yield definition.id, definition.sink
        except StatementError:  # the feed fails, and has no sink
            continue
