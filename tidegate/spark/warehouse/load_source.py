"""The feeds that are loaded, as an application's jobs topic, the log and the clusters of sinks describe
them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.client.feed_topics import FeedTopics, row_decoder
from tidegate.client.jobs import Jobs, known_feed
from tidegate.client.kafka.cluster import Bounds, Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.subscribe.feed_history import require_beginning
from tidegate.client.subscribe.feed_term import FeedTerm, term_of
from tidegate.client.subscribe.readable_feed import reading_fault
from tidegate.client.subscribe.stable_columns import require_stable, versions_since
from tidegate.client.table_descriptors import LogDescriptors
from tidegate.errors import InputError, StateError
from tidegate.rows.descriptor import TableDescriptor
from tidegate.spark.warehouse.columns import Columns, columns_of
from tidegate.spark.warehouse.load_pass import SourceTable
from tidegate.verify import TopicPartition, TopicRecord

_LOAD_ANEW: Final = (
    "Create a new feed WITH initial_scan on topics of its own, and load that into another directory"
)


@dataclass(frozen=True, slots=True)
class KafkaReading:
    """Reads a feed's topics by ``connection``.

    It travels to executors, with the secrets in it and in ``options``.
    """

    connection: KafkaConnection
    options: FeedOptions

    def decoder(self) -> RecordDecoder:
        """See ``TopicReading``."""
        return row_decoder(self.options, self.connection.destinations)

    def records(self, place: TopicPartition, start: int, end: int) -> Iterator[TopicRecord]:
        """See ``TopicReading``."""
        if start >= end:
            return
        with PartitionReader(self.connection, {place: start}) as reader:
            yield from reader.read_to({place: end})


class FeedsSource:
    """The feeds ``feed_ids`` of the application ``app_id``.

    ``connection`` reaches the cluster of its workers. ``topics`` are those of their topics that are loaded;
    empty stands for all. ``log`` is the store's log topic, which has the tables' descriptors. ``as_text``
    names columns, as ``<topic>.<column>``, to load as text.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        app_id: str,
        log: str,
        feed_ids: Sequence[FeedId],
        topics: Collection[str] = (),
        as_text: Collection[str] = (),
    ) -> None:
        self._connection = connection
        self._log = log
        self._feed_ids = tuple(dict.fromkeys(feed_ids))
        self._topics = frozenset(topics)
        self._as_text = as_text
        self._jobs = Jobs(connection, app_id)
        self._descriptors = LogDescriptors(connection, log)

    def tables(self) -> Sequence[SourceTable]:
        """See ``LoadSource``."""
        jobs = self._jobs.view()
        found: list[SourceTable] = []
        for feed_id in self._feed_ids:
            feed = FeedTopics.of(feed_id, known_feed(jobs, feed_id))
            found += self._tables_of(feed_id, feed, term_of(jobs, feed_id))
        missing = sorted(self._topics - {table.topic for table in found})
        if missing:
            raise InputError(f"No feed that is loaded writes {', '.join(missing)}.")
        for topic, count in Counter(table.topic for table in found).items():
            if count > 1:
                raise InputError(
                    f"{count} of the feeds write to a topic {topic}, on clusters of their own: load them into"
                    " directories of their own."
                )
        return sorted(found)

    def bounds(self, tables: Sequence[SourceTable]) -> Mapping[TopicPartition, Bounds]:
        """See ``LoadSource``."""
        by_connection: dict[str, list[TopicPartition]] = defaultdict(list)
        connections: dict[str, KafkaConnection] = {}
        for table in tables:
            reading = table.reading
            assert isinstance(reading, KafkaReading)
            servers = reading.connection.bootstrap_servers
            connections[servers] = reading.connection
            by_connection[servers] += [
                TopicPartition(table.topic, number) for number in range(table.partitions)
            ]
        bounds: dict[TopicPartition, Bounds] = {}
        for servers, places in by_connection.items():
            bounds |= Cluster(connections[servers]).bounds(places)
        return bounds

    def columns(self, topics: Sequence[str], loaded: Mapping[str, Columns]) -> Mapping[str, Columns]:
        """See ``LoadSource``. Reads one partition of the log, since every partition has all descriptors.

        If the log has no descriptor of a loaded table any more, its columns count as unchanged.
        """
        versions = self._descriptors.look()
        found: dict[str, Columns] = {}
        unknown = set(self._as_text)
        jobs = self._jobs.view()
        for feed_id in self._feed_ids:
            feed = FeedTopics.of(feed_id, known_feed(jobs, feed_id))
            term = term_of(jobs, feed_id)
            for target in feed.targets:
                topic = target.topic
                if topic not in topics:
                    continue
                if target.table_id in versions:
                    valid = versions_of_rows(versions[target.table_id], feed, term)
                    require_stable(target.table, valid, feed.options, _LOAD_ANEW)
                    found[topic] = columns_of(valid, feed.options, self._texts(topic, loaded.get(topic)))
                elif topic in loaded:
                    found[topic] = loaded[topic]
                else:
                    raise InputError(
                        f"The log {self._log} has no descriptor of {target.table} any more, so the types of"
                        " its columns are not known: is --topic-prefix that of the store's log?"
                    )
                unknown -= {f"{topic}.{name}" for name in found[topic].names}
        if unknown:
            raise InputError(
                f"--as-text names {min(unknown)}, which is no column of a topic that is loaded: it is"
                " <topic>.<column>."
            )
        return found

    def _texts(self, topic: str, loaded: Columns | None) -> frozenset[str]:
        """Return the columns of a topic that are text: those that are loaded so, and new ones that are
        asked for.
        """
        start = f"{topic}."
        asked = {name.removeprefix(start) for name in self._as_text if name.startswith(start)}
        if loaded is None:
            return frozenset(asked)
        types = {column.name: column.type for column in loaded.columns}
        for name in sorted(asked - loaded.texts):
            if name in types:
                raise StateError(
                    f"--as-text names {topic}.{name}, which was loaded as {types[name]} so far: one table"
                    " cannot hold both. Load without that, or into another directory."
                )
        return loaded.texts | asked

    def _tables_of(self, feed_id: FeedId, feed: FeedTopics, term: FeedTerm) -> Iterator[SourceTable]:
        fault = loading_fault(feed.options)
        if fault:
            raise InputError(f"Feed {feed_id} cannot be loaded: {fault}.")
        targets = [each for each in feed.targets if not self._topics or each.topic in self._topics]
        if not targets:
            return
        if feed.options.initial_scan is not InitialScan.NO:
            require_beginning(feed, "Keep the tables that were loaded from the former cluster")
        connection = feed.connection(self._connection)
        ids = open_admin(connection, connection.timeout_s).ids([target.topic for target in targets])
        counts = Cluster(connection).partition_counts([target.topic for target in targets])
        complete = feed.succeeded and feed.options.initial_scan is InitialScan.ONLY
        for target in targets:
            yield SourceTable(
                target.topic,
                ids[target.topic],
                counts[target.topic],
                feed_id,
                feed.options.format,
                feed.changes_from,
                complete,
                KafkaReading(connection, feed.options),
                term,
                feed.options.initial_scan is not InitialScan.NO,
            )


def versions_of_rows(
    versions: Sequence[TableDescriptor], feed: FeedTopics, term: FeedTerm
) -> Sequence[TableDescriptor]:
    """Return the versions of a table that rows of the feed may have, from its start to its end."""
    first, *later = versions_since(versions, feed.changes_from)
    return [first, *(each for each in later if term.end is None or each.modified <= term.end)]


def loading_fault(options: FeedOptions) -> str:
    """Return why a feed with these options cannot be loaded, as the end of a sentence; empty if it can be."""
    fault = reading_fault(options)
    if fault:
        return fault
    if options.resolved_topic:
        return (
            "its markers have a topic of their own; leave resolved_topic out, so that they stand among rows"
        )
    if options.resolved_interval_ns is None and options.initial_scan is not InitialScan.ONLY:
        return "it writes no markers, so no bucket is ever closed; create it WITH resolved"
    return ""
