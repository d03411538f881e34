"""A feed without a place waits until another one has ended, and nothing else waits for it."""

from __future__ import annotations

from itertools import count
from typing import Final

import pytest

from tests.simulation.clients import SimMachine
from tests.simulation.judge import read_jobs
from tests.simulation.plan import PROFILES, RunPlan, draw
from tests.simulation.run import Run
from tidegate.changefeed.definition.feed import LIVE, FeedDefinition, FeedState
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.client.kafka.topics import Topics
from tidegate.delivery.feed_places import FeedPlaces

#: How long a feed waits at least in the drawn runs.
_WAITS_S: Final = 1.0


def _plan() -> RunPlan:
    """Two feeds on the worker's own cluster; the second is created, and later the first is dropped."""
    return next(
        plan for plan in (draw(seed, PROFILES["odd"]) for seed in count()) if _is_full_for_a_while(plan)
    )


def _is_full_for_a_while(plan: RunPlan) -> bool:
    if len(plan.feeds) != 2 or any(sink.elsewhere for sink in plan.sinks.sinks):
        return False
    first, second = plan.feeds
    dropped_at = first.dropped_at
    return (
        dropped_at is not None and first.at < second.at < dropped_at - _WAITS_S and second.dropped_at is None
    )


@pytest.mark.slow
def test_a_feed_without_a_place_begins_once_another_one_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    wait = FeedPlaces.wait

    def noted(self: FeedPlaces, definition: FeedDefinition, jobs: JobsView) -> str:
        sentence = wait(self, definition, jobs)
        if sentence:
            assert [each for each, feed in jobs.feeds() if feed.status in LIVE] == ["feed0"]
            waited.append(definition.id)
        return sentence

    monkeypatch.setattr(SimMachine, "clients_most", 1)
    monkeypatch.setattr(FeedPlaces, "wait", noted)
    run = Run(_plan())
    assert run.run().faults == []
    assert set(waited) == {"feed1"}
    view = read_jobs(run.broker, Topics.of(run.settings).jobs)
    states = {str(each): feed.status for each, feed in view.feeds()}
    assert states["feed0"] is FeedState.DROPPED
    assert states["feed1"] in LIVE | {FeedState.SUCCEEDED}
