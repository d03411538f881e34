"""Looks at all feeds of an application once: the jobs topic, the workers, and the ends of output topics."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.why.evidence import FeedQuestions
from tidegate.client.why.worker_status import worker_urls
from tidegate.errors import TidegateError
from tidegate.hlc import NANOS_PER_MS
from tidegate.serve.feeds.shown_feed import ShownFeed, explained_feed, listed_feed, most_behind_first
from tidegate.verify import TopicPartition

_LOGGER: Final = logging.getLogger("tidegate.serve")
_NOT_EXPLAINED: Final = "not explained: that failed by a defect, which the log of the server has"
_NOT_ASKED: Final = "not asked for: the server asks for {} feeds at most, those that are most behind"


@dataclass(frozen=True, slots=True)
class FeedsLook:
    """All feeds at one moment, in the order of their ids."""

    at_ms: int
    feeds: tuple[ShownFeed, ...]


@dataclass(frozen=True, slots=True)
class FeedLookup:
    """Looks at all feeds of an application, as often as ``look`` is called.

    Attributes:
        connection: to the workers' cluster.
        app_id: the application.
        urls: addresses of workers. If there are none, each look finds the addresses of the workers that have
            these ``data_dirs``.
        data_dirs: data directories of workers on this machine.
        most: how many feeds a look explains, those that are most behind first; the others are only listed.
    """

    connection: KafkaConnection
    app_id: str
    urls: Sequence[str] = ()
    data_dirs: Sequence[Path] = ()
    most: int = 50

    def look(self) -> FeedsLook:
        """Return the feeds as Kafka and the workers tell them now. This takes as long as the slowest answer.

        Raises ``InputError`` when the jobs topic does not exist, ``BrokerUnavailable`` when Kafka does not
        answer, ``StateError`` for records of a newer version.
        """
        view = Jobs(self.connection, self.app_id).view()
        urls, silent = (list(self.urls), []) if self.urls else worker_urls(self.data_dirs, self.app_id)
        questions = FeedQuestions(self.connection, self.app_id, urls, silent)
        order = most_behind_first((id_, feed) for id_, feed in view.feeds() if feed.defined is not None)
        asked = [(FeedId(id_), feed) for id_, feed in order[: self.most]]
        records = self._records(asked)
        now_ms = time.time_ns() // NANOS_PER_MS
        shown = [self._explained(questions, *each, now_ms, records.get(each[0])) for each in asked]
        rest = _NOT_ASKED.format(self.most)
        shown += [listed_feed(id_, feed, now_ms, rest) for id_, feed in order[self.most :]]
        return FeedsLook(now_ms, tuple(sorted(shown, key=lambda each: each.feed)))

    def _explained(
        self, questions: FeedQuestions, id_: FeedId, feed: FeedView, now_ms: int, records: int | None
    ) -> ShownFeed:
        try:
            return explained_feed(questions.gather(id_, feed, now_ms), records)
        except TidegateError as error:  # it concerns this feed alone: the others are explained
            return listed_feed(id_, feed, now_ms, str(error))
        except Exception:
            _LOGGER.exception("feed %s cannot be explained", id_)
            return listed_feed(id_, feed, now_ms, _NOT_EXPLAINED)

    def _records(self, feeds: Iterable[tuple[FeedId, FeedView]]) -> Mapping[FeedId, int]:
        """Return how many records the topics of each feed have had so far. Feeds whose cluster does not
        answer are left out. Each cluster is asked once.
        """
        places: dict[FeedId, list[TopicPartition]] = {}
        clusters: defaultdict[str, list[FeedId]] = defaultdict(list)
        connections: dict[str, KafkaConnection] = {}
        for id_, feed in feeds:
            try:
                topics = FeedTopics.of(id_, feed)
                connection = topics.connection(self.connection)
            except TidegateError:
                continue  # the feed has no topics yet, or it may not write to its sink
            places[id_] = [
                TopicPartition(target.topic, number)
                for target in topics.targets
                for number in range(target.partitions)
            ]
            connections[connection.bootstrap_servers] = connection
            clusters[connection.bootstrap_servers].append(id_)
        ends: dict[FeedId, int] = {}
        for servers, ids in clusters.items():
            ends |= _ends(connections[servers], {id_: places[id_] for id_ in ids})
        return ends


def _ends(
    connection: KafkaConnection, places: Mapping[FeedId, Sequence[TopicPartition]]
) -> dict[FeedId, int]:
    try:
        cluster = Cluster(connection)
        there = set(cluster.existing(place.topic for wanted in places.values() for place in wanted))
        known = {
            id_: wanted
            for id_, wanted in places.items()
            if wanted and all(place.topic in there for place in wanted)
        }
        every = {place for wanted in known.values() for place in wanted}
        ends = cluster.uncommitted_ends(every) if every else {}
    except TidegateError:
        return {}
    return {id_: sum(ends[place] for place in wanted) for id_, wanted in known.items()}
