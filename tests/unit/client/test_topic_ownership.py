"""What an output topic may be, and which sinks this version can write to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stack.kafka import KafkaBroker
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import (
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
    FeedTarget,
    TableName,
)
from tidegate.changefeed.definition.options import ExistingTopics, FeedOptions, OnOversize
from tidegate.changefeed.definition.oversize import DEFAULT_MAX_ROW_BYTES
from tidegate.changefeed.lifecycle.control import KnownTable
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, DropRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.changefeed.lifecycle.registration import Prepare
from tidegate.client.kafka.record_limit import limit_of_workers
from tidegate.client.own_topics import OwnTopics
from tidegate.client.topic_ownership import check_sink, check_topics, former_owner, wanted_topics
from tidegate.client.topic_preparation import prepare_topics
from tidegate.errors import FeedError
from tidegate.hlc import Timestamp
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.process.settings import Settings

_OTHER = activation([HandTable.of(104, "plain").descriptor], feed_id="other")
_ASIDE = FeedOptions(resolved_interval_ns=0, resolved_topic="markers")


def definition(sink_uri: str) -> FeedDefinition:
    return replace(_OTHER.definition, sink_uri=sink_uri)


def view_of_other(*, dropped: bool = False, options: FeedOptions = _OTHER.definition.options) -> JobsView:
    """The jobs topic with a running feed on the topic ``plain``."""
    view, feed = JobsView(), replace(_OTHER.definition, options=options)
    state = StateRecord(feed.id, feed.epoch, FeedState.RUNNING, _OTHER.start, _OTHER.targets)
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
        check_topics(_OTHER.definition, ["the-requests"], JobsView(), {"the-requests"})
    with pytest.raises(FeedError, match="two tables"):
        check_topics(_OTHER.definition, ["a", "a"], JobsView(), set())


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


class Prepared:
    """Feeds on two tables of a broker, prepared as the jobs agent does it."""

    def __init__(self, broker: KafkaBroker, prefix: str) -> None:
        self.broker = broker
        self.prefix = prefix
        self.admin = WorkerTopicAdmin(Settings(bootstrap_servers=broker.bootstrap))

    def create(self, name: str, partitions: int, **config: str) -> str:
        create_topic(self.broker.bootstrap, self.prefix + name, partitions, **config)
        return self.prefix + name

    def targets(self, **options: object) -> tuple[FeedTarget, ...]:
        chosen = FeedOptions(
            **{  # type: ignore[arg-type]
                "resolved_interval_ns": 0,
                "topic_prefix": self.prefix,
                "existing_topics": ExistingTopics.USE,
                **options,
            }
        )
        tables = [HandTable.of(104 + number, name).descriptor for number, name in enumerate("ab")]
        known = [KnownTable(TableName.of(table), table.id) for table in tables]
        step = Prepare(Timestamp(1), tuple(known), {})
        definition = activation(tables, chosen).definition
        limit = limit_of_workers(1_000_000)
        return prepare_topics(definition, step, self.admin, "", 2, limit, OwnTopics()).targets


@pytest.fixture
def prepared(broker: KafkaBroker, topic_prefix: str) -> Prepared:
    return Prepared(broker, topic_prefix)


@pytest.mark.broker
def test_the_topic_of_the_markers_is_created_with_as_many_partitions_as_the_greatest(
    prepared: Prepared,
) -> None:
    prepared.create("a", 5)
    topic = f"{prepared.prefix}markers"
    assert [target.partitions for target in prepared.targets(resolved_topic=topic)] == [5, 2]
    assert prepared.admin.partitions(topic) == 5
    config = prepared.admin.config(topic)
    assert (config["cleanup.policy"], config["retention.ms"]) == ("delete", "-1")


@pytest.mark.broker
def test_another_partition_count_of_the_markers_topic_is_refused(prepared: Prepared) -> None:
    topic = prepared.create("markers", 3)
    with pytest.raises(FeedError, match=f"{topic} has 3 partitions, and the feed needs 2 there"):
        prepared.targets(resolved_topic=topic)


@pytest.mark.broker
def test_compaction_is_refused_where_markers_are_and_taken_where_they_are_not(prepared: Prepared) -> None:
    prepared.create("a", 2, cleanup_policy="compact,delete")
    with pytest.raises(FeedError, match="send them to a topic of their own by the option resolved_topic"):
        prepared.targets()
    assert len(prepared.targets(resolved_topic=f"{prepared.prefix}markers")) == 2
    compacted = prepared.create("compacted", 2, cleanup_policy="compact")
    with pytest.raises(FeedError, match=f"resolved_topic {compacted} has cleanup.policy=compact"):
        prepared.targets(resolved_topic=compacted)


@pytest.mark.broker
def test_a_feed_that_leaves_large_rows_out_needs_room_for_all_others(prepared: Prepared) -> None:
    key_only = {"on_oversize": OnOversize.KEY_ONLY, "max_row_bytes": DEFAULT_MAX_ROW_BYTES}
    assert len(prepared.targets(**key_only)) == 2
    with pytest.raises(FeedError, match=r"rows may have 999001 bytes.* above max_record_bytes, 1000000"):
        prepared.targets(**key_only | {"max_row_bytes": DEFAULT_MAX_ROW_BYTES + 1})
    prepared.create("small-a", 1, max_message_bytes="1000999")
    with pytest.raises(FeedError, match=r"small-a has max.message.bytes=1000999, .* needs 1001000 there"):
        prepared.targets(**key_only, topic_prefix=f"{prepared.prefix}small-")


def test_topics_of_a_feed_that_was_moved_are_not_given_to_another() -> None:
    """Its former engine may be away, and come back with rows of it."""
    heir = activation([HandTable.of(104, "plain").descriptor], feed_id="heir").definition
    view = view_of_other()
    moved = DefinitionRecord(replace(_OTHER.definition, epoch=FeedEpoch(2), engine=Engine.SPARK))
    for record in (moved, DropRecord(_OTHER.definition.id, 0)):
        view.apply(record.key, record.to_bytes())
    assert former_owner(heir, ["plain"], view, lambda _: False) == "other"
    with pytest.raises(FeedError, match="feed other wrote to the topic plain and was moved between engines"):
        check_topics(heir, ["plain"], view, set())


def test_topics_of_a_feed_that_ended_in_a_backfill_are_not_given_to_another() -> None:
    """Nobody has a job that was cut off from its driver tell that it is over."""
    heir = activation([HandTable.of(104, "plain").descriptor], feed_id="heir").definition
    view = view_of_other()
    job = DefinitionRecord(replace(_OTHER.definition, engine=Engine.BACKFILL))
    for record in (job, DropRecord(_OTHER.definition.id, 0)):
        view.apply(record.key, record.to_bytes())
    with pytest.raises(
        FeedError, match="feed other wrote to the topic plain and was moved between engines or clusters, or"
    ):
        check_topics(heir, ["plain"], view, set())
