"""Tests what an output topic may be, and which sinks this version can write to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.client.feeds_of_one_topic import OTHER, definition
from tidegate.changefeed.definition.feed import (
    ENDED,
    LIVE,
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
)
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, DropRecord, JobRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.client.topic_ownership import (
    check_sink,
    check_topics,
    former_owner,
    prepared_topics,
    wanted_topics,
)
from tidegate.errors import FeedError

_ASIDE = FeedOptions(resolved_interval_ns=0, resolved_topic="markers")


def view_of_other(*, dropped: bool = False, options: FeedOptions = OTHER.definition.options) -> JobsView:
    """The jobs topic with a running feed on the topic ``plain``."""
    view, feed = JobsView(), replace(OTHER.definition, options=options)
    state = StateRecord(feed.id, feed.epoch, FeedState.RUNNING, OTHER.start, OTHER.targets)
    for record in (DefinitionRecord(feed), state):
        view.apply(record.key, record.to_bytes())
    if dropped:
        drop = DropRecord(feed.id, 0)
        view.apply(drop.key, drop.to_bytes())
    return view


@pytest.mark.parametrize("uri", ["kafka://127.0.0.1:9092", "kafka://elsewhere:9092?topic_prefix=x"])
def test_any_kafka_cluster_is_a_sink(uri: str) -> None:
    check_sink(definition(uri))


@pytest.mark.parametrize(
    "uri",
    [
        "kafka://user:hush@elsewhere:9092",
        "kafka://elsewhere?sasl_enabled=true&sasl_user=a&sasl_password=hush",
    ],
)
def test_a_login_of_its_own_is_refused_and_kept_secret(uri: str) -> None:
    with pytest.raises(FeedError) as caught:
        check_sink(definition(uri))
    assert "hush" not in str(caught.value)


def test_a_topic_belongs_to_one_feed_of_its_cluster() -> None:
    heir = activation([HandTable.of(104, "plain").descriptor], feed_id="heir").definition
    check_topics(heir, ["plain"], view_of_other(), set(), lambda _: False)
    dropped = view_of_other(dropped=True)
    assert former_owner(heir, ["plain"], dropped, lambda _: False, lambda _: False) is None


def test_a_topic_of_a_live_feed_is_taken() -> None:
    heir = activation([HandTable.of(104, "plain").descriptor], feed_id="heir").definition
    with pytest.raises(FeedError, match="feed other writes to the topic plain already"):
        check_topics(heir, ["plain"], view_of_other(), set())


def test_of_two_feeds_that_wait_for_their_start_the_earlier_has_the_topic() -> None:
    earlier, later = (replace(OTHER.definition, id=FeedId(feed_id)) for feed_id in ("1", "2"))
    view = JobsView()
    for record in map(DefinitionRecord, (earlier, later)):
        view.apply(record.key, record.to_bytes())
    check_topics(earlier, ["plain"], view, set())
    with pytest.raises(FeedError, match="feed 1 writes to the topic plain already or will soon"):
        check_topics(later, ["plain"], view, set())


def test_a_dropped_feed_frees_its_topic_once_every_partition_has_forgotten_it() -> None:
    heir = activation([HandTable.of(104, "plain").descriptor], feed_id="heir").definition
    view = view_of_other(dropped=True)
    check_topics(heir, ["plain"], view, set())
    assert former_owner(heir, ["plain"], view, lambda _: False) == "other"
    assert former_owner(heir, ["plain"], view, lambda _: True) is None
    assert former_owner(heir, ["elsewhere"], view, lambda _: False) is None


def test_a_live_feed_is_no_former_owner() -> None:
    heir = activation([HandTable.of(104, "plain").descriptor], feed_id="heir").definition
    assert former_owner(heir, ["plain"], view_of_other(), lambda _: False) is None


def test_a_feed_does_not_stand_in_its_own_way() -> None:
    check_topics(OTHER.definition, ["plain"], view_of_other(), set())


def test_topics_of_tidegate_and_shared_topics_are_refused() -> None:
    with pytest.raises(FeedError, match="tidegate's own"):
        check_topics(OTHER.definition, ["the-requests"], JobsView(), {"the-requests"})
    with pytest.raises(FeedError, match="two tables"):
        check_topics(OTHER.definition, ["a", "a"], JobsView(), set())


def aside(feed_id: str, table: str, **options: str) -> FeedDefinition:
    """A feed on one table with its markers on a topic of their own."""
    chosen = FeedOptions(**{"resolved_interval_ns": 0, "resolved_topic": "markers", **options})  # type: ignore[arg-type]
    return activation([HandTable.of(105, table).descriptor], chosen, feed_id=feed_id).definition


def test_the_topic_of_the_markers_is_one_of_the_feeds_topics() -> None:
    assert wanted_topics(aside("heir", "rows", topic_prefix="p_")) == ["p_rows", "markers"]


def test_the_topic_of_a_live_feeds_markers_is_taken() -> None:
    view = view_of_other(options=_ASIDE)
    for heir in (aside("heir", "elsewhere"), aside("heir", "markers", resolved_topic="m2")):
        with pytest.raises(FeedError, match="feed other writes to the topic markers already"):
            check_topics(heir, wanted_topics(heir), view, set())


def test_a_dropped_feed_frees_the_topic_of_its_markers_when_it_is_forgotten() -> None:
    heir, view = aside("heir", "elsewhere"), view_of_other(dropped=True, options=_ASIDE)
    assert former_owner(heir, wanted_topics(heir), view, lambda _: False) == "other"
    assert former_owner(heir, wanted_topics(heir), view, lambda _: True) is None


def test_of_two_feeds_that_wait_the_earlier_has_the_topic_of_the_markers() -> None:
    view = JobsView()
    for record in map(DefinitionRecord, (aside("1", "a"), aside("2", "b"))):
        view.apply(record.key, record.to_bytes())
    with pytest.raises(FeedError, match="feed 1 writes to the topic markers already or will soon"):
        check_topics(aside("2", "b"), ["b", "markers"], view, set())


@pytest.mark.parametrize(
    ("topic", "sentence"),
    [
        ("our-requests", "our-requests is a topic of tidegate's own; choose another resolved_topic"),
        ("app-jobs", "no feed may write to app-jobs: it has the name of the jobs topic of an application"),
        ("rows", "resolved_topic is rows, and the feed writes rows there"),
        ("a/b", "this resolved_topic is a text that Kafka does not take as the name of a topic"),
    ],
)
def test_a_topic_that_cannot_have_markers_is_refused(topic: str, sentence: str) -> None:
    feed = aside("feed", "rows", resolved_topic=topic)
    with pytest.raises(FeedError, match=sentence):
        check_topics(feed, wanted_topics(feed), JobsView(), {"our-requests"})


def test_topics_of_a_feed_that_was_moved_are_not_given_to_another() -> None:
    """Its former engine may be away, and come back with rows of it."""
    heir = activation([HandTable.of(104, "plain").descriptor], feed_id="heir").definition
    view = view_of_other()
    moved = DefinitionRecord(replace(OTHER.definition, epoch=FeedEpoch(2), engine=Engine.SPARK))
    for record in (moved, DropRecord(OTHER.definition.id, 0)):
        view.apply(record.key, record.to_bytes())
    assert former_owner(heir, ["plain"], view, lambda _: False) == "other"
    with pytest.raises(FeedError, match="feed other wrote to the topic plain and was moved between engines"):
        check_topics(heir, ["plain"], view, set())


def test_topics_of_a_feed_that_ended_in_a_backfill_are_not_given_to_another() -> None:
    """Nobody has a job that was cut off from its driver tell that it is over."""
    heir = activation([HandTable.of(104, "plain").descriptor], feed_id="heir").definition
    view = view_of_other()
    job = DefinitionRecord(replace(OTHER.definition, engine=Engine.BACKFILL))
    for record in (job, DropRecord(OTHER.definition.id, 0)):
        view.apply(record.key, record.to_bytes())
    with pytest.raises(
        FeedError, match="feed other wrote to the topic plain and was moved between engines or clusters, or"
    ):
        check_topics(heir, ["plain"], view, set())


def _records(
    feed_id: str, tables: str, epoch: int, engine: Engine, state: FeedState | None
) -> list[JobRecord]:
    """The records of a feed; without a state it is dropped."""
    feed = activation([HandTable.of(104, each).descriptor for each in tables], feed_id=feed_id)
    defined = replace(feed.definition, epoch=FeedEpoch(epoch), engine=engine)
    if state is None:
        return [DefinitionRecord(defined), DropRecord(feed.feed_id, 0)]
    begun = state is not FeedState.PENDING
    targets = feed.targets if begun else ()
    stored = StateRecord(feed.feed_id, FeedEpoch(1), state, feed.start if begun else None, targets)
    return [DefinitionRecord(defined), stored]


def _owner_of_all(feed_id: FeedId, topic: str, view: JobsView, sharing: set[str]) -> FeedId | None:
    """The owner of a topic as a look at all feeds finds it."""

    def has(other_id: FeedId, other: FeedView) -> bool:
        definition = other.definition
        if definition is None:
            return False
        outlives = definition.epoch > 1 or other.runs_on(Engine.BACKFILL)
        if other.status in LIVE or (outlives and other.targets):
            return topic in prepared_topics(other)
        waits = other.status is FeedState.PENDING and other_id < feed_id
        return waits and topic in wanted_topics(definition)

    others = ((each, feed) for each, feed in view.feeds() if each != feed_id and each in sharing)
    return max((each for each, feed in others if has(each, feed)), default=None)


@examples(100)
@given(
    st.lists(
        st.builds(
            _records,
            st.sampled_from("12345"),
            st.sampled_from(["a", "b", "ab"]),
            st.integers(1, 2),
            st.sampled_from(Engine),
            st.sampled_from([None, *FeedState]),
        ),
        max_size=8,
    ),
    st.sets(st.sampled_from("12345")),
)
def test_the_owner_of_a_topic_is_the_one_that_a_look_at_all_feeds_finds(
    feeds: list[list[JobRecord]], sharing: set[str]
) -> None:
    view, heir = JobsView(), activation([HandTable.of(104, "a").descriptor], feed_id="3").definition
    for record in (each for feed in feeds for each in feed):
        view.apply(record.key, record.to_bytes())
        shared = [view[FeedId(each)] for each in sharing]

        def shares(other: FeedView, shared: list[FeedView] = shared) -> bool:
            return any(other is each for each in shared)

        owner = _owner_of_all(heir.id, "a", view, sharing)
        if owner is None:
            check_topics(heir, ["a"], view, set(), shares)
        else:
            with pytest.raises(FeedError, match=f"^feed {owner} (writes|wrote) to the topic a"):
                check_topics(heir, ["a"], view, set(), shares)
        ended = [each for each, feed in view.feeds() if feed.status in ENDED and "a" in prepared_topics(feed)]
        former = next((each for each in ended if each != heir.id and each in sharing), None)
        found = former_owner(heir, ["a"], view, lambda _: False, shares)
        assert found == former
