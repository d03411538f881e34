"""Finds out which Kafka cluster the sink of a feed is: the engine's own, or another. Cluster ids decide it.

An address says little: one cluster has many addresses, and they change. So a feed that has begun is on the
cluster whose id is stored with it, whatever addresses the engine is given later. The empty id stands for the
engine's own cluster. A feed that has not begun is on the cluster that answers at its sink's address. That
cluster has to be asked for its id, unless the engine uses the same address for its own cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import FeedDefinition, FeedEpoch, FeedId
from tidegate.changefeed.definition.sink import SinkUri
from tidegate.changefeed.definition.sink_servers import other_cluster, sink_servers
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.delivery.sink_identity import held
from tidegate.errors import StatementError

#: Stands for the id of the cluster that the engine works with itself.
OWN: Final = ""


def stored_cluster(feed: FeedView, epoch: FeedEpoch) -> str | None:
    """Return the id of the cluster that ``epoch`` of the feed writes to; empty for the engine's own cluster.

    Return ``None`` while no start of this epoch is stored.
    """
    state = feed.current_state
    return None if state is None or state.epoch != epoch or state.start is None else state.sink_cluster


def begun_on(feed: FeedView) -> str | None:
    """Return the id of the cluster that the feed began on, in this epoch or an earlier one.

    Return ``None`` before the feed has begun.

    Topics stay where they are when a feed is moved. For a while the engine that the feed was moved away from
    still has the feed in its log partitions, and no state of the new epoch is stored yet.
    """
    return None if feed.beginning is None else feed.beginning.sink_cluster


def sink_address(sink: SinkUri, cluster: str | None, bootstrap_servers: str) -> tuple[str, ...]:
    """Return the servers of the sink; an empty tuple for the engine's own cluster, at ``bootstrap_servers``.

    ``cluster`` is the id that is stored for the feed. Without one the addresses decide which cluster it is.
    """
    if cluster is None:
        return other_cluster(sink, bootstrap_servers)
    return () if cluster == OWN else sink_servers(sink)


class OtherSink(NamedTuple):
    """The ids of two clusters: a feed's topics are on ``stored``, but its sink's address means ``found`` now.

    The empty id is that of the engine's own cluster.
    """

    stored: str
    found: str

    def sentence(self, feed_id: FeedId, servers: str, own_id: str) -> str:
        """Return why the feed is held.

        ``servers`` are those of its sink, and ``own_id`` is the id of the engine's own cluster.
        """
        return held(feed_id, servers, self.stored or own_id, self.found or own_id)


class SinkClusters:
    """The ids of the clusters of sinks, by the sinks' addresses, as far as the clusters have told them.

    ``bootstrap_servers`` are the addresses of the engine's own cluster.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap = bootstrap_servers
        self._ids: dict[Sequence[str], str] = {}

    def is_home(self, sink: SinkUri) -> bool:
        """Return whether the engine uses an address of the sink for its own cluster.

        If it does, the sink is on that cluster, and nobody has to ask for the cluster's id.
        """
        return not other_cluster(sink, self._bootstrap)

    def cluster_of(self, sink: SinkUri) -> str | None:
        """Return the id that the sink's cluster told last, or ``OWN``; ``None`` while it is unknown.

        An address may mean another cluster by now, unless ``is_home`` is true for the sink.
        """
        servers = other_cluster(sink, self._bootstrap)
        return self._ids.get(servers) if servers else OWN

    def learn(self, sink: SinkUri, cluster_id: str, own_id: str) -> str:
        """Note the id that the sink's cluster told; ``own_id`` is that of the engine's own cluster.

        Returns what ``cluster_of`` returns from now on.
        """
        known = OWN if cluster_id == own_id else cluster_id
        self._ids[other_cluster(sink, self._bootstrap)] = known
        return known

    def other_than(self, stored: str | None, sink: SinkUri) -> OtherSink | None:
        """Compare the cluster that is ``stored`` for a feed with what its sink's address means now.

        Returns ``None`` if both are the same cluster, or if one of them is unknown.
        """
        found = self.cluster_of(sink)
        return None if stored is None or found in (None, stored) else OtherSink(stored, found)

    def share(self, definition: FeedDefinition, other: FeedView) -> bool:
        """Return whether the topics of ``other`` are known to be on the cluster of ``definition``'s sink."""
        cluster = self.cluster_of(definition.sink)
        if other.current_state is not None and other.current_state.targets:
            return other.current_state.sink_cluster == cluster
        if other.definition is None:
            return False
        try:
            sink = other.definition.sink
            is_one_address = sink_servers(sink) == sink_servers(definition.sink)
            known = self.cluster_of(sink)
        except StatementError:  # the other feed has no valid sink, so it will never run
            return False
        return is_one_address or (known is not None and known == cluster)
