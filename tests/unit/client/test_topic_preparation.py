"""An epoch of a feed begins on topics that take what it writes, on the cluster that was asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from stack.kafka import KafkaBroker
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.client.hand_kafka import Kafka, id_of
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import FeedDefinition, FeedTarget, TableName
from tidegate.changefeed.definition.options import ExistingTopics, FeedOptions, OnOversize
from tidegate.changefeed.definition.oversize import DEFAULT_MAX_ROW_BYTES
from tidegate.changefeed.lifecycle.control import KnownTable
from tidegate.changefeed.lifecycle.output_topic import OutputTopic, OutputTopics, TopicOrigin
from tidegate.changefeed.lifecycle.registration import Prepare
from tidegate.client.kafka.record_limit import LIMIT_OF_SPARK, RecordLimit, limit_of_workers
from tidegate.client.own_topics import OwnTopics
from tidegate.client.topic_preparation import prepare_topics, topics_to_announce
from tidegate.errors import FeedError, RetryError, SinkHeld
from tidegate.hlc import Timestamp
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.process.settings import Settings

_TABLES: Final = [HandTable.of(104, "a").descriptor, HandTable.of(105, "b").descriptor]
_FEED: Final = activation(_TABLES)
_NEW: Final = Prepare(Timestamp(5), tuple(KnownTable(TableName.of(t), t.id) for t in _TABLES), {})
_MOVED: Final = Prepare(Timestamp(5), (), {}, _FEED.targets, "c1")
_ACCEPTED: Final = replace(_MOVED, topics_anew=True)
_WIDE: Final = limit_of_workers(10_000_000)
#: The application has created both topics before.
_OWN: Final = OwnTopics(created=frozenset({("a", "id-of-a"), ("b", "id-of-b")}))


def _defined(max_row_bytes: int = 0) -> FeedDefinition:
    """A feed that writes all rows, or leaves those above this size out."""
    if not max_row_bytes:
        return _FEED.definition
    options = replace(_FEED.definition.options, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=max_row_bytes)
    return replace(_FEED.definition, options=options)


def _prepare(
    kafka: Any,
    step: Prepare,
    max_row_bytes: int = 0,
    limit: RecordLimit = _WIDE,
    cluster: str = "c1",
    own: OwnTopics = _OWN,
) -> Sequence[FeedTarget]:
    return prepare_topics(_defined(max_row_bytes), step, kafka, cluster, 3, limit, own).targets


@pytest.mark.parametrize("step", [_NEW, _ACCEPTED])
def test_topics_come_to_be_where_they_are_missing(step: Prepare) -> None:
    kafka = Kafka("c1")
    for _ in range(2):
        assert _prepare(kafka, step) == _FEED.targets
        assert kafka.topics == {"a": 3, "b": 3}


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [
        (limit_of_workers(5_000_999), r"above max_record_bytes, 5000999: raise max_record_bytes"),
        (LIMIT_OF_SPARK, r"above what the producers of a Spark query take, 1000000: run the feed on workers"),
    ],
)
@pytest.mark.parametrize(("step", "kind"), [(_NEW, FeedError), (_MOVED, SinkHeld), (_ACCEPTED, SinkHeld)])
def test_no_epoch_begins_with_producers_that_do_not_take_its_rows(
    step: Prepare, kind: type[Exception], limit: RecordLimit, sentence: str
) -> None:
    kafka = Kafka("c1")
    with pytest.raises(kind, match=sentence):
        _prepare(kafka, step, 5_000_000, limit)
    if step is _NEW:
        with pytest.raises(kind, match=sentence):
            topics_to_announce(_defined(5_000_000), step, kafka, "c1", limit, _OWN)  # type: ignore[arg-type]
    assert not kafka.topics
    assert _prepare(kafka, step, 5_000_000, limit_of_workers(5_001_000)) == _FEED.targets


@pytest.mark.parametrize(("step", "kind"), [(_NEW, FeedError), (_MOVED, SinkHeld), (_ACCEPTED, SinkHeld)])
@pytest.mark.parametrize("there", [True, False], ids=["there", "missing"])
def test_no_epoch_begins_on_a_topic_that_does_not_take_its_rows(
    step: Prepare, kind: type[Exception], *, there: bool
) -> None:
    """Also where it was created just now: brokers have a limit for that."""
    kafka = Kafka("c1", max_message_bytes=20_000)
    if there or step is _MOVED:
        kafka.topics = {"a": 3, "b": 3}
    with pytest.raises(kind, match=r"the topic a has max.message.bytes=20000, and the feed needs 5001000"):
        _prepare(kafka, step, 5_000_000)
    assert _prepare(kafka, step) == _FEED.targets, "a feed that fails by such a row begins"


def test_one_that_goes_on_where_its_topics_are_gone_is_told_so_by_its_rows() -> None:
    assert _prepare(Kafka("c1"), _MOVED, 5_000_000) == _FEED.targets


def test_what_a_feed_waits_for_on_the_engines_own_cluster_is_said_of_that() -> None:
    kafka = Kafka(max_message_bytes=20_000)
    kafka.topics = {"a": 3, "b": 3}
    with pytest.raises(SinkHeld, match="waits for its topics on the engine's own cluster: the topic a has"):
        _prepare(kafka, _MOVED, 5_000_000, cluster="")


@pytest.mark.parametrize("turns", range(1, 6))
@pytest.mark.parametrize(
    ("step", "kind", "sentence"),
    [
        (
            _NEW,
            FeedError,
            "has come to mean another Kafka cluster while the feed began: c1 .* and c2 does now",
        ),
        (_ACCEPTED, SinkHeld, "its topics are on the Kafka cluster c1, .* there is the cluster c2 now"),
        (_MOVED, SinkHeld, "its topics are on the Kafka cluster c1, .* there is the cluster c2 now"),
    ],
)
def test_an_address_that_comes_to_mean_another_cluster_has_no_epoch_begin(
    step: Prepare, kind: type[Exception], sentence: str, turns: int
) -> None:
    """The client that looks for a topic, creates it, or asks for its id asks right before, and once more
    after the last one. A new feed looks for both topics before it creates one."""
    kafka = Kafka(*["c1"] * (turns - 1), "c2")
    if step is _MOVED:
        kafka.topics = {"a": 3, "b": 3}
    with pytest.raises(kind, match=sentence):
        _prepare(kafka, step, 1_000)
    looked = 2 if step is _NEW else 0
    assert len(kafka.created_on) == (0 if step is _MOVED else min(2, max(0, turns - 1 - looked)))


@pytest.mark.parametrize("step", [_NEW, _ACCEPTED])
def test_nothing_is_created_while_nobody_says_which_cluster_it_is(step: Prepare) -> None:
    kafka = Kafka()
    with pytest.raises(RetryError):
        _prepare(kafka, step)
    assert not kafka.topics
    assert _prepare(kafka, step, cluster="") == _FEED.targets, "the engine's own cluster is not asked"


# ---- whose topics they are (docs/security.md#where-a-feed-may-write) ----

_NOBODYS: Final = OwnTopics()
_USE: Final = replace(_FEED.definition.options, existing_topics=ExistingTopics.USE)


def _begin(kafka: Any, own: OwnTopics, step: Prepare = _NEW, *, use: bool = False) -> OutputTopics:
    definition = replace(_FEED.definition, options=_USE) if use else _FEED.definition
    return prepare_topics(definition, step, kafka, "c1", 3, _WIDE, own).topics


def _topics(*origins: TopicOrigin) -> OutputTopics:
    """Return the topics named a and b."""
    return tuple(OutputTopic(id_of(name), origin) for name, origin in zip("ab", origins, strict=True))


def test_topics_that_a_feed_creates_are_its_applications() -> None:
    assert _begin(Kafka("c1"), _NOBODYS) == _topics(TopicOrigin.CREATED, TopicOrigin.CREATED)


@pytest.mark.parametrize("there", ["a", "b"])
def test_a_topic_that_somebody_else_created_is_refused_before_any_is_created(there: str) -> None:
    kafka = Kafka("c1")
    kafka.topics = {there: 3}
    sentence = (
        f"the topic {there} exists already, and no feed of this application has created it: choose another "
        "topic_prefix, .* existing_topics='use'"
    )
    with pytest.raises(FeedError, match=sentence):
        topics_to_announce(_FEED.definition, _NEW, kafka, "c1", _WIDE, _NOBODYS)  # type: ignore[arg-type]
    with pytest.raises(FeedError, match=sentence):
        _begin(kafka, _NOBODYS)
    assert kafka.topics == {there: 3}


def test_a_topic_that_somebody_else_created_is_taken_by_the_option_and_known_as_such() -> None:
    kafka = Kafka("c1")
    kafka.topics = {"a": 3}
    assert _begin(kafka, _NOBODYS, use=True) == _topics(TopicOrigin.EXISTING, TopicOrigin.CREATED)
    assert _begin(kafka, _OWN, use=True) == _topics(TopicOrigin.CREATED, TopicOrigin.CREATED)


def test_a_topic_that_the_application_created_and_somebody_made_anew_is_refused() -> None:
    kafka = Kafka("c1")
    kafka.topics, kafka.made_anew = {"a": 3}, {"a"}
    with pytest.raises(FeedError, match="the topic a exists already, and somebody else has made it anew"):
        _begin(kafka, _OWN)


def test_missing_topics_are_announced_once_and_taken_for_created_after_a_crash() -> None:
    kafka = Kafka("c1")

    def announced(own: OwnTopics) -> OutputTopics:
        return topics_to_announce(_FEED.definition, _NEW, kafka, "c1", _WIDE, own)  # type: ignore[arg-type]

    assert [topic.origin for topic in announced(_NOBODYS)] == [TopicOrigin.ANNOUNCED, TopicOrigin.ANNOUNCED]
    assert not kafka.topics
    own = OwnTopics(announced=frozenset("ab"))
    assert announced(own) == ()
    kafka.topics = {"a": 3}  # whoever created it died
    assert announced(own) == ()
    assert _begin(kafka, own) == _topics(TopicOrigin.CREATED, TopicOrigin.CREATED)


def test_an_announced_topic_with_records_is_somebody_elses() -> None:
    kafka = Kafka("c1")
    kafka.topics, kafka.written = {"a": 3}, {"a"}
    with pytest.raises(FeedError, match="no feed of this application has created it"):
        _begin(kafka, OwnTopics(announced=frozenset("ab")))


def test_a_feed_of_a_version_without_ids_has_the_topics_that_it_wrote_to() -> None:
    kafka = Kafka("c1")
    kafka.topics = {"a": 3, "b": 3}
    assert _begin(kafka, _NOBODYS, _MOVED) == _topics(TopicOrigin.CREATED, TopicOrigin.CREATED)
    assert _begin(kafka, OwnTopics(unidentified=frozenset("ab"))) == _topics(
        TopicOrigin.CREATED, TopicOrigin.CREATED
    )


def test_a_feed_that_goes_on_keeps_what_is_known_of_its_topics_also_of_one_that_is_gone() -> None:
    kafka = Kafka("c1")
    kafka.topics = {"b": 3}
    stored = _topics(TopicOrigin.EXISTING, TopicOrigin.CREATED)
    assert _begin(kafka, _NOBODYS, replace(_MOVED, topics=stored)) == stored


def test_a_feed_does_not_go_on_on_a_topic_that_was_made_anew() -> None:
    """Its rows are gone, and nothing brings them back: it fails by name, and does not wait."""
    kafka = Kafka("c1")
    kafka.topics, kafka.made_anew = {"a": 3, "b": 3}, {"b"}
    stored = _topics(TopicOrigin.EXISTING, TopicOrigin.CREATED)
    with pytest.raises(FeedError, match="the topic b was deleted and made anew: its id is id-of-b-anew"):
        _begin(kafka, _NOBODYS, replace(_MOVED, topics=stored))


def test_what_stands_on_an_accepted_cluster_is_taken_by_the_acceptance() -> None:
    kafka = Kafka("c1")
    kafka.topics = {"a": 3}
    assert _begin(kafka, _NOBODYS, _ACCEPTED) == _topics(TopicOrigin.EXISTING, TopicOrigin.CREATED)


def test_brokers_without_ids_have_topics_known_by_name() -> None:
    kafka = Kafka("c1")
    kafka.ids = lambda names: dict.fromkeys(names, "A" * 22)  # type: ignore[method-assign]
    assert {topic.id for topic in _begin(kafka, _NOBODYS)} == {""}
    assert _begin(kafka, OwnTopics(created=frozenset({("a", ""), ("b", "")})))


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
def test_a_topic_in_which_no_marker_finds_room_is_refused(prepared: Prepared) -> None:
    """Kafka could never end a transaction of markers there, so nobody could end the feed."""
    prepared.create("a", 2, max_message_bytes="77")
    with pytest.raises(
        FeedError, match=r"a has max.message.bytes=77, where markers find no room; raise it to 1000"
    ):
        prepared.targets()
    aside = prepared.create("aside", 2, max_message_bytes="999")
    with pytest.raises(FeedError, match=f"{aside} has max.message.bytes=999, where markers find no room"):
        prepared.targets(resolved_topic=aside, topic_prefix=f"{prepared.prefix}other-")


@pytest.mark.broker
def test_a_feed_that_leaves_large_rows_out_needs_room_for_all_others(prepared: Prepared) -> None:
    key_only = {"on_oversize": OnOversize.KEY_ONLY, "max_row_bytes": DEFAULT_MAX_ROW_BYTES}
    assert len(prepared.targets(**key_only)) == 2
    with pytest.raises(FeedError, match=r"rows may have 999001 bytes.* above max_record_bytes, 1000000"):
        prepared.targets(**key_only | {"max_row_bytes": DEFAULT_MAX_ROW_BYTES + 1})
    prepared.create("small-a", 1, max_message_bytes="1000999")
    with pytest.raises(FeedError, match=r"small-a has max.message.bytes=1000999, .* needs 1001000 there"):
        prepared.targets(**key_only, topic_prefix=f"{prepared.prefix}small-")
