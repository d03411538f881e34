"""The feed that a DataFrame shows: its tables with their topics and columns, as Kafka has them now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.changefeed.definition.feed import FeedId, FeedState, FeedTarget, feed_id
from tidegate.changefeed.encoding.envelopes.registry import shows_previous
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.environment import connection_of_environment
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.log_descriptors import versions_in_log
from tidegate.client.subscribe.feed_history import require_partitions
from tidegate.client.subscribe.readable_feed import subscribing_fault
from tidegate.errors import InputError
from tidegate.spark.datasource.source_options import SourceOptions
from tidegate.spark.warehouse.columns import Columns, columns_of
from tidegate.spark.warehouse.load_source import KafkaReading, loading_fault
from tidegate.subscribe.gate.feed_record import FeedPartition


@dataclass(frozen=True, slots=True)
class FrameTable:
    """A table: its full name, its topic with id and partition count, and its columns."""

    name: str
    topic: str
    topic_id: str
    partitions: int
    columns: Columns


@dataclass(frozen=True, slots=True)
class SourceFeed:
    """A feed that can be read, with those of its tables that were asked for.

    ``reading`` reads its topics. It travels to executors, with the secrets in it.
    """

    feed_id: str
    topics: FeedTopics
    tables: tuple[FrameTable, ...]
    reading: KafkaReading

    @property
    def tells_before(self) -> bool:
        """Whether each record has the row before."""
        return shows_previous(self.topics.options)

    @property
    def topic_ids(self) -> dict[str, str]:
        """The id of each topic."""
        return {table.topic: table.topic_id for table in self.tables}

    def places(self) -> list[FeedPartition]:
        """Return the partitions of all topics."""
        return [
            FeedPartition(each.topic, number) for each in self.tables for number in range(each.partitions)
        ]

    def table_of(self, topic: str) -> FrameTable:
        """Return the table of a topic."""
        return next(each for each in self.tables if each.topic == topic)


def find_feed(asked: SourceOptions) -> SourceFeed:
    """Return the feed that is asked for. Asks Kafka for the feeds, and reads the tables' descriptors.

    Raises ``InputError`` where no feed or several are meant, and for a feed that cannot be read.
    """
    connection = connection_of_environment(asked.bootstrap)
    app_id = asked.app_id or os.environ.get("TIDEGATE_APP_ID") or "tidegate"
    prefix = asked.topic_prefix or os.environ.get("TIDEGATE_TOPIC_PREFIX") or ""
    jobs = Jobs(connection, app_id)
    if asked.feed:
        chosen = feed_id(asked.feed)
        view = jobs.feed(chosen)
    else:
        chosen, view = _only_feed(list(jobs.view().feeds()), app_id)
    topics = FeedTopics.of(chosen, view)
    if fault := loading_fault(topics.options) or subscribing_fault(topics.options):
        raise InputError(f"Feed {chosen} cannot be read as a DataFrame: {fault}.")
    targets = _chosen_targets(topics.targets, asked.tables, chosen)
    reading = KafkaReading(topics.connection(connection), topics.options)
    return SourceFeed(chosen, topics, tuple(_tables(targets, reading, connection, prefix)), reading)


def _only_feed(feeds: Sequence[tuple[FeedId, FeedView]], app_id: str) -> tuple[FeedId, FeedView]:
    running = [
        each for each in feeds if each[1].status in (FeedState.RUNNING, FeedState.PENDING) and each[1].targets
    ]
    if len(running) == 1:
        return running[0]
    if not running:
        raise InputError(
            f"The application {app_id} has no feed that runs: name an ended one by the option feed."
        )
    ids = ", ".join(id_ for id_, _ in running)
    raise InputError(f"The application {app_id} has several feeds: {ids}. Name one by the option feed.")


def _chosen_targets(
    targets: Sequence[FeedTarget], names: Sequence[str], feed: FeedId
) -> Sequence[FeedTarget]:
    if not names:
        return targets
    found = []
    for name in names:
        fitting = [each for each in targets if name in (str(each.table), each.table.name, each.topic)]
        if len(fitting) != 1:
            have = ", ".join(str(each.table) for each in targets)
            count = "several tables" if fitting else "no table"
            raise InputError(f"Feed {feed} has {count} {name}: it has {have}.")
        found += fitting
    return list(dict.fromkeys(found))


def _tables(
    targets: Sequence[FeedTarget], reading: KafkaReading, connection: KafkaConnection, prefix: str
) -> Iterator[FrameTable]:
    log = f"{prefix}raftlog"
    topics = [each.topic for each in targets]
    counts = Cluster(reading.connection).partition_counts(topics)
    ids = open_admin(reading.connection, reading.connection.timeout_s).ids(topics)
    versions = versions_in_log(connection, log)
    for target in targets:
        require_partitions(target, counts[target.topic])
        if target.table_id not in versions:
            raise InputError(
                f"The log {log} has no descriptor of {target.table} any more, so the types of its columns "
                "are not known: is the option topic_prefix that of the store's log?"
            )
        yield FrameTable(
            str(target.table),
            target.topic,
            ids[target.topic],
            target.partitions,
            columns_of(versions[target.table_id], reading.options),
        )
