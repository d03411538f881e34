"""Tests which feeds have a place in a process that can have a bounded number of Kafka clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import (
    FIRST_EPOCH,
    LIVE,
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
)
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, DropRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.changefeed.lifecycle.registration import waiting
from tidegate.delivery.feed_places import FeedPlaces
from tidegate.hlc import Timestamp

_OWN = "127.0.0.1:9092"
_HOME, _ELSEWHERE, _UNREADABLE = f"kafka://{_OWN}", "kafka://there:9092", "kafka://no port:x"
_FEED = activation([HandTable.of(104, "plain").descriptor], sink_uri=_HOME)


def _definition(feed_id: str, sink_uri: str = _HOME, engine: Engine = Engine.WORKERS) -> FeedDefinition:
    return replace(_FEED.definition, id=FeedId(feed_id), sink_uri=sink_uri, engine=engine)


def _state(feed_id: str, state: FeedState, cluster: str = "", epoch: int = FIRST_EPOCH) -> StateRecord:
    return StateRecord(
        FeedId(feed_id), FeedEpoch(epoch), state, Timestamp(1), _FEED.targets, sink_cluster=cluster
    )


def _waiting(feed_id: str, reason: str) -> StateRecord:
    return waiting(_definition(feed_id), reason, ())


def _jobs(definitions: Sequence[FeedDefinition], *others: StateRecord | DropRecord) -> JobsView:
    view = JobsView()
    for record in (*map(DefinitionRecord, definitions), *others):
        view.apply(record.key, record.to_bytes())
    return view


def _with_place(clients: int, jobs: JobsView) -> list[FeedId]:
    places = FeedPlaces(clients, _OWN)
    definitions = [feed.definition for _, feed in jobs.feeds() if feed.definition is not None]
    return [each.id for each in definitions if not places.wait(each, jobs)]


def test_the_feeds_that_were_created_first_have_the_places() -> None:
    jobs = _jobs([_definition(each) for each in "dbca"])
    assert _with_place(3, jobs) == ["a", "b", "c"]


def test_a_feed_without_a_place_is_told_what_it_waits_for_and_what_can_be_done() -> None:
    sentence = FeedPlaces(2, _OWN).wait(_definition("c"), _jobs([_definition(each) for each in "abc"]))
    assert sentence == (
        "it waits for a place: all feeds may take 2 Kafka clients of a process, and the feeds that have "
        "begun, or were created before this one, leave too few of them. This feed begins once some of the "
        "others have ended (`tidegate feed drop`). Or drop this feed, and create it in another application, "
        "with another TIDEGATE_APP_ID"
    )


def test_a_feed_that_has_begun_keeps_its_place() -> None:
    jobs = _jobs([_definition(each) for each in "abc"], _state("c", FeedState.RUNNING))
    assert _with_place(2, jobs) == ["a", "c"]


def test_a_feed_that_goes_on_in_a_later_epoch_never_waits_and_takes_no_place_from_one_that_runs() -> None:
    """Such as one that was moved here, or goes on on another cluster: it has begun."""
    moved = [replace(_definition(each), epoch=FeedEpoch(2)) for each in "ab"]
    begun = [_state(each, FeedState.RUNNING) for each in "abc"]
    jobs = _jobs([*moved, _definition("c"), _definition("d")], *begun)
    assert jobs[FeedId("a")].status is FeedState.PENDING
    assert _with_place(2, jobs) == ["a", "b", "c"]


def test_a_feed_that_waits_for_something_else_keeps_no_place_from_later_ones() -> None:
    definitions, places = [_definition(each) for each in "abcd"], FeedPlaces(2, _OWN)
    jobs = _jobs(definitions, _waiting("a", "its sink does not answer"))
    assert _with_place(2, jobs) == ["a", "b", "c"]  # it is asked for its place when its sink answers
    no_place = places.wait(_definition("d"), jobs)
    jobs = _jobs(definitions, _waiting("c", no_place), _waiting("d", no_place))
    assert _with_place(2, jobs) == ["a", "b"]


@pytest.mark.parametrize(
    "end", [_state("a", FeedState.FAILED), _state("a", FeedState.SUCCEEDED), DropRecord(FeedId("a"), 1)]
)
def test_a_feed_that_has_ended_leaves_its_place_to_the_next(end: StateRecord | DropRecord) -> None:
    definitions = [_definition(each) for each in "abc"]
    running = [_state(each, FeedState.RUNNING) for each in "ab"]
    assert "c" not in _with_place(2, _jobs(definitions, *running))
    assert "c" in _with_place(2, _jobs(definitions, *running, end))


def test_a_feed_on_another_cluster_needs_two_clients_and_each_such_cluster_two_more() -> None:
    elsewhere = [_definition(each, _ELSEWHERE) for each in "abc"]
    assert _with_place(7, _jobs(elsewhere)) == ["a", "b"]
    assert _with_place(8, _jobs(elsewhere)) == ["a", "b", "c"]
    third = _definition("c", "kafka://a-third:9092")
    assert _with_place(9, _jobs([*elsewhere[:2], third])) == ["a", "b"]
    assert _with_place(10, _jobs([*elsewhere[:2], third])) == ["a", "b", "c"]


def test_a_feed_that_has_begun_is_on_its_stored_cluster_wherever_its_address_leads_now() -> None:
    definitions = [_definition(each) for each in "ab"]
    assert _with_place(4, _jobs(definitions, _state("a", FeedState.RUNNING, "an id"))) == ["a"]
    moved = [_definition("a", _ELSEWHERE), _definition("b")]
    assert _with_place(4, _jobs(moved, _state("a", FeedState.RUNNING))) == ["a", "b"]


def test_feeds_of_another_engine_take_no_place_here() -> None:
    jobs = _jobs([_definition("a", engine=Engine.SPARK), _definition("b"), _definition("c")])
    assert _with_place(2, jobs) == ["a", "b", "c"]


def test_a_feed_whose_sink_cannot_be_read_takes_no_place() -> None:
    jobs = _jobs([_definition("a", _UNREADABLE), _definition("b"), _definition("c")])
    assert _with_place(2, jobs) == ["a", "b", "c"]


@st.composite
def _histories(draw: st.DrawFn) -> tuple[int, JobsView]:
    """A number of clients, and feeds in any state and of any age."""
    definitions, states = [], []
    for number in draw(st.permutations(range(8))):
        name, is_elsewhere = f"feed-{number}", draw(st.booleans())
        definitions.append(_definition(name, _ELSEWHERE if is_elsewhere else _HOME))
        state = draw(st.sampled_from([None, *FeedState]))
        if state is FeedState.PENDING:
            states.append(_waiting(name, draw(st.sampled_from(["", "its sink does not answer"]))))
        elif state is not None:
            states.append(_state(name, state, "an id" if is_elsewhere else ""))
    return draw(st.integers(1, 20)), _jobs(definitions, *states)


def _needed(feeds: Sequence[FeedView]) -> int:
    elsewhere = [feed for feed in feeds if feed.defined is not None and feed.defined.sink_uri == _ELSEWHERE]
    return len(feeds) + len(elsewhere) + (2 if elsewhere else 0)


@given(_histories())
def test_feeds_that_begin_never_make_all_need_more_clients_than_there_are(
    history: tuple[int, JobsView],
) -> None:
    clients, jobs = history
    begun = {each: feed for each, feed in jobs.feeds() if feed.status in LIVE}
    new = {each: feed for each, feed in jobs.feeds() if feed.status is FeedState.PENDING}
    ready = [each for each, feed in new.items() if feed.state is None or not feed.state.error]
    having = set(_with_place(clients, jobs))
    assert having >= begun.keys()
    admitted = [each for each in ready if each in having]
    if admitted:
        assert _needed([*begun.values(), *(new[each] for each in admitted)]) <= clients
    for each in new.keys() - having:  # nobody waits while there is room for it and for all that come before
        before = [new[other] for other in ready if other < each]
        assert _needed([*begun.values(), *before, new[each]]) > clients
