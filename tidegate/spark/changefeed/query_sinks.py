"""The Kafka clusters that a query's feeds write to: its own, and others."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from threading import Lock
from typing import Final

from tidegate.access.destinations import Destinations
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.changefeed.definition.sink import SinkUri
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import TopicAdmin, open_admin
from tidegate.delivery.sink_clusters import OWN, SinkClusters, begun_on, sink_address
from tidegate.errors import SinkHeld, StatementError

#: Stands for the id of a cluster that is not the query's own.
_ANY_OTHER: Final = "another"


class QuerySinks:
    """The Kafka clusters of a query's sinks, by the servers that sink URIs name.

    ``patience_s`` says for how many seconds a cluster is waited for. Any thread may use this object.
    """

    def __init__(self, connection: KafkaConnection, patience_s: float) -> None:
        self._connection = connection
        self._patience_s = patience_s
        self._clusters = SinkClusters(connection.bootstrap_servers)
        self._own_id = ""
        self._admins: dict[str, TopicAdmin] = {}
        self._opening = Lock()

    @property
    def destinations(self) -> Destinations:
        """The destinations that the operator lets feeds name."""
        return self._connection.destinations

    def connection(self, definition: FeedDefinition, cluster: str | None = None) -> KafkaConnection:
        """Return the connection to the feed's sink; ``cluster`` is the sink's stored id.

        Without ``cluster`` the addresses decide which cluster it is. Raises as ``sink_connection`` does.
        """
        return sink_connection(self._connection, definition.sink, cluster, definition.id)

    def servers(self, definition: FeedDefinition, cluster: str | None = None) -> str:
        """Return the servers of the feed's sink, as ``connection`` finds them, also if it is not allowed."""
        return sink_servers(self._connection, definition.sink, cluster)

    def admin(self, connection: KafkaConnection) -> TopicAdmin:
        """Return a client for the topics of a cluster; feeds that write there share it.

        A client that has seen another cluster is replaced.
        """
        servers = connection.bootstrap_servers
        with self._opening:
            admin = self._admins.get(servers)
            if admin is None or admin.is_over:
                admin = self._admins[servers] = open_admin(connection, self._patience_s)
            return admin

    def close_unused(self, live: Iterable[FeedDefinition]) -> None:
        """Close the clients of clusters that no live feed writes to."""
        used = {self._connection.bootstrap_servers}
        for definition in live:
            with suppress(StatementError):  # the URI is no sink, and the feed fails
                used |= {self.servers(definition, cluster) for cluster in (None, _ANY_OTHER)}
        with self._opening:
            self._admins = {servers: admin for servers, admin in self._admins.items() if servers in used}

    def own_admin(self) -> TopicAdmin:
        """Return a client for the topics of the query's own cluster."""
        return self.admin(self._connection)

    def cluster_of(self, definition: FeedDefinition) -> str:
        """Return the id of the cluster that the feed's sink is on; empty for the query's own, whatever its
        addresses.

        Raises ``RetryError`` for a cluster that does not answer.
        """
        known = self._clusters.cluster_of(definition.sink)
        return self.learn(definition) if known is None else known

    def known_cluster(self, definition: FeedDefinition) -> str | None:
        """Return the id that the cluster of the feed's sink told last; ``None`` if it has not been asked."""
        return self._clusters.cluster_of(definition.sink)

    def learn(self, definition: FeedDefinition) -> str:
        """Return what ``cluster_of`` returns, but ask the cluster again, unless it is the query's own.

        Raises as ``cluster_of`` does.
        """
        if self._clusters.is_home(definition.sink):
            return OWN
        cluster_id = self.admin(self.connection(definition)).cluster_id()
        return self._clusters.learn(definition.sink, cluster_id, self._own())

    def require_begun(self, definition: FeedDefinition, feed: FeedView) -> None:
        """Require that the feed's sink is the cluster on which the feed began in an earlier epoch.

        Raises ``SinkHeld`` if it is another one.
        """
        self.cluster_of(definition)
        other = self._clusters.other_than(begun_on(feed), definition.sink)
        if other is not None:
            raise SinkHeld(other.sentence(definition.id, self.servers(definition), self._own()))

    def share(self, definition: FeedDefinition, other: FeedView) -> bool:
        """Return whether the topics of ``other`` are known to be on the cluster of ``definition``'s sink."""
        return self._clusters.share(definition, other)

    def _own(self) -> str:
        """Return the id of the query's own cluster, which is asked for it once."""
        self._own_id = self._own_id or self.own_admin().cluster_id()
        return self._own_id


def sink_connection(
    own: KafkaConnection, sink: SinkUri, cluster: str | None, feed_id: FeedId
) -> KafkaConnection:
    """Return the connection to the sink of a feed; ``cluster`` is the sink's stored id.

    That is ``own``, or a connection to the sink's servers with the login of the operator's entry. Raises
    ``SinkNotAllowed`` if no entry allows the feed to write there, and ``SecretMissing`` if a secret of the
    login is missing.
    """
    servers = () if cluster == OWN else sink_address(sink, cluster, own.bootstrap_servers)
    return own.to(servers, feed_id) if servers else own


def sink_servers(own: KafkaConnection, sink: SinkUri, cluster: str | None) -> str:
    """Return the servers of a sink; ``cluster`` is its stored id."""
    servers = () if cluster == OWN else sink_address(sink, cluster, own.bootstrap_servers)
    return ",".join(servers) or own.bootstrap_servers
