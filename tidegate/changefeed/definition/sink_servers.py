"""Which Kafka cluster a sink is: the one that a process works with itself, or another, by its servers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegate.changefeed.definition.sink import SinkUri

_DEFAULT_PORT: Final = "9092"
_LOOPBACK: Final = "127.0.0.1"


def normal_servers(servers: Iterable[str]) -> tuple[str, ...]:
    """``host:port`` of each in small letters, ``localhost`` by its number; sorted, each once."""
    return tuple(sorted({_normal(server.strip()) for server in servers if server.strip()}))


def sink_servers(sink: SinkUri) -> tuple[str, ...]:
    """The servers of a sink."""
    return normal_servers(sink.hosts)


def share_a_server(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether two lists of normal servers are surely one cluster's: a server belongs to one only."""
    return not set(some).isdisjoint(others)


def other_cluster(sink: SinkUri, bootstrap_servers: str) -> tuple[str, ...]:
    """The servers of a sink that is another cluster than that of ``bootstrap_servers``, else nothing."""
    servers = sink_servers(sink)
    own = normal_servers(bootstrap_servers.split(","))
    return () if share_a_server(servers, own) else servers


def _normal(server: str) -> str:
    host, colon, port = server.lower().rpartition(":")
    if not colon or port.endswith("]"):  # no port; the second is an address of version 6 without one
        host, port = server.lower(), _DEFAULT_PORT
    return f"{_LOOPBACK if host == 'localhost' else host}:{port}"
