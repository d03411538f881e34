"""An exception nobody foresaw in a feed's step or publisher: the feed fails, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

import pytest

from agents.jobs import JobsOwner
from tests.simulation.judge import read_jobs
from tests.simulation.plan import PROFILES, PlannedFeed, RunPlan, draw
from tests.simulation.run import Outcome, Run
from tidegate.changefeed.definition.feed import LIVE, FeedId, FeedState
from tidegate.changefeed.lifecycle.control import Activate, Register
from tidegate.changefeed.lifecycle.feed_progress import FeedProgress
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import Announce
from tidegate.client.kafka.topics import Topics
from tidegate.errors import RetryError
from tidegate.worker.feeds.feed_fences import FeedFences

_ODD: Final = FeedId("feed0")


def _plan() -> RunPlan:
    """Two feeds or more, that run side by side."""
    plans = (draw(seed, PROFILES["still"]) for seed in count())
    return next(plan for plan in plans if len(plan.feeds) > 1 and not any(feed.move for feed in plan.feeds))


def _breaks(patch: pytest.MonkeyPatch, method: str, concerns: Callable[..., bool]) -> list[object]:
    """Have a method of the agent raise, for the odd feed; returns when it was called so."""
    original, calls = getattr(JobsOwner, method), []

    def broken(self: Any, subject: Any, *others: Any) -> Any:
        if concerns(subject, *others):
            calls.append(subject)
            raise ArithmeticError("nobody foresaw this feed")
        return original(self, subject, *others)

    patch.setattr(JobsOwner, method, broken)
    return calls


def _is_odd(message: type) -> Callable[..., bool]:
    return lambda feed_id, step: feed_id == _ODD and isinstance(step.message, message)


@pytest.mark.slow
@pytest.mark.parametrize("message", [Register, Activate])
def test_a_feed_that_breaks_its_step_fails_and_the_others_run(
    message: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _breaks(monkeypatch, "_announce", _is_odd(message))
    run = Run(_plan(), breaks=_ODD)
    outcome = run.run()
    assert calls
    _require_only_odd_failed(run, outcome)


@pytest.mark.slow
def test_a_feed_whose_frontier_cannot_begin_fails_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = FeedProgress.begin

    def broken(self: FeedProgress, left: FeedView) -> FeedFrontier:
        if self._definition.id == _ODD:
            raise ArithmeticError("nobody foresaw this feed")
        return begin(self, left)

    monkeypatch.setattr(FeedProgress, "begin", broken)
    run = Run(_plan(), breaks=_ODD)
    _require_only_odd_failed(run, run.run())


def _require_only_odd_failed(run: Run, outcome: Outcome) -> None:
    view = read_jobs(run.broker, Topics.of(run.settings).jobs)
    states = {feed_id: feed.current_state for feed_id, feed in view.feeds()}
    odd = states.pop(_ODD)
    assert odd is not None
    assert odd.state is FeedState.FAILED
    assert "ArithmeticError (test_jobs_that_break.py, line " in odd.error
    assert states
    assert {state.state for state in states.values() if state is not None} <= LIVE | {FeedState.SUCCEEDED}
    assert outcome.faults == []


@pytest.mark.slow
def test_a_feed_that_cannot_even_fail_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _breaks(monkeypatch, "_next_step", lambda _, definition: definition.id == _ODD)
    run = Run(_plan(), breaks=_ODD)
    assert run.run().faults == []
    assert 1 <= len(calls) < 100
    view = read_jobs(run.broker, Topics.of(run.settings).jobs)
    others = [feed.current_state for feed_id, feed in view.feeds() if feed_id != _ODD]
    assert others
    assert {state.state for state in others if state is not None} <= LIVE | {FeedState.SUCCEEDED}


@pytest.mark.slow
def test_a_step_for_which_a_server_does_not_answer_is_taken_again_and_fails_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agents.jobs.AGAIN_S", 2.0)
    announce = JobsOwner._announce
    calls: list[Announce] = []

    async def away(self: JobsOwner, feed_id: FeedId, step: Announce) -> None:
        if feed_id == _ODD and isinstance(step.message, Activate) and not calls:
            calls.append(step)
            raise RetryError("a broker is away")
        await announce(self, feed_id, step)

    monkeypatch.setattr(JobsOwner, "_announce", away)
    run = Run(_plan())
    outcome = run.run()
    assert calls
    assert not outcome.faults
    view = read_jobs(run.broker, Topics.of(run.settings).jobs)
    states = [feed.current_state for _, feed in view.feeds()]
    assert {state.state for state in states if state is not None} <= LIVE | {FeedState.SUCCEEDED}


def _plan_with_a_drop_before_a_feed() -> RunPlan:
    plans = (draw(seed, PROFILES["odd"]) for seed in count())
    return next(plan for plan in plans if _is_dropped_before_another_begins(plan.feeds))


def _is_dropped_before_another_begins(feeds: Sequence[PlannedFeed]) -> bool:
    first, *others = feeds
    dropped_at = first.dropped_at
    return dropped_at is not None and any(first.at + 1 < dropped_at < feed.at for feed in others)


@pytest.mark.slow
def test_other_feeds_have_their_steps_while_one_that_has_ended_cannot_be_fenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic of it may have too few replicas in sync: its transaction does not end, nor does the fence."""
    end, announce = FeedFences.end, JobsOwner._announce
    waiting: list[FeedFences] = []
    meanwhile: list[FeedId] = []

    async def without_answer(self: FeedFences, feed_id: FeedId) -> None:
        if feed_id == _ODD:
            waiting.append(self)
            await asyncio.sleep(15)
            waiting.remove(self)
        await end(self, feed_id)

    async def noted(self: JobsOwner, feed_id: FeedId, step: Announce) -> None:
        if self._fences in waiting:  # of this worker: another one may have been killed while it waited
            assert feed_id != _ODD, "partitions may be told of the end only behind the fence"
            meanwhile.append(feed_id)
        await announce(self, feed_id, step)

    monkeypatch.setattr(FeedFences, "end", without_answer)
    monkeypatch.setattr(JobsOwner, "_announce", noted)
    run = Run(_plan_with_a_drop_before_a_feed())
    outcome = run.run()
    assert meanwhile
    assert not outcome.faults
