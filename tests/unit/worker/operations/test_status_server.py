"""The worker's HTTP server, asked over a real socket."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.unit.registry.certificates import Authority
from tidegate.access.http_access import CONNECTION_S, MOST_CONNECTIONS
from tidegate.errors import SettingsError, TopologyError
from tidegate.processor.status import RangesIn, RangeSpan
from tidegate.raftlog.entry import Generation, RangeId
from tidegate.spans import Span
from tidegate.worker.operations.report import (
    WAITING,
    PartitionReport,
    RegistryReport,
    SpanReport,
    SpanReporter,
    WorkerReport,
    no_ranges,
)
from tidegate.worker.operations.status_server import StatusServer
from tidegate.worker.process.settings import Settings


def report(oldest_ms: int) -> WorkerReport:
    """A worker with one partition whose oldest row waits for so long; the alarm is at a second."""
    partition = PartitionReport(3, "running", lag_records=5, oldest_unacknowledged_ms=oldest_ms)
    return WorkerReport("app", None, "raftlog", 8, stall_alarm_ms=1_000, partitions=(partition,))


def serve(
    question: Callable[[aiohttp.ClientSession], Awaitable[None]],
    current: WorkerReport,
    port: int = 0,
    ranges_in: SpanReporter = no_ranges,
    connection_s: float = CONNECTION_S,
    **settings: Any,
) -> None:
    """Ask a server of ``current`` something; it is gone afterwards."""

    async def scenario() -> None:
        server = StatusServer(
            Settings(metrics_port=port, **settings), lambda: current, ranges_in, connection_s
        )
        try:
            address = await server.start()
            async with aiohttp.ClientSession(address) as session:
                await question(session)
        finally:
            await server.stop()

    asyncio.run(scenario())


def https(directory: Path) -> tuple[ssl.SSLContext, dict[str, Any]]:
    """Write a certificate. Returns what trusts it, and the settings that have it served."""
    authority = Authority()
    pair = authority.pair("worker")
    (directory / "cert.pem").write_bytes(pair.cert)
    (directory / "key.pem").write_bytes(pair.key)
    return ssl.create_default_context(cadata=authority.cert.decode()), {
        "metrics_tls_certificate": directory / "cert.pem",
        "metrics_tls_key": directory / "key.pem",
    }


@pytest.mark.parametrize(("oldest_ms", "status"), [(1_000, 200), (1_001, 503)])
def test_health_is_lost_when_rows_wait_for_longer_than_the_alarm(oldest_ms: int, status: int) -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        answer = await session.get("/health")
        assert answer.status == status
        assert (await answer.json())["stalled_partitions"] == ([] if status == 200 else [3])

    serve(ask, report(oldest_ms))


def test_health_names_the_offsets_of_a_step_that_takes_long() -> None:
    slow = PartitionReport(3, "running", step_ms=1_001, step_of="offsets 5 to 9")
    silent = PartitionReport(4, "running", oldest_unacknowledged_ms=1_001, step_ms=1_000, step_of="offset 7")

    async def ask(session: aiohttp.ClientSession) -> None:
        answer = await session.get("/health")
        assert answer.status == 503
        assert await answer.json() == {
            "healthy": False,
            "stalled_partitions": [3, 4],
            "long_steps": [{"partition": 3, "step_ms": 1_001, "records": "offsets 5 to 9"}],
        }

    serve(ask, WorkerReport("app", None, "raftlog", 8, stall_alarm_ms=1_000, partitions=(slow, silent)))


def test_status_is_the_report() -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        answer = await session.get("/status")
        assert (answer.status, await answer.json()) == (200, report(0).as_json())

    serve(ask, report(0))


def test_status_is_json_without_secrets() -> None:
    told = WorkerReport("app", None, 'the "password=a" log', 8, stall_alarm_ms=1_000, partitions=())

    async def ask(session: aiohttp.ClientSession) -> None:
        answer = await session.get("/status")
        assert 'the "password=redacted" log' in (await answer.json()).values()

    serve(ask, told)


def test_the_ranges_of_a_span_are_told_by_partition() -> None:
    found = RangesIn((), (RangeSpan(RangeId(7), Generation(1), True, Span(b"a", b"m")),), complete=True)

    async def ranges_in(span: Span) -> tuple[SpanReport, ...]:
        return (SpanReport(3, found),) if span == Span(b"a", b"z") else ()

    async def ask(session: aiohttp.ClientSession) -> None:
        answer = await session.get("/ranges", params={"start": b"a".hex(), "end": b"z".hex()})
        (part,) = (await answer.json())["partitions"]
        assert (part["partition"], RangesIn.from_json(part)) == (3, found)

    serve(ask, report(0), ranges_in=ranges_in)


@pytest.mark.parametrize(
    "query", [{}, {"start": "61"}, {"start": "xx", "end": "62"}, {"start": "62", "end": "61"}]
)
def test_a_span_that_is_none_is_refused(query: dict[str, str]) -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        answer = await session.get("/ranges", params=query)
        assert answer.status == 400
        assert "two rising keys in hex" in (await answer.json())["error"]

    serve(ask, report(0))


def test_metrics_are_what_prometheus_reads() -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        answer = await session.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        lines = (await answer.text()).splitlines()
        assert 'tidegate_lag_records{partition="3"} 5.0' in lines

    for _ in range(2):  # a second server of the process finds the registry as the first one did
        serve(ask, report(0))


def test_partitions_that_wait_for_a_registry_are_counted_and_no_restart_is_asked_for() -> None:
    waiting = WorkerReport(
        "app",
        None,
        "raftlog",
        8,
        stall_alarm_ms=1_000,
        partitions=(PartitionReport(1, WAITING), PartitionReport(2, "running"), PartitionReport(3, WAITING)),
        registry_waits=(RegistryReport("bank", "http://registry:8081", 99_000, 9, "away"),),
    )

    async def ask(session: aiohttp.ClientSession) -> None:
        metrics = (await (await session.get("/metrics")).text()).splitlines()
        assert "tidegate_schema_waiting_partitions 2.0" in metrics
        assert (await session.get("/health")).status == 200
        status = await (await session.get("/status")).json()
        assert [wait["cause"] for wait in status["schema_registry_waits"]] == ["away"]
        assert [partition["state"] for partition in status["partitions"]] == ["waiting", "running", "waiting"]

    serve(ask, waiting)


def test_a_port_that_is_taken_is_a_sentence() -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        raise AssertionError("it does not start")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TopologyError, match=f"cannot listen on 127.0.0.1:{port}.*TIDEGATE_METRICS_PORT"):
            serve(ask, report(0), port)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "x"]
)
@pytest.mark.parametrize("path", ["/metrics", "/health", "/status", "/ranges", "/nothing"])
def test_a_page_that_gives_its_own_name_this_address_reads_nothing(host: str, path: str) -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        answer = await session.get(path, headers={"Host": host})
        assert (answer.status, list(await answer.json())) == (403, ["error"])

    serve(ask, report(0))


def test_names_of_loopback_and_those_that_are_allowed_are_served() -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        for host in ("localhost:9", "127.0.0.1", "[::1]:9", "Metrics.Example:1", "other"):
            assert (await session.get("/health", headers={"Host": host})).status == 200, host

    serve(ask, report(0), metrics_allowed_hosts="metrics.example, other")


def test_with_a_token_only_health_is_told_without_it() -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        assert (await session.get("/health")).status == 200
        for path in ("/metrics", "/status", "/ranges"):
            for header in ({}, {"Authorization": "Bearer hush2"}, {"Authorization": "hush"}):
                assert (await session.get(path, headers=header)).status == 401
        assert (await session.get("/status", headers={"Authorization": "Bearer hush"})).status == 200

    serve(ask, report(0), metrics_token="hush")


@pytest.mark.parametrize(
    "sent", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: y", b"GET /health HTTP/1.1"]
)
def test_a_request_that_never_ends_is_ended(sent: bytes) -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        assert session._base_url is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", session._base_url.port)
        writer.write(sent)
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()

    serve(ask, report(0), connection_s=0.2)


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: y"])
def test_a_request_over_tls_that_never_ends_is_ended(sent: bytes, tmp_path: Path) -> None:
    trusted, files = https(tmp_path)

    async def ask(session: aiohttp.ClientSession) -> None:
        assert session._base_url is not None
        with suppress(ConnectionError):  # on a busy machine the handshake takes longer than there is
            reader, writer = await asyncio.open_connection("127.0.0.1", session._base_url.port, ssl=trusted)
            writer.write(sent)
            assert await asyncio.wait_for(reader.read(), 100) == b""
            writer.close()

    serve(ask, report(0), connection_s=0.5, **files)


def test_a_handshake_of_tls_that_never_ends_is_ended(tmp_path: Path) -> None:
    _, files = https(tmp_path)

    async def ask(session: aiohttp.ClientSession) -> None:
        assert session._base_url is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", session._base_url.port)
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()

    serve(ask, report(0), connection_s=0.2, **files)


def test_handshakes_of_tls_are_counted(tmp_path: Path) -> None:
    trusted, files = https(tmp_path)

    async def ask(session: aiohttp.ClientSession) -> None:
        assert session._base_url is not None
        port = session._base_url.port
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * MOST_CONNECTIONS + 1)]
        ended = [asyncio.ensure_future(reader.read()) for reader, _ in held]
        done, amid = await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(amid)) == (1, 2 * MOST_CONNECTIONS)
        for _, writer in held:
            writer.close()
        await asyncio.gather(*ended)
        answer = await session.get("/health", ssl=trusted)
        assert answer.status == 200

    serve(ask, report(0), **files)


def test_connections_beyond_the_bound_are_closed_and_the_rest_is_served() -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        assert session._base_url is not None
        port = session._base_url.port
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS + 5)]
        ended = asyncio.as_completed([asyncio.create_task(reader.read()) for reader, _ in held])
        for _ in range(5):
            try:
                assert await next(ended) == b""
            except ConnectionResetError:
                continue
        for _, writer in held:
            writer.close()

    serve(ask, report(0))


def test_too_many_headers_are_refused() -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        answer = await session.get("/health", headers={f"X-{number}": "y" for number in range(100)})
        assert answer.status == 400

    serve(ask, report(0))


def test_a_certificate_makes_it_https(tmp_path: Path) -> None:
    trusted, files = https(tmp_path)

    async def ask(session: aiohttp.ClientSession) -> None:
        assert str(session._base_url).startswith("https://127.0.0.1:")
        assert (await session.get("/health", ssl=trusted)).status == 200

    serve(ask, report(0), **files)
    (tmp_path / "key.pem").write_bytes(Authority().pair("other").key)
    with pytest.raises(SettingsError, match="certificate and key of one pair"):
        serve(ask, report(0), **files)
