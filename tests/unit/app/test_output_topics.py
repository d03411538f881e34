"""What an output topic may be, and which sinks this version can write to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.output_topics import check_sink, check_topics, former_owner
from app.settings import Settings
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.feed import FeedDefinition, FeedId, FeedState
from tidegate.changefeed.job_records import DefinitionRecord, DropRecord, StateRecord
from tidegate.changefeed.jobs import JobsView
from tidegate.errors import FeedError

_OTHER = activation([HandTable.of(104, "plain").descriptor], feed_id="other")


def definition(sink_uri: str) -> FeedDefinition:
    return replace(_OTHER.definition, sink_uri=sink_uri)


def view_of_other(*, dropped: bool = False) -> JobsView:
    """The jobs topic with a running feed on the topic ``plain``."""
    view, feed = JobsView(), _OTHER.definition
    state = StateRecord(feed.id, feed.epoch, FeedState.RUNNING, _OTHER.start, _OTHER.targets)
    for record in (DefinitionRecord(feed), state):
        view.apply(record.key, record.to_bytes())
    if dropped:
        drop = DropRecord(feed.id, 0)
        view.apply(drop.key, drop.to_bytes())
    return view


@pytest.mark.parametrize("uri", ["kafka://127.0.0.1:9092", "kafka://localhost:9092"])
def test_the_workers_own_cluster_is_a_sink(uri: str) -> None:
    check_sink(definition(uri), Settings(bootstrap_servers="127.0.0.1:9092,127.0.0.1:9093"))


def test_another_cluster_is_refused_by_name() -> None:
    with pytest.raises(FeedError, match="kafka://elsewhere is not the Kafka cluster of the worker"):
        check_sink(definition("kafka://elsewhere:9092"), Settings())


def test_a_refusal_keeps_secrets_to_itself() -> None:
    with pytest.raises(FeedError) as caught:
        check_sink(definition("kafka://user:hush@elsewhere:9092"), Settings())
    assert "hush" not in str(caught.value)


def test_a_topic_of_a_live_feed_is_taken() -> None:
    heir = activation([HandTable.of(104, "plain").descriptor], feed_id="heir").definition
    with pytest.raises(FeedError, match="feed other writes to the topic plain already"):
        check_topics(heir, ["plain"], view_of_other(), set())


def test_of_two_feeds_that_wait_for_their_start_the_earlier_has_the_topic() -> None:
    earlier, later = (replace(_OTHER.definition, id=FeedId(feed_id)) for feed_id in ("1", "2"))
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
    check_topics(_OTHER.definition, ["plain"], view_of_other(), set())


def test_topics_of_tidegate_and_shared_topics_are_refused() -> None:
    with pytest.raises(FeedError, match="tidegate's own"):
        check_topics(_OTHER.definition, ["app-jobs"], JobsView(), {"app-jobs"})
    with pytest.raises(FeedError, match="two tables"):
        check_topics(_OTHER.definition, ["a", "a"], JobsView(), set())
