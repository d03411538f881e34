"""The metrics of a Spark query over a real socket."""

from __future__ import annotations

import http.client
import socket
import ssl
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from tests.unit.registry.certificates import Authority, Pair
from tidegate.access.http_access import MOST_CONNECTIONS, MOST_HEADER_BYTES, MOST_HEADERS, HttpAccess
from tidegate.spark.platform.metrics_server import serve_scrapes

HOST = "127.0.0.1"


def registry() -> CollectorRegistry:
    found = CollectorRegistry()
    Counter("tidegate_tries", "of this test", registry=found)
    return found


def files_of(pair: Pair, directory: Path) -> tuple[Path, Path]:
    files = directory / "cert.pem", directory / "key.pem"
    files[0].write_bytes(pair.cert)
    files[1].write_bytes(pair.key)
    return files


def ask(
    port: int,
    host: str = HOST,
    token: str = "",
    trusted: ssl.SSLContext | None = None,
    path: str = "/metrics",
) -> tuple[int, str]:
    connection = (
        http.client.HTTPConnection(HOST, port, timeout=10)
        if trusted is None
        else http.client.HTTPSConnection(HOST, port, timeout=10, context=trusted)
    )
    connection.request("GET", path, headers={"Host": host} | ({"Authorization": token} if token else {}))
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_a_scrape_is_answered_by_the_address_and_no_other_name() -> None:
    port = serve_scrapes(registry(), HOST, 0, HttpAccess(HOST))
    assert "tidegate_tries_total 0.0" in ask(port)[1]
    assert ask(port, "localhost:1")[0] == 200
    assert ask(port, "evil.example")[0] == 403


def test_a_token_is_asked_for() -> None:
    port = serve_scrapes(registry(), HOST, 0, HttpAccess(HOST, token="hush"))
    assert (ask(port)[0], ask(port, token="Bearer hush")[0]) == (401, 200)


def test_health_is_answered_without_a_token_and_says_nothing_else() -> None:
    port = serve_scrapes(registry(), HOST, 0, HttpAccess(HOST, token="hush"))
    assert ask(port, path="/health") == (200, '{"status": "ok"}')
    assert ask(port, path="/health?name[]=tidegate_tries") == (200, '{"status": "ok"}')
    assert ask(port, path="/favicon.ico")[0] == 401


def test_metrics_are_at_their_path_alone() -> None:
    port = serve_scrapes(registry(), HOST, 0, HttpAccess(HOST))
    assert ask(port, path="/metrics?name[]=other") == (200, "")
    assert ask(port, path="/")[0] == 404


def test_a_request_that_never_ends_is_ended() -> None:
    port = serve_scrapes(registry(), HOST, 0, HttpAccess(HOST), connection_s=0.2)
    with socket.create_connection((HOST, port), timeout=10) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        try:
            rest = slow.recv(1_000)
        except ConnectionResetError:
            rest = b""
        assert b"tidegate_tries" not in rest
    assert ask(port)[0] == 200


def _status(port: int, *lines: bytes) -> int:
    """The status of the answer to a request of these lines; 0 where none comes."""
    with socket.create_connection((HOST, port), timeout=10) as client:
        client.sendall(b"".join(line + b"\r\n" for line in lines))
        found = http.client.HTTPResponse(client)
        try:
            found.begin()
        except (http.client.BadStatusLine, ConnectionResetError):
            return 0
        return found.status


def test_headers_are_bounded_as_those_of_a_worker() -> None:
    port = serve_scrapes(registry(), HOST, 0, HttpAccess(HOST))
    line, host = b"GET /metrics HTTP/1.1", b"Host: " + HOST.encode()
    headers = [b"X-%d: y" % number for number in range(MOST_HEADERS - 1)]
    assert _status(port, line, host, *headers, b"") == 200
    assert _status(port, line, host, *headers, b"X-More: y", b"") == 431
    longest = b"X: " + b"y" * (MOST_HEADER_BYTES - len(b"X: "))
    assert _status(port, line, host, longest, b"") == 200
    assert _status(port, line, host, longest + b"y", b"") == 431
    assert _status(port, line, host, b"X: y", b"  " + longest, b"") == 431, "one header in two lines"
    path = b"/metrics?" + b"y" * MOST_HEADER_BYTES
    assert _status(port, b"GET " + path + b" HTTP/1.1", host, b"") == 431


def test_a_client_that_sends_headers_without_an_end_is_refused_before_the_end() -> None:
    """Else it could have a process keep 6 MB for each of its connections."""
    port = serve_scrapes(registry(), HOST, 0, HttpAccess(HOST))
    assert _status(port, b"GET /metrics HTTP/1.1", *([b"X: " + b"y" * 8_000] * (MOST_HEADERS + 1))) == 431
    assert _status(port, b"GET /metrics HTTP/1.1", b"X: " + b"y" * 10_000) == 431


def test_tls(tmp_path: Path) -> None:
    authority = Authority()
    files = files_of(authority.pair("query"), tmp_path)
    port = serve_scrapes(registry(), HOST, 0, HttpAccess(HOST), files, connection_s=1.0)
    trusted = ssl.create_default_context(cadata=authority.cert.decode())
    assert ask(port, trusted=trusted)[0] == 200
    with socket.create_connection((HOST, port), timeout=10) as silent, suppress(ConnectionResetError):
        assert silent.recv(1) == b"", "a handshake that never begins is ended"
    files[1].write_bytes(authority.pair("other").key)
    with pytest.raises(OSError, match="mismatch"):
        serve_scrapes(registry(), HOST, 0, HttpAccess(HOST), files)


@pytest.mark.long
def test_clients_that_break_off_before_their_handshake_take_no_place(tmp_path: Path) -> None:
    authority = Authority()
    files = files_of(authority.pair("query"), tmp_path)
    port = serve_scrapes(registry(), HOST, 0, HttpAccess(HOST), files)
    for _ in range(2 * MOST_CONNECTIONS):
        with socket.create_connection((HOST, port), timeout=10) as rude:
            rude.sendall(b"?")
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    trusted = ssl.create_default_context(cadata=authority.cert.decode())
    assert ask(port, trusted=trusted)[0] == 200
