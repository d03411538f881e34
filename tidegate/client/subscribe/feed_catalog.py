"""The tables that statements can name: those of an application's feeds whose topics can be read.

A statement names a table, and a feed has its rows. The statement has to mean one feed: if several have the
table, the user names one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from tidegate.changefeed.definition.feed import FeedId, FeedState, FeedTarget, TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.columns import shown_columns
from tidegate.changefeed.encoding.envelopes.registry import tells_previous
from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe.ended_feeds import JobsPlace
from tidegate.client.subscribe.feed_term import term_of
from tidegate.client.subscribe.readable_feed import subscribing_fault
from tidegate.client.subscribe.stable_columns import (
    composite_key,
    require_key_types,
    require_stable_columns,
    require_stable_key,
    versions_since,
)
from tidegate.client.table_descriptors import TableVersions, versions_in_log
from tidegate.errors import InputError, ObjectDropped, SchemaMismatch
from tidegate.hlc import ZERO, Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.subscribe.plan import find_relation
from tidegate.subscribe.statement.statement import SubscribeStatement
from tidegate.subscribe.updates.relation import Relation, Relations


@dataclass(frozen=True, slots=True)
class SubscribableTable:
    """A table of a feed.

    Attributes:
        feed: the feed, with its options and its start.
        target: the table's topic.
        relation: its name and columns.
        connection: how to reach the cluster of its topics.
        silent_to: the timestamp up to which markers may be those of a feed that had the topics before.
        application: the application of the feed, which tells whether it has ended; ``None`` if nobody asks.
    """

    feed: FeedTopics
    target: FeedTarget
    relation: Relation
    connection: KafkaConnection
    silent_to: Timestamp = ZERO
    application: JobsPlace | None = None

    @property
    def tells_before(self) -> bool:
        """Whether each record says what the row before was, or that there was none."""
        return tells_previous(self.feed.options)

    def decoder(self) -> RecordDecoder:
        """Return a decoder of the topic's records. Raises as ``FeedTopics.decoder`` does."""
        return self.feed.decoder(self.connection.destinations)


class FeedCatalog:
    """The feeds of one application, as they are at the construction.

    ``connection`` is to the workers' cluster. ``topic_prefix`` is that of the log, which has the descriptors
    of tables. ``descriptors`` is a function that returns these descriptors, for a caller that has read a part
    of the log before. It is called once, when a table is first asked for. Without it the whole log is read.
    Raises ``InputError`` when the jobs topic does not exist, ``BrokerUnavailable`` when Kafka does not
    answer.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        app_id: str,
        topic_prefix: str = "",
        descriptors: Callable[[], TableVersions] | None = None,
    ) -> None:
        self._connection = connection
        self._application = JobsPlace(connection, app_id)
        self._log = f"{topic_prefix}raftlog"
        # The feeds are read before the log: whatever a feed has begun with is in the log then.
        self._view = Jobs(connection, app_id).view()
        self._read_log = descriptors or partial(versions_in_log, connection, self._log)
        self._descriptors: TableVersions | None = None

    def table(self, statement: SubscribeStatement, feed_id: FeedId | None = None) -> SubscribableTable:
        """Return the table that a statement is about, of the feed ``feed_id`` or of the only one that has it.

        Raises ``SubscribeStatementError`` for a table that no feed has, ``InputError`` for one that several
        feeds have, and for a feed that cannot be subscribed to, ``ObjectDropped`` for a feed that was
        dropped, ``SchemaMismatch`` for a table whose rows have other columns or keys since the feed's start.
        """
        named = statement.source
        feeds = self._feeds(feed_id)
        tables = dict.fromkeys(target.table for _, feed in feeds for target in feed.targets)
        table = find_relation(named, Relations(Relation(each, ()) for each in tables)).name
        chosen, feed = _only_feed(table, [each for each in feeds if table in _tables(each[1])], feed_id)
        topics = FeedTopics.of(chosen, feed)
        if fault := subscribing_fault(topics.options):
            raise InputError(f"Feed {chosen} cannot be subscribed to: {fault}.")
        target = next(each for each in topics.targets if each.table == table)
        return SubscribableTable(
            topics,
            target,
            self._relation(target, topics.options, topics.changes_from),
            topics.connection(self._connection),
            term_of(self._view, chosen).before,
            self._application,
        )

    def relations(self) -> Relations:
        """Return the tables that statements can name: those of all feeds that can be subscribed to.

        A table that ``table`` refuses with ``SchemaMismatch``, or whose descriptor has left the log, is left
        out. The other tables are returned all the same.

        Raises ``InputError`` if the log has no descriptor of any of the tables: then it is not the log of
        these feeds.
        """
        found: dict[TableName, Relation] = {}
        unknown: FeedTarget | None = None
        for feed_id, feed in self._feeds(None):
            if feed.defined is not None and _can_be_read(feed):
                begun = feed.beginning is not None and feed.beginning.start is not None
                start = FeedTopics.of(feed_id, feed).changes_from if begun else ZERO
                for target in feed.targets:
                    if not self._versions(target):
                        unknown = target
                    elif target.table not in found:
                        with suppress(SchemaMismatch):
                            found[target.table] = self._relation(target, feed.defined.options, start)
        if unknown is not None and not found:
            raise self._not_described(unknown)
        return Relations(found.values())

    def _feeds(self, feed_id: FeedId | None) -> list[tuple[FeedId, FeedView]]:
        if feed_id is None:
            return [
                (id_, feed)
                for id_, feed in self._view.feeds()
                if feed.status in (FeedState.RUNNING, FeedState.PENDING) and feed.targets
            ]
        feed = self._view[feed_id]
        if feed.defined is None:
            raise InputError(f"There is no feed {feed_id}; `tidegate feed list` shows those that there are.")
        if feed.status is FeedState.DROPPED:
            raise ObjectDropped(f"feed {feed_id} was dropped: no marker follows in its topics any more")
        return [(feed_id, feed)]

    def _relation(self, target: FeedTarget, options: FeedOptions, start: Timestamp) -> Relation:
        versions = self._versions(target)
        if not versions:
            raise self._not_described(target)
        return relation_of(target.table, versions, options, start)

    def _versions(self, target: FeedTarget) -> Sequence[TableDescriptor]:
        """Return the descriptors of a table that the log has; an empty sequence if the log has lost them."""
        if self._descriptors is None:
            self._descriptors = self._read_log()
        return self._descriptors.get(target.table_id, ())

    def _not_described(self, target: FeedTarget) -> InputError:
        return InputError(
            f"The log {self._log} has no descriptor of {target.table} any more, so its columns are not "
            "known: is --topic-prefix that of the store's log?"
        )


def relation_of(
    table: TableName, versions: Sequence[TableDescriptor], options: FeedOptions, start: Timestamp = ZERO
) -> Relation:
    """Return the relation of a feed's table.

    ``versions`` are the table's descriptors, the newest one last. The relation has the columns of the newest
    one. Raises ``SchemaMismatch`` if a name means several columns in rows at or above the feed's start, or if
    these rows have several primary keys, or keys in Avro with several types.
    """
    valid = versions_since(versions, start)
    require_stable_columns(table, valid, options)
    require_stable_key(table, valid, options)
    require_key_types(table, valid, options)
    shown = [{column.name for column in shown_columns(version, options)} for version in versions]
    newest = versions[-1]
    alike = list(takewhile(lambda names: names == shown[-1], reversed(shown)))
    columns = tuple(column.name for column in shown_columns(newest, options))
    names = {column.id: column.name for column in newest.columns}
    return Relation(
        table,
        columns,
        tuple(names[part.column_id] for part in newest.primary_key),
        added=frozenset(columns) - frozenset.intersection(*map(frozenset, shown)),
        removed=frozenset.union(*map(frozenset, shown)) - frozenset(columns),
        types=tuple(column.type for column in shown_columns(newest, options)),
        exact_from=versions[-len(alike)].modified,
        composite=frozenset(name for version in valid for name in composite_key(version, options)),
    )


def _tables(feed: FeedView) -> list[TableName]:
    return [target.table for target in feed.targets]


def _only_feed(
    table: TableName, feeds: Sequence[tuple[FeedId, FeedView]], asked: FeedId | None
) -> tuple[FeedId, FeedView]:
    """Return the feed to read: if there are several, the only one of them that can be subscribed to.

    If none of several can be, it is the first of them. Raises ``InputError`` if several can be.
    """
    if asked is None and len(feeds) > 1:
        fitting = [each for each in feeds if _can_be_read(each[1])]
        if len(fitting) > 1:
            ids = ", ".join(id_ for id_, _ in fitting)
            raise InputError(f"Several feeds have {table}: {ids}. Say which one is to be read, by --feed.")
        feeds = fitting or feeds
    return feeds[0]


def _can_be_read(feed: FeedView) -> bool:
    return feed.defined is not None and not subscribing_fault(feed.defined.options)
