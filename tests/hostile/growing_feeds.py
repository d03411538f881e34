"""Jobs topics of n feeds, each of which could be compared with all others. Each gives a look at all feeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.access.destinations import NOWHERE_ELSE
from tidegate.changefeed.definition.feed import ENDED, FIRST_EPOCH, FeedState
from tidegate.changefeed.definition.names import TOPIC_NAME_LIMIT
from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, JobRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.client.own_topics import OwnTopics
from tidegate.client.subject_ownership import new_subjects
from tidegate.client.topic_ownership import feed_fault, former_owner, wanted_topics
from tidegate.delivery.sink_clusters import SinkClusters

Work: TypeAlias = Callable[[], object]

_PLAIN: Final = FeedOptions(resolved_interval_ns=0)
_AVRO: Final = FeedOptions(format=Format.AVRO, confluent_schema_registry="http://registry:8081")
_TABLE: Final = HandTable.of(104, "orders").descriptor
_OWN: Final = "own:9092"


class GrowingFeeds(NamedTuple):
    """Feeds by a name: the maker of the work on n of them, and an n that can be measured."""

    name: str
    work: Callable[[int], Work]
    small: int = 250


class _Feeds:
    """Feeds as the jobs agent has them, or a query's driver, when they are looked at one after the other."""

    def __init__(self) -> None:
        self.view = JobsView()
        self._clusters = SinkClusters(_OWN)

    def add(self, feed: Activate, state: FeedState | None = None) -> None:
        definition = feed.definition
        self.apply(DefinitionRecord(definition))
        cluster = self._clusters.learn(definition.sink, definition.sink.hosts[0], _OWN)
        if state is not None:
            record = StateRecord(feed.feed_id, FIRST_EPOCH, state, feed.start, feed.targets)
            self.apply(replace(record, sink_cluster=cluster))

    def apply(self, record: JobRecord) -> None:
        self.view.apply(record.key, record.to_bytes())

    def look_at_all(self) -> int:
        """Ask what is asked for a feed that is to begin; those that cannot fail. Return how many do."""
        failed = 0
        for feed_id, feed in self.view.feeds():
            if feed.definition is None or feed.status in ENDED:
                continue
            definition, shares = feed.definition, partial(self._clusters.share, feed.definition)
            cluster_of = partial(self._clusters.cluster_of, definition.sink)
            if feed_fault(definition, cluster_of, self.view, set(), shares):
                failed += 1
                self.apply(StateRecord(feed_id, FIRST_EPOCH, FeedState.FAILED))
                continue
            former_owner(definition, wanted_topics(definition), self.view, lambda _: True, shares)
            OwnTopics.of(definition, self.view, shares)
            new_subjects(definition, self.view, NOWHERE_ELSE)
        return failed


def _feed(number: int, options: FeedOptions = _PLAIN, sink_uri: str = "kafka://sink:1") -> Activate:
    return activation([_TABLE], options, feed_id=f"{number:08d}", sink_uri=sink_uri)


def _on_topics_of_their_own(number: int, options: FeedOptions = _PLAIN) -> Activate:
    return _feed(number, replace(options, topic_prefix=f"p{number}_"), f"kafka://sink-{number}:1")


def _work(feeds: Iterable[tuple[Activate, FeedState | None]]) -> Work:
    jobs = _Feeds()
    for feed, state in feeds:
        jobs.add(feed, state)
    return jobs.look_at_all


def _side_by_side(state: FeedState | None) -> Callable[[int], Work]:
    return lambda count: _work((_on_topics_of_their_own(each), state) for each in range(count))


def _of_one_topic(count: int) -> Work:
    """The first one gets the topic, and the others fail, one after the other."""
    return _work((_feed(each), None) for each in range(count))


def _made_again_and_again(count: int) -> Work:
    """Each feed had the topic until it was dropped. As many others have topics of their own."""
    dropped = ((_feed(each), FeedState.DROPPED) for each in range(count))
    others = ((_on_topics_of_their_own(count + each), None) for each in range(count))
    return _work([*dropped, *others, (_feed(2 * count), None)])


def _of_one_subject(count: int) -> Work:
    """Topics of their own, and one subject, which the first feed gets: a long name is cut."""
    options = replace(_AVRO, avro_schema_prefix="x" * TOPIC_NAME_LIMIT)
    return _work((_on_topics_of_their_own(each, options), None) for each in range(count))


def _of_other_registries(count: int) -> Work:
    """Each feed has a registry of its own, and one subject there."""

    def feed(each: int) -> Activate:
        options = replace(_AVRO, confluent_schema_registry=f"http://registry-{each}:8081")
        return _on_topics_of_their_own(each, replace(options, avro_schema_prefix="x" * TOPIC_NAME_LIMIT))

    return _work((feed(each), None) for each in range(count))


def _with_many_tables(count: int) -> Work:
    """Few feeds of the same many tables, each on a cluster of its own."""
    tables = [HandTable.of(104 + each, f"t{each}").descriptor for each in range(count)]
    sinks = {f"{each:08d}": f"kafka://sink-{each}:1" for each in range(4)}
    feeds = [activation(tables, _AVRO, feed_id=feed_id, sink_uri=sink) for feed_id, sink in sinks.items()]
    return _work((feed, FeedState.RUNNING) for feed in feeds)


GROWING_FEEDS: Final = (
    GrowingFeeds("feeds that wait, each with a sink of its own", _side_by_side(None)),
    GrowingFeeds("feeds that run, each with a sink of its own", _side_by_side(FeedState.RUNNING)),
    GrowingFeeds("feeds that wait for one topic", _of_one_topic),
    GrowingFeeds("feeds that were made again and again", _made_again_and_again),
    GrowingFeeds("feeds that wait for one subject", _of_one_subject),
    GrowingFeeds("feeds with registries of their own", _of_other_registries),
    GrowingFeeds("feeds of many tables", _with_many_tables),
)
