"""Tests which cluster a sink is."""

from __future__ import annotations

import pytest

from tidegate.changefeed.definition.sink import parse_sink_uri
from tidegate.changefeed.definition.sink_servers import (
    normal_servers,
    other_cluster,
    share_a_server,
    sink_servers,
)


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("b:2,a:1", ("a:1", "b:2")),
        (" Kafka , kafka:9092 ", ("kafka:9092",)),
        ("localhost:29092", ("127.0.0.1:29092",)),
        ("LOCALHOST", ("127.0.0.1:9092",)),
        ("[::1],[::1]:5", ("[::1]:5", "[::1]:9092")),
        (",", ()),
    ],
)
def test_servers_have_one_form(given: str, normal: tuple[str, ...]) -> None:
    assert normal_servers(given.split(",")) == normal


def test_a_sink_is_known_by_its_servers_however_they_are_written() -> None:
    uris = ("kafka://b:1,A:9092", "kafka://a,b:1?topic_prefix=x")
    assert {sink_servers(parse_sink_uri(uri)) for uri in uris} == {("a:9092", "b:1")}


@pytest.mark.parametrize(
    ("uri", "bootstrap", "servers"),
    [
        ("kafka://localhost:9092", "127.0.0.1:9092,127.0.0.1:9093", ()),
        ("kafka://k2:9092", "k1:9092, k2:9092", ()),
        ("kafka://k1,k3", "k1:9092,k2:9092", ()),  # k1 is ours, so k3 is too
        ("kafka://127.0.0.1:9094", "127.0.0.1:9092", ("127.0.0.1:9094",)),
        ("kafka://elsewhere:9092,also:1", "127.0.0.1:9092", ("also:1", "elsewhere:9092")),
    ],
)
def test_a_cluster_is_another_one_unless_a_server_is_shared(
    uri: str, bootstrap: str, servers: tuple[str, ...]
) -> None:
    assert other_cluster(parse_sink_uri(uri), bootstrap) == servers


def test_one_server_belongs_to_one_cluster() -> None:
    assert share_a_server(("a:1", "b:1"), ("b:1", "c:1"))
    assert not share_a_server(("a:1",), ("a:2",))
