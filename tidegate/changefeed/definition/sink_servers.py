"""Decides by servers whether a sink is the Kafka cluster that a process itself works with, or another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegate.changefeed.definition.sink import SinkUri

_DEFAULT_PORT: Final = "9092"
_LOOPBACK: Final = "127.0.0.1"


def normal_servers(servers: Iterable[str]) -> tuple[str, ...]:
    """Return ``host:port`` of each server in small letters, with ``127.0.0.1`` for ``localhost``.

    The servers are sorted, and each is there once.
    """
    return tuple(sorted({_normal(server.strip()) for server in servers if server.strip()}))


def sink_servers(sink: SinkUri) -> tuple[str, ...]:
    """Return the servers of a sink."""
    return normal_servers(sink.hosts)


def share_a_server(some: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether two lists of normal servers share one: then both belong to one cluster."""
    return not set(some).isdisjoint(others)


def other_cluster(sink: SinkUri, bootstrap_servers: str) -> tuple[str, ...]:
    """Return the servers of a sink if none of them is in ``bootstrap_servers``; otherwise an empty tuple."""
    servers = sink_servers(sink)
    own = normal_servers(bootstrap_servers.split(","))
    return () if share_a_server(servers, own) else servers


def _normal(server: str) -> str:
    host, colon, port = server.lower().rpartition(":")
    if not colon or port.endswith("]"):  # no port; in the second case an IPv6 address without one
        host, port = server.lower(), _DEFAULT_PORT
    return f"{_LOOPBACK if host == 'localhost' else host}:{port}"
