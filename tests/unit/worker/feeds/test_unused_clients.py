"""Tests which sinks and registries are needed: those of feeds of workers that have not ended."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

from tests.unit.changefeed.feeds import DEFINITION
from tests.unit.worker.hand_ids import HandIds
from tidegate.changefeed.definition.feed import Engine, FeedDefinition, FeedId, FeedState
from tidegate.changefeed.definition.sink import SinkUri
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, DropRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.worker.feeds.unused_clients import UnusedClients


class _Sinks:
    """Sinks that keep what is live at each look."""

    def __init__(self) -> None:
        self.live: list[Collection[tuple[FeedId, SinkUri]]] = []

    def close_unused(self, live: Collection[tuple[FeedId, SinkUri]]) -> None:
        self.live.append(live)


def _feed(name: str, **changed: object) -> FeedDefinition:
    options = replace(DEFINITION.options, confluent_schema_registry=f"http://{name}")
    return replace(
        DEFINITION,
        id=FeedId(name),
        sink_uri=f"kafka://{name}:9",
        options=options,
        **changed,  # type: ignore[arg-type]
    )


def _view(*records: DefinitionRecord | DropRecord | StateRecord) -> JobsView:
    view = JobsView()
    for record in records:
        view.apply(record.key, record.to_bytes())
    return view


def _looked(view: JobsView) -> tuple[set[str], set[str]]:
    """The feeds and the registries that are live at a look."""

    async def scenario() -> tuple[set[str], set[str]]:
        sinks, ids = _Sinks(), HandIds()
        clients = UnusedClients(sinks, ids, view)
        await asyncio.sleep(0)  # it begins to wait for its next look
        clients.look()
        clients.close()
        return {feed_id for feed_id, _ in sinks.live[0]}, set(ids.live[0])

    return asyncio.run(scenario())


def test_feeds_that_have_not_ended_are_live_also_before_they_begin() -> None:
    new, failed, dropped = (_feed(name) for name in ("new", "failed", "dropped"))
    view = _view(
        *map(DefinitionRecord, (new, failed, dropped)),
        StateRecord(failed.id, failed.epoch, FeedState.FAILED),
        DropRecord(dropped.id, requested_ns=0),
    )
    assert _looked(view) == ({"new"}, {"http://new"})


def test_feeds_of_other_engines_are_not_live_here() -> None:
    assert _looked(_view(DefinitionRecord(_feed("spark", engine=Engine.SPARK)))) == (set(), set())


def test_a_sink_that_is_none_and_no_registry_are_passed_over() -> None:
    odd = replace(_feed("odd"), sink_uri="ftp://odd", options=DEFINITION.options)
    assert _looked(_view(DefinitionRecord(odd), DefinitionRecord(_feed("even")))) == (
        {"even"},
        {"http://even"},
    )
