"""The clusters that the rows of one task go to, and which of them take no rows
(docs/protocols/spark-sinks.md, step S1)."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tidegate.changefeed.definition.feed import FeedEpoch, FeedId
from tidegate.changefeed.definition.sink import SinkUri
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.delivery.sink_clusters import OWN
from tidegate.delivery.sink_identity import held, held_backfill, uncertain, unknown
from tidegate.errors import (
    BrokerUnavailable,
    RetryError,
    SecretMissing,
    SettingsError,
    SinkHeld,
    SinkNotAllowed,
)
from tidegate.processor.batch import OutputRecord
from tidegate.spark.changefeed.pauses import FIRST_PAUSE_S
from tidegate.spark.changefeed.query_sinks import sink_connection, sink_servers
from tidegate.spark.changefeed.row_producer import RowProducer, SinkStalled

#: What a row producer is open with: the settings of its connection with their login, patience, and whether it
#: is watched. Queries that share a Python worker may have other logins at the same brokers.
_Kind: TypeAlias = tuple[frozenset[tuple[str, Any]], float | None, bool]
#: Row producers without unacknowledged rows. A Python worker runs one task at a time.
_idle: dict[_Kind, RowProducer] = {}
#: No task knows which feeds are live. So only the producers that were used last are kept.
_MOST_IDLE: Final = 16
#: The time when each cluster last took no rows. The next tasks of this process do not wait for it until its
#: feeds are tried again.
_stalled_at: dict[str, float] = {}
_log = logging.getLogger("tidegate.spark")


def name_on_cluster(feed_id: FeedId, accepted_epoch: FeedEpoch | None) -> str:
    """Return the name of a feed among the feeds of clusters.

    A feed that has moved to another cluster, in its ``accepted_epoch``, has another name there.
    """
    return feed_id if accepted_epoch is None else f"{feed_id}/{accepted_epoch}"


class RowSinks:
    """The clusters that a task's rows go to, by their brokers.

    ``home`` is waited for without limit, every other cluster for ``stall_s`` seconds.
    ``clusters`` are the stored ids of the feeds' clusters, ``OWN`` for ``home``, by ``name_on_cluster``. A
    feed without an entry gets no rows, since an address alone does not say which cluster its topics are on.

    When a cluster takes no rows, no row of its feeds since the last wait is certain. `send` and `acknowledge`
    return these feeds, to be detached, and the task waits for that cluster no more. Without ``stall_s``, as
    in a backfill, no feed is detached: the reason is raised instead, and the task runs again.
    """

    def __init__(self, home: KafkaConnection, stall_s: float | None, clusters: Mapping[str, str]) -> None:
        self._home = home
        self._clusters = clusters
        self._stall_s = stall_s
        self._producers: dict[str, RowProducer] = {}
        self._kinds: dict[str, _Kind] = {}
        self._connections: dict[tuple[FeedId, str], KafkaConnection] = {}
        self._fed: defaultdict[str, set[FeedId]] = defaultdict(set)
        self._given_up: set[str] = set()
        self._found: dict[str, str] = {}  # the ids of clusters other than ``home``, as they answered

    @property
    def may_stall(self) -> bool:
        """Whether there are rows whose cluster may stall."""
        return any(self._patience(servers) is not None for servers in self._fed)

    def send(
        self, feed_id: FeedId, sink: SinkUri, rows: Sequence[OutputRecord], name: str = ""
    ) -> Sequence[FeedId]:
        """Hand rows over; wait for room.

        ``name`` is the name that ranges use for the feed, by default its id. Returns the feeds that have to
        be detached: their cluster takes no rows, no client can be opened with its login, their sink's address
        means another cluster than the stored one, or no cluster is stored. Raises ``FeedRefused`` as
        ``RowProducer.send`` does. For a cluster that is waited for without limit, raises ``RetryError``,
        and also ``SettingsError`` if that cluster is the query's own.
        """
        stored = self._clusters.get(name or feed_id)
        if stored is None:
            return self.leave(feed_id, RetryError(f"{unknown(feed_id)}."))
        servers = OWN if stored == OWN else sink_servers(self._home, sink, stored)
        try:
            connection = self._connection(feed_id, sink, stored)
        except (SinkNotAllowed, SecretMissing) as error:
            return self.leave(feed_id, error)
        self._fed[servers].add(feed_id)
        try:
            producer = self._producer(servers, connection)
            if stored != OWN:
                if servers not in self._found:
                    self._found[servers] = producer.cluster_id(rows[0].topic)
                if self._found[servers] != stored:
                    self._fed[servers].discard(feed_id)
                    say = held_backfill if self._stall_s is None else held
                    sentence = say(feed_id, servers, stored, self._found[servers])
                    return self.leave(feed_id, SinkHeld(f"{sentence}."))
            producer.send(feed_id, rows)
        except SinkStalled:
            return self._give_up(servers)
        except BrokerUnavailable as ended:
            return self._ended(servers, ended)
        except SettingsError as unusable:
            if stored == OWN:
                raise
            self._fed[servers].discard(feed_id)
            return self.leave(feed_id, RetryError(f"feed {feed_id} is given no row: {unusable}"))
        return ()

    def acknowledge(self) -> Iterator[FeedId]:
        """Wait until all rows are acknowledged; yield the feeds to detach, whose rows are given up.

        Raises as ``send`` does, and then the producers are not used again.
        """
        for servers, producer in list(self._producers.items()):
            try:
                producer.acknowledge()
            except SinkStalled:
                yield from self._give_up(servers)
            except BrokerUnavailable as ended:
                yield from self._ended(servers, ended)
        for servers, producer in self._producers.items():
            _stalled_at.pop(servers, None)
            _idle[self._kinds[servers]] = producer  # after those of former tasks
        while len(_idle) > _MOST_IDLE:
            del _idle[next(iter(_idle))]  # it has no rows, so it ends without a wait
        self._producers.clear()
        self._found.clear()
        self._fed.clear()

    def close(self) -> None:
        """Throw away the unacknowledged rows of a task that has failed.

        The next attempt writes them again. A producer that stays open would write these old rows after
        newer rows of that attempt.
        """
        for producer in self._producers.values():
            producer.abandon()
        self._producers.clear()

    def _connection(self, feed_id: FeedId, sink: SinkUri, stored: str) -> KafkaConnection:
        key = feed_id, stored
        if key not in self._connections:
            self._connections[key] = sink_connection(self._home, sink, stored, feed_id)
        return self._connections[key]

    def _producer(self, servers: str, connection: KafkaConnection) -> RowProducer:
        """Return the producer for a cluster.

        Raises ``SinkStalled`` if the cluster has stalled in this task, or a short time ago in another.
        """
        patience = self._patience(servers)
        producer = self._producers.get(servers)
        if producer is None:
            if servers in self._given_up or self._has_just_stalled(servers, patience):
                raise SinkStalled
            config, watched = connection.config(), servers != OWN
            kind = frozenset(config.items()), patience, watched
            producer = _idle.pop(kind, None)
            if producer is None:
                producer = RowProducer(config, patience, watched=watched)
            self._producers[servers], self._kinds[servers] = producer, kind
        return producer

    def _has_just_stalled(self, servers: str, patience: float | None) -> bool:
        at = _stalled_at.get(servers)
        return (
            patience is not None and at is not None and time.monotonic() - at < min(patience, FIRST_PAUSE_S)
        )

    def _patience(self, servers: str) -> float | None:
        return None if servers == OWN else self._stall_s

    def _ended(self, servers: str, ended: BrokerUnavailable) -> Sequence[FeedId]:
        """Give the cluster's feeds up, since its producer has come to its end and no row is the reason.

        The next producers may come to the same end, so no batch waits for them. For a cluster that batches
        always wait for, this raises ``ended``.
        """
        if self._patience(servers) is None:
            raise ended
        _log.warning("%s", ended)
        return self._give_up(servers)

    def leave(self, feed_id: FeedId, why: RetryError) -> Sequence[FeedId]:
        """Return the feed, to be detached. In a backfill, which detaches no feed, this raises ``why``."""
        if self._stall_s is None:
            raise why
        _log.warning("%s", why)
        return [feed_id]

    def _give_up(self, servers: str) -> Sequence[FeedId]:
        self._given_up.add(servers)
        producer = self._producers.pop(servers, None)
        if producer is not None:
            producer.abandon()
            _stalled_at[servers] = time.monotonic()
        feeds = sorted(self._fed.pop(servers))
        if self._stall_s is None:
            raise BrokerUnavailable(f"{uncertain(servers, self._clusters[feeds[0]], feeds)}.")
        return feeds
