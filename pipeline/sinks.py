"""The Kafka clusters that a query's feeds write to: its own, and others."""

from __future__ import annotations

from tidegate.changefeed.feed import FeedDefinition
from tidegate.changefeed.jobs import FeedView
from tidegate.changefeed.sink import parse_sink_uri
from tidegate.client.connection import KafkaConnection
from tidegate.client.topic_admin import TopicAdmin, open_admin
from tidegate.errors import FeedError, StatementError


class Sinks:
    """The clusters, by the servers that sink URIs name. ``patience_s`` is how long each is waited for."""

    def __init__(self, connection: KafkaConnection, patience_s: float) -> None:
        self._connection = connection
        self._patience_s = patience_s
        self._ids: dict[str, str] = {}
        self._admins: dict[str, TopicAdmin] = {}

    def connection(self, definition: FeedDefinition) -> KafkaConnection:
        """To the cluster of the feed's sink."""
        return self._connection.to(parse_sink_uri(definition.sink_uri).hosts)

    def admin(self, connection: KafkaConnection) -> TopicAdmin:
        """A client for the topics of a cluster, one for all feeds that write there."""
        servers = connection.bootstrap_servers
        if servers not in self._admins:
            self._admins[servers] = open_admin(connection, self._patience_s)
        return self._admins[servers]

    def cluster_of(self, definition: FeedDefinition) -> str:
        """The id of the cluster that the feed writes to; empty for the query's own.

        Raises ``RetryError`` for one that does not answer, and ``FeedError`` for the query's own by other
        addresses: its transactions would be another cluster's.
        """
        sink = self.connection(definition)
        if sink.bootstrap_servers == self._connection.bootstrap_servers:
            return ""
        cluster, own = self._id(sink), self._id(self._connection)
        if cluster == own:
            raise FeedError(
                f"the sink kafka://{sink.bootstrap_servers} is the query's own Kafka cluster by other "
                f"addresses; name it by those that the query has ({self._connection.bootstrap_servers})"
            )
        return cluster

    def share(self, cluster: str, other: FeedView) -> bool:
        """Whether another feed's topics are on this cluster, as far as is known without asking."""
        if other.current_state is not None and other.current_state.targets:
            return other.current_state.sink_cluster == cluster
        if other.definition is None:
            return False
        try:
            servers = self.connection(other.definition).bootstrap_servers
        except StatementError:  # it is no sink, and its feed will never run
            return False
        known = "" if servers == self._connection.bootstrap_servers else self._ids.get(servers)
        return known == cluster

    def _id(self, connection: KafkaConnection) -> str:
        servers = connection.bootstrap_servers
        if servers not in self._ids:
            self._ids[servers] = self.admin(connection).cluster_id()
        return self._ids[servers]
