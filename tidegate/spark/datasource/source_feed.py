"""The feed that a DataFrame shows: its tables with their topics and columns, as Kafka has them now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidegate.changefeed.definition.feed import FeedId, FeedState, FeedTarget, feed_id
from tidegate.changefeed.encoding.envelopes.registry import shows_previous
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.jobs import Jobs, known_feed
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.environment import connection_of_environment
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.subscribe.feed_history import require_partitions
from tidegate.client.subscribe.feed_term import ALONE, FeedTerm, term_of
from tidegate.client.subscribe.readable_feed import subscribing_fault
from tidegate.client.subscribe.stable_columns import require_stable
from tidegate.client.table_descriptors import versions_in_log
from tidegate.errors import InputError
from tidegate.hlc import ZERO, Timestamp
from tidegate.spark.datasource.source_options import SourceOptions
from tidegate.spark.warehouse.columns import Columns, columns_of
from tidegate.spark.warehouse.load_source import KafkaReading, loading_fault, versions_of_rows
from tidegate.subscribe.gate.feed_record import FeedPartition

#: How to get a column as text, if its values have no other form; ``column`` is its name.
AS_TEXT: Final = "read the column as text, by the option as_text='{column}'"
_READ_ANEW: Final = "Create a new feed WITH initial_scan on topics of its own, and read that"


@dataclass(frozen=True, slots=True)
class FrameTable:
    """A table: its full name, its topic with id and partition count, and its columns.

    ``as_text`` has the names in the option ``as_text`` that mean columns of this table. ``known_from`` is
    when the first known version of the table began: the feed's rows may have it, and the log still has its
    descriptor.
    """

    name: str
    topic: str
    topic_id: str
    partitions: int
    columns: Columns
    as_text: frozenset[str] = frozenset()
    known_from: Timestamp = ZERO


@dataclass(frozen=True, slots=True)
class SourceFeed:
    """A feed that can be read, with those of its tables that were asked for.

    ``reading`` reads its topics. It travels to executors, with the secrets in it. ``term`` says which of the
    topics' records are the feed's. ``workers`` reaches the cluster of the application ``app_id``;
    without it the feed's state is not asked for again.
    """

    feed_id: FeedId
    topics: FeedTopics
    tables: tuple[FrameTable, ...]
    reading: KafkaReading
    term: FeedTerm = ALONE
    workers: KafkaConnection | None = None
    app_id: str = ""

    def for_tasks(self) -> SourceFeed:
        """Return the feed without the login of the workers' cluster, which tasks do not need."""
        return replace(self, workers=None)

    def term_now(self) -> FeedTerm:
        """Return the term as it is now: the feed may have ended.

        Raises ``BrokerUnavailable`` if Kafka does not answer.
        """
        if self.workers is None:
            return self.term
        return term_of(Jobs(self.workers, self.app_id).view(), self.feed_id)

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
    jobs = Jobs(connection, app_id).view()
    if asked.feed:
        chosen = feed_id(asked.feed)
        view = known_feed(jobs, chosen)
    else:
        chosen, view = _only_feed(list(jobs.feeds()), app_id)
    topics = FeedTopics.of(chosen, view)
    if fault := loading_fault(topics.options) or subscribing_fault(topics.options):
        raise InputError(f"Feed {chosen} cannot be read as a DataFrame: {fault}.")
    targets = _chosen_targets(topics.targets, asked.tables, chosen)
    reading = KafkaReading(topics.connection(connection), topics.options)
    term = term_of(jobs, chosen)
    tables = tuple(_tables(topics, term, targets, reading, connection, prefix, asked.as_text))
    _require_columns(asked.as_text, tables)
    return SourceFeed(chosen, topics, tables, reading, term, connection, app_id)


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
        fitting = [each for each in targets if name in _names_of(each)]
        if len(fitting) != 1:
            have = ", ".join(str(each.table) for each in targets)
            count = "several tables" if fitting else "no table"
            raise InputError(f"Feed {feed} has {count} {name}: it has {have}.")
        found += fitting
    return list(dict.fromkeys(found))


def _names_of(target: FeedTarget) -> tuple[str, str, str]:
    """Return the names by which a user may name a table."""
    return str(target.table), target.table.name, target.topic


def _require_columns(as_text: Sequence[str], tables: Sequence[FrameTable]) -> None:
    """Raise ``InputError`` for a name of ``as_text`` that no table has."""
    texts = {name for table in tables for name in table.as_text}
    if unknown := [name for name in as_text if name not in texts]:
        names = ", ".join(table.name for table in tables)
        raise InputError(f"The option as_text names {unknown[0]}, which is no column of {names}.")


def _tables(
    feed: FeedTopics,
    term: FeedTerm,
    targets: Sequence[FeedTarget],
    reading: KafkaReading,
    connection: KafkaConnection,
    prefix: str,
    as_text: Sequence[str],
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
        asked = {name: _column_of(name, target) for name in as_text}
        valid = versions_of_rows(versions[target.table_id], feed, term)
        require_stable(target.table, valid, feed.options, _READ_ANEW)
        columns = columns_of(valid, feed.options, {*asked.values()}, AS_TEXT)
        yield FrameTable(
            str(target.table),
            target.topic,
            ids[target.topic],
            target.partitions,
            columns,
            frozenset(name for name, column in asked.items() if column in columns.names),
            valid[0].modified,
        )


def _column_of(name: str, target: FeedTarget) -> str:
    """Return the column of a table that a name of ``as_text`` means, else the whole name."""
    table, dot, column = name.rpartition(".")
    return column if dot and table in _names_of(target) else name
