"""Tests which feeds have a place in a process that can have a bounded number of Kafka clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FIRST_EPOCH, LIVE, Engine, FeedDefinition, FeedId, FeedState
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, DropRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.delivery.feed_places import FeedPlaces
from tidegate.hlc import Timestamp

_OWN = "127.0.0.1:9092"
_HOME, _ELSEWHERE, _UNREADABLE = f"kafka://{_OWN}", "kafka://there:9092", "kafka://no port:x"
_FEED = activation([HandTable.of(104, "plain").descriptor], sink_uri=_HOME)


def _definition(feed_id: str, sink_uri: str = _HOME, engine: Engine = Engine.WORKERS) -> FeedDefinition:
    return replace(_FEED.definition, id=FeedId(feed_id), sink_uri=sink_uri, engine=engine)


def _state(feed_id: str, state: FeedState, cluster: str = "") -> StateRecord:
    return StateRecord(FeedId(feed_id), FIRST_EPOCH, state, Timestamp(1), _FEED.targets, sink_cluster=cluster)


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
        "it waits for a place: the markers of feeds may take 2 Kafka clients of a process, and feeds that "
        "run, or were created before it, need all of them. It begins once enough of them have ended "
        "(`tidegate feed drop`). Or drop this feed, and create it in another application, with another "
        "TIDEGATE_APP_ID"
    )


def test_a_feed_that_runs_keeps_its_place() -> None:
    """Such as one that was moved here while an older feed of this engine waits."""
    jobs = _jobs([_definition(each) for each in "abc"], _state("c", FeedState.RUNNING))
    assert _with_place(2, jobs) == ["a", "c"]


@pytest.mark.parametrize(
    "end", [_state("a", FeedState.FAILED), _state("a", FeedState.SUCCEEDED), DropRecord(FeedId("a"), 1)]
)
def test_a_feed_that_has_ended_leaves_its_place_to_the_next(end: StateRecord | DropRecord) -> None:
    definitions = [_definition(each) for each in "abc"]
    running = [_state(each, FeedState.RUNNING) for each in "ab"]
    assert "c" not in _with_place(2, _jobs(definitions, *running))
    assert "c" in _with_place(2, _jobs(definitions, *running, end))


def test_a_feed_on_another_cluster_takes_two_clients_wherever_its_address_leads_now() -> None:
    begun = _state("a", FeedState.RUNNING, cluster="an id")
    assert _with_place(3, _jobs([_definition(each) for each in "abc"], begun)) == ["a", "b"]
    at_home = _state("a", FeedState.RUNNING)
    assert _with_place(3, _jobs([_definition("a", _ELSEWHERE), *map(_definition, "bc")], at_home)) == [*"abc"]
    assert _with_place(3, _jobs([_definition("a", _ELSEWHERE), *map(_definition, "bc")])) == [*"ab"]


def test_feeds_of_another_engine_take_no_place_here() -> None:
    jobs = _jobs([_definition("a", engine=Engine.SPARK), _definition("b"), _definition("c")])
    assert _with_place(2, jobs) == ["a", "b", "c"]


def test_a_feed_whose_sink_cannot_be_read_takes_no_place() -> None:
    jobs = _jobs([_definition("a", _UNREADABLE), _definition("b"), _definition("c")])
    assert _with_place(2, jobs) == ["a", "b", "c"]


@st.composite
def _histories(draw: st.DrawFn) -> tuple[int, JobsView]:
    """A number of clients, and feeds in any state: those that run need no more clients than there are."""
    clients, used = draw(st.integers(1, 6)), 0
    definitions, states = [], []
    for number in draw(st.permutations(range(8))):
        is_elsewhere, state = draw(st.booleans()), draw(st.sampled_from([None, *FeedState]))
        needs = 2 if is_elsewhere else 1
        if state in LIVE and used + needs > clients:
            state = FeedState.PENDING
        used += needs if state in LIVE else 0
        definitions.append(_definition(f"feed-{number}", _ELSEWHERE if is_elsewhere else _HOME))
        if state is not None:
            cluster = "an id" if is_elsewhere else ""
            states.append(_state(f"feed-{number}", state, cluster))
    return clients, _jobs(definitions, *states)


@given(_histories())
def test_feeds_with_a_place_never_need_more_clients_than_there_are(history: tuple[int, JobsView]) -> None:
    clients, jobs = history
    runs_or_waits = {each: feed for each, feed in jobs.feeds() if feed.status in {*LIVE, FeedState.PENDING}}
    having = [each for each in _with_place(clients, jobs) if each in runs_or_waits]
    needs = {
        each: 2 if feed.definition is not None and feed.definition.sink_uri == _ELSEWHERE else 1
        for each, feed in runs_or_waits.items()
    }
    assert sum(needs[each] for each in having) <= clients
    waiting = sorted(runs_or_waits.keys() - set(having))
    if waiting:  # nobody waits while there is room for it and for all that come before
        before = [each for each in runs_or_waits if each < waiting[0]]
        running = [each for each, feed in runs_or_waits.items() if feed.status in LIVE]
        assert sum(needs[each] for each in {*before, *running, waiting[0]}) > clients
