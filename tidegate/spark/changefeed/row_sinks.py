"""The clusters that the rows of one task go to, and which of them do not follow (docs/spark.md, step S1)."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.sink import SinkUri
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.delivery.sink_clusters import OWN
from tidegate.delivery.sink_identity import held, held_backfill, uncertain, unknown
from tidegate.errors import BrokerUnavailable, RetryError, SecretMissing, SinkHeld, SinkNotAllowed
from tidegate.processor.batch import OutputRecord
from tidegate.spark.changefeed.pauses import FIRST_PAUSE_S
from tidegate.spark.changefeed.query_sinks import sink_connection, sink_servers
from tidegate.spark.changefeed.row_producer import RowProducer, SinkStalled

#: Producers that have nothing on its way, by brokers, patience, and whether they are watched. A Python worker
#: runs one task at a time.
_idle: dict[tuple[str, float | None, bool], RowProducer] = {}
#: When a cluster has last not followed: the next task here does not wait for it all over again. By when its
#: feeds are tried again it does.
_stalled_at: dict[str, float] = {}
_log = logging.getLogger("tidegate.spark")


class RowSinks:
    """The clusters, by their brokers. One other than ``home`` may stall: it is waited for ``stall_s``.

    ``clusters`` are the stored ids of feeds' clusters, ``OWN`` for ``home``, by what ranges call the feeds
    (``told_name``): one that has come to another cluster is called another name. A feed that has none there
    is given nothing: an address alone does not say which cluster its topics are on.

    Feeds whose rows are at a cluster that stalls are not certain to have any row since the last wait: they
    come out of `send` and `acknowledge`, and the task waits for that cluster no more. Without ``stall_s``,
    as in a backfill, no feed is left behind: what would be said of one is raised, and the task is run again.
    """

    def __init__(self, home: KafkaConnection, stall_s: float | None, clusters: Mapping[str, str]) -> None:
        self._home = home
        self._clusters = clusters
        self._stall_s = stall_s
        self._producers: dict[str, RowProducer] = {}
        self._connections: dict[tuple[FeedId, str], KafkaConnection] = {}
        self._fed: defaultdict[str, set[FeedId]] = defaultdict(set)
        self._given_up: set[str] = set()
        self._found: dict[str, str] = {}  # the ids that clusters other than ``home`` have told

    @property
    def may_stall(self) -> bool:
        """Whether there are rows whose cluster may turn out to stall."""
        return any(self._patience(servers) is not None for servers in self._fed)

    def send(
        self, feed_id: FeedId, sink: SinkUri, rows: Sequence[OutputRecord], name: str = ""
    ) -> Sequence[FeedId]:
        """Hand rows over; waits for room. ``name`` is what ranges call the feed, by default its id.

        Returns the feeds that have to be left behind: nothing is certain of these any more, their sink's
        address means another cluster than the one that is stored, or none is stored. Raises ``FeedRefused``
        as ``RowProducer.send`` does, and ``RetryError`` for a cluster that is waited for without limit.
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
        return ()

    def acknowledge(self) -> Iterator[FeedId]:
        """Wait until all rows are acknowledged but those of the feeds that come out, which have to be left
        behind. Raises as ``send`` does; then the producers are not used again.
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
            _idle[self._kind(servers)] = producer
        self._producers.clear()
        self._found.clear()
        self._fed.clear()

    def close(self) -> None:
        """Throw away what is not acknowledged, where the task has failed.

        The next attempt writes it again. A producer that nobody closes would go on with the rows of this one,
        behind newer rows of that one.
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
        """Raises ``SinkStalled`` for a cluster that has stalled in this task, or just now in another."""
        patience = self._patience(servers)
        producer = self._producers.get(servers)
        if producer is None:
            if servers in self._given_up or self._has_just_stalled(servers, patience):
                raise SinkStalled
            producer = _idle.pop(self._kind(servers), None)
            if producer is None:
                producer = RowProducer(connection.config(), patience, watched=servers != OWN)
            self._producers[servers] = producer
        return producer

    def _has_just_stalled(self, servers: str, patience: float | None) -> bool:
        at = _stalled_at.get(servers)
        return (
            patience is not None and at is not None and time.monotonic() - at < min(patience, FIRST_PAUSE_S)
        )

    def _kind(self, servers: str) -> tuple[str, float | None, bool]:
        """What a producer is kept by."""
        return servers or self._home.bootstrap_servers, self._patience(servers), servers != OWN

    def _patience(self, servers: str) -> float | None:
        return None if servers == OWN else self._stall_s

    def _ended(self, servers: str, ended: BrokerUnavailable) -> Sequence[FeedId]:
        """The producer has come to its end, and no row is why: maybe the next ones do as well. No batch waits
        for that but one that waits for the cluster in any case.
        """
        if self._patience(servers) is None:
            raise ended
        _log.warning("%s", ended)
        return self._give_up(servers)

    def leave(self, feed_id: FeedId, why: RetryError) -> Sequence[FeedId]:
        """Leave a feed behind; raises ``why`` in a backfill, where none is."""
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
