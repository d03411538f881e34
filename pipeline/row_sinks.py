"""The clusters that the rows of one task go to, and which of them do not follow (docs/spark.md, step S1)."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pipeline.pauses import FIRST_PAUSE_S
from pipeline.row_producer import RowProducer, SinkStalled
from pipeline.sinks import sink_connection
from tidegate.changefeed.feed import FeedId
from tidegate.client.connection import KafkaConnection
from tidegate.delivery.sink_identity import held
from tidegate.processor.batch import OutputRecord

#: Producers that have nothing on its way, by brokers and patience. A Python worker runs one task at a time.
_idle: dict[tuple[str, float | None], RowProducer] = {}
#: When a cluster has last not followed: the next task here does not wait for it all over again. By when its
#: feeds are tried again it does.
_stalled_at: dict[str, float] = {}
_log = logging.getLogger("tidegate.spark")
_NONE: Final[Mapping[FeedId, str]] = {}


class RowSinks:
    """The clusters, by their brokers. One other than ``home`` may stall: it is waited for ``stall_s``.

    ``clusters`` are the stored ids of feeds' clusters; of a feed without one its addresses decide.

    Feeds whose rows are at a cluster that stalls are not certain to have any row since the last wait: they
    come out of `send` and `acknowledge`, and the task waits for that cluster no more.
    """

    def __init__(
        self, home: KafkaConnection, stall_s: float | None, clusters: Mapping[FeedId, str] = _NONE
    ) -> None:
        self._home = home
        self._clusters = clusters
        self._stall_s = stall_s
        self._producers: dict[str, RowProducer] = {}
        self._fed: defaultdict[str, set[FeedId]] = defaultdict(set)
        self._given_up: set[str] = set()
        self._found: dict[str, str] = {}  # the ids that clusters other than home have told

    @property
    def may_stall(self) -> bool:
        """Whether there are rows whose cluster may turn out to stall."""
        return any(self._patience(servers) is not None for servers in self._fed)

    def send(self, feed_id: FeedId, uri: str, rows: Sequence[OutputRecord]) -> Sequence[FeedId]:
        """Hand rows over; waits for room. Returns the feeds that have to be left behind: nothing is certain
        of these any more, or their sink's address means another cluster than the one that is stored. Raises
        ``FeedRefused`` and ``BrokerUnavailable`` as ``RowProducer.send`` does.
        """
        servers = sink_connection(self._home, uri, self._clusters.get(feed_id)).bootstrap_servers
        self._fed[servers].add(feed_id)
        try:
            producer = self._producer(servers)
            if stored := self._clusters.get(feed_id, ""):
                if servers not in self._found:
                    self._found[servers] = producer.cluster_id(rows[0].topic)
                if self._found[servers] != stored:
                    self._fed[servers].discard(feed_id)
                    _log.warning("%s.", held(feed_id, servers, stored, self._found[servers]))
                    return [feed_id]
            producer.send(feed_id, rows)
        except SinkStalled:
            return self._give_up(servers)
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
        for servers, producer in self._producers.items():
            _stalled_at.pop(servers, None)
            _idle[servers, self._patience(servers)] = producer
        self._producers.clear()
        self._found.clear()
        self._fed.clear()

    def _producer(self, servers: str) -> RowProducer:
        """Raises ``SinkStalled`` for a cluster that has stalled in this task, or just now in another."""
        patience = self._patience(servers)
        producer = self._producers.get(servers)
        if producer is None:
            if servers in self._given_up or self._has_just_stalled(servers, patience):
                raise SinkStalled
            config = self._home.to([servers]).config()
            producer = _idle.pop((servers, patience), None) or RowProducer(
                config, patience, watched=servers != self._home.bootstrap_servers
            )
            self._producers[servers] = producer
        return producer

    def _has_just_stalled(self, servers: str, patience: float | None) -> bool:
        at = _stalled_at.get(servers)
        return (
            patience is not None and at is not None and time.monotonic() - at < min(patience, FIRST_PAUSE_S)
        )

    def _patience(self, servers: str) -> float | None:
        return None if servers == self._home.bootstrap_servers else self._stall_s

    def _give_up(self, servers: str) -> Sequence[FeedId]:
        self._given_up.add(servers)
        producer = self._producers.pop(servers, None)
        if producer is not None:
            producer.abandon()
            _stalled_at[servers] = time.monotonic()
        return sorted(self._fed.pop(servers))
