"""No feed writes to a topic that an application of tidegate keeps for itself, nor to Kafka's own.

Every topic of another application is asked for as that of a table and as that of the markers. It is refused
by its name where the statement is read and where the engines look at a feed, and again where they prepare its
topics: there the topic of requests is known by the log beside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.client.hand_kafka import Kafka
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId, FeedState, TableName
from tidegate.changefeed.definition.internal_topics import internal_kind
from tidegate.changefeed.lifecycle.control import Active, KnownTable
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.changefeed.lifecycle.registration import Prepare, Settled, StoreState, next_step
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.kafka.record_limit import limit_of_workers
from tidegate.client.kafka.topics import Topics
from tidegate.client.own_topics import OwnTopics
from tidegate.client.topic_ownership import check_topics, wanted_topics
from tidegate.client.topic_preparation import prepare_topics
from tidegate.errors import FeedError, SinkHeld, StatementError
from tidegate.hlc import Timestamp

_LIMIT: Final = limit_of_workers(1_000_000)
_OTHER: Final = Topics("billing", "shop.")
_NAMES: Final = st.text(
    st.sampled_from("abcXYZ019._-"), min_size=1, max_size=100
)  # as the setting app_id takes them


def all_topics(topics: Topics) -> list[str]:
    """Every topic of an application and its source."""
    return sorted(topics.internal)


def feeds_on(topic: str) -> list[FeedDefinition]:
    """A feed with its rows there, one with a prefix that makes it so, and one with its markers there."""
    whole, cut = _feed_of(topic), _feed_of(topic[len(topic) // 2 :])
    prefixed = replace(cut, options=replace(cut.options, topic_prefix=topic[: len(topic) // 2]))
    rows = _feed_of("rows")
    aside = replace(rows, options=replace(rows.options, resolved_interval_ns=0, resolved_topic=topic))
    return [feed for feed in (whole, prefixed, aside) if topic in wanted_topics(feed)]


def _feed_of(table: str) -> FeedDefinition:
    return activation([HandTable.of(104, table).descriptor]).definition


def prepare(feed: FeedDefinition, kafka: Kafka, *, again: bool) -> None:
    """Have the topics of a new feed, or of one that comes to another cluster."""
    known = tuple(KnownTable(table, 104) for table in feed.tables)
    step = Prepare(Timestamp(5), known, {})
    if again:
        targets = activation([HandTable.of(104, feed.tables[0].name).descriptor], feed.options).targets
        step = Prepare(Timestamp(5), (), {}, targets, "c1", topics_anew=True)
    prepare_topics(feed, step, kafka, "c1", 3, _LIMIT, OwnTopics())  # type: ignore[arg-type]


def assert_nothing_writes_to(topic: str, kafka: Kafka) -> None:
    before = dict(kafka.topics)
    feeds = feeds_on(topic)
    assert feeds
    for feed in feeds:
        if internal_kind(topic):
            with pytest.raises(FeedError, match="no feed may write to"):
                check_topics(feed, wanted_topics(feed), JobsView(), set())
        for again in (False, True):
            with pytest.raises((FeedError, SinkHeld), match="no feed may write to"):
                prepare(feed, kafka, again=again)
    assert kafka.topics == before, "nothing is created for a feed that is refused"


@pytest.mark.parametrize("topic", [*all_topics(_OTHER), "__consumer_offsets", "__transaction_state"])
def test_no_feed_writes_to_a_topic_of_another_application(topic: str) -> None:
    kafka = Kafka("c1")
    kafka.topics = dict.fromkeys(all_topics(_OTHER), 3)
    assert_nothing_writes_to(topic, kafka)


@given(app_id=_NAMES, prefix=st.just("") | _NAMES, data=st.data())
def test_whatever_the_other_application_and_its_source_are_called(
    app_id: str, prefix: str, data: st.DataObject
) -> None:
    topics = Topics(app_id, prefix)
    kafka = Kafka("c1")
    kafka.topics = dict.fromkeys(all_topics(topics), 3)
    assert_nothing_writes_to(data.draw(st.sampled_from(all_topics(topics))), kafka)


@pytest.mark.parametrize("topic", sorted({*all_topics(_OTHER), "__consumer_offsets"} - {"shop.requests"}))
def test_a_statement_that_names_one_is_refused_where_it_does(topic: str) -> None:
    table = f"CREATE CHANGEFEED FOR TABLE \"{topic}\" INTO 'kafka://b:9092'"
    aside = f"CREATE CHANGEFEED FOR TABLE a INTO 'kafka://b:9092' WITH resolved, resolved_topic='{topic}'"
    prefixed = (
        f"CREATE CHANGEFEED FOR TABLE \"{topic[8:]}\" INTO 'kafka://b:9092' WITH topic_prefix='{topic[:8]}'"
    )
    for statement in (table, aside, prefixed):
        with pytest.raises(StatementError, match=f"no feed may write to {topic}: it has the name of"):
            define_feed(statement, FeedId("f"), 0)


def test_a_table_of_requests_has_its_topic_where_no_log_stands_beside_it() -> None:
    """The name alone is that of the source's topic, with any prefix it may be a table's."""
    feed = _feed_of("requests")
    with pytest.raises(FeedError, match="no feed may write to requests"):
        check_topics(feed, wanted_topics(feed), JobsView(), set())
    kafka = Kafka("c1")
    prefixed = replace(feed, options=replace(feed.options, topic_prefix="cdc."))
    check_topics(prefixed, wanted_topics(prefixed), JobsView(), set())
    prepare(prefixed, kafka, again=False)
    assert set(kafka.topics) == {"cdc.requests"}


@pytest.mark.parametrize(
    "topic", ["jobs", "control", "_orders", "orders-jobs2", "raftlogs", "changelog", "a.b"]
)
def test_other_names_are_for_feeds(topic: str) -> None:
    feed = replace(_feed_of("a"), tables=(TableName(topic),))
    check_topics(feed, wanted_topics(feed), JobsView(), set())


@pytest.mark.parametrize("topic", sorted({*all_topics(_OTHER), "__consumer_offsets"} - {"shop.requests"}))
@pytest.mark.parametrize("aside", [False, True])
def test_a_stored_state_that_names_one_is_not_acted_on(topic: str, *, aside: bool) -> None:
    """Whoever may write to the jobs topic can store that a feed has begun there."""
    feed = _feed_of("rows")
    targets = activation([HandTable.of(104, "rows").descriptor]).targets
    if aside:
        feed = replace(feed, options=replace(feed.options, resolved_interval_ns=0, resolved_topic=topic))
    else:
        targets = (replace(targets[0], topic=topic),)
    jobs = JobsView()
    for status in (FeedState.STARTING, FeedState.RUNNING):
        state = StateRecord(feed.id, feed.epoch, status, Timestamp(5), targets, {0: 0})
        for record in (DefinitionRecord(feed), state):
            jobs.apply(record.key, record.to_bytes())
        step = next_step(jobs[feed.id], {}, 1)
        assert isinstance(step, StoreState)
        assert step.record.state is FeedState.FAILED
        assert f"no feed may write to {topic}" in step.record.error
    emits = Active(feed.id, feed.epoch, 0)
    assert next_step(jobs[feed.id], {0: emits}, 1) == Settled(), "a feed of an older version goes on"
