"""HTTP connections of a front whose clients hold them by doing nothing, or next to nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import ssl
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from tests.unit.registry.certificates import Authority
from tests.unit.serve.memory_subscriptions import MemorySubscriptions, until
from tests.unit.serve.postgres.served import bound_buffers, run
from tests.unit.serve.web.served_web import LONG_S, LargePage, serving_web
from tidegate.serve.limits import ServeLimits
from tidegate.serve.web.small_reads import READ_BYTES

_PATHS = ("/subscribe?statement=SUBSCRIBE+accounts", "/health", "/page.js")
_CHUNKED = "Transfer-Encoding: chunked\r\n"
#: Behind a request without a body they begin the next one, for which a client has its time.
_ASKED = [*((path, _CHUNKED) for path in _PATHS), (_PATHS[0], "")]


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", id="its second request"),
        pytest.param(
            b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n", id="a body"
        ),
        pytest.param(b"", id="its first request"),
    ],
)
def test_a_client_that_sends_a_byte_now_and_then_is_ended(head: bytes) -> None:
    async def test() -> None:
        async with serving_web(limits=ServeLimits(startup_s=LONG_S)) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.front.address[1])
            writer.write(head)
            if head:
                assert (await reader.readline()).split()[1] in (b"200", b"413")
            else:
                await until(lambda: served.front.connections == 1, "it is there")
            served.give(0.3)
            reading = asyncio.ensure_future(reader.read())
            with contextlib.suppress(ConnectionError):
                writer.write(b"GET / HTTP/1.1\r\nX-Slow: ")
                while not reading.done():
                    writer.write(b"x")
                    await asyncio.wait({reading}, timeout=0.05)
                await reading
            writer.close()

    run(test)


def test_requests_on_one_connection_go_on_beyond_the_bound_of_each() -> None:
    async def test() -> None:
        async with serving_web(limits=ServeLimits(startup_s=LONG_S)) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.front.address[1])
            await until(lambda: served.front.connections == 1, "it is there")
            timers = [served.connection._deadline]
            for _ in range(5):
                writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b'{"status":"ok"}' in await reader.readuntil(b"}")
                timers.append(served.connection._deadline)
            ends_at = [timer.when() for timer in timers if timer is not None]
            assert ends_at == sorted(set(ends_at)), "each request has a time of its own"
            assert [timer is not None and timer.cancelled() for timer in timers] == [True] * 5 + [False]
            writer.close()

    run(test)


@pytest.mark.parametrize("over_tls", [False, True])
def test_a_client_that_reads_nothing_of_its_answer_is_ended_and_a_slow_one_is_not(
    over_tls: bool, tmp_path: Path
) -> None:
    authority = Authority()
    trusted = ssl.create_default_context(cadata=authority.cert.decode())
    tls = (authority.server_context(tmp_path), trusted) if over_tls else (None, None)

    async def test() -> None:
        limits = ServeLimits(startup_s=LONG_S)
        async with serving_web(limits=limits, feeds=LargePage(), tls=tls[0]) as served:
            slow = await served.get("/feeds", tls[1])
            await until(lambda: 8 * LONG_S < served.left_s <= 9 * LONG_S, "as long again for each MiB")
            for _ in range(8):
                await slow.reader.readexactly(LargePage.BYTES // 8)
            slow.close()
            await until(lambda: served.front.connections == 0, "it is gone")
            silent = await served.get("/feeds", tls[1])
            await until(lambda: served.left_s < math.inf, "it waits for its client")
            served.give(0.02)
            await until(lambda: served.front.connections == 0, "it is ended")
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                assert len(await silent.reader.read()) < LargePage.BYTES
            silent.close()

    run(test)


def test_a_client_that_has_read_a_long_answer_has_no_longer_for_its_next_request() -> None:
    async def test() -> None:
        async with serving_web(limits=ServeLimits(startup_s=LONG_S), feeds=LargePage()) as served:
            answer = await served.get("/feeds")
            assert len(await answer.body()) == LargePage.BYTES
            assert served.left_s > 8 * LONG_S, "it may still read: the server does not know that it has"
            answer.writer.write(b"GET / HTTP/1.1\r\nX-Slow: ")
            await until(lambda: served.left_s <= LONG_S, "it has the time of a request")
            served.give(0.02)
            with contextlib.suppress(ConnectionError):
                assert await answer.reader.read() == b""
            answer.close()

    run(test)


def test_answers_that_nobody_reads_hold_no_connection() -> None:
    """Requests in a row, of which each waits for the answer before it to be read."""

    async def test() -> None:
        async with serving_web(limits=ServeLimits(startup_s=LONG_S)) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.front.address[1])
            bound_buffers(writer.get_extra_info("socket"))
            writer.transport.pause_reading()  # type: ignore[attr-defined] # a transport of a socket has it
            writer.write(b"GET /tidegate.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300)
            await until(lambda: served.front.connections == 1, "it is there")
            await until(lambda: served.connection._is_full, "it waits for its client")
            served.give(0.3)
            await until(lambda: served.front.connections == 0, "it is ended")
            writer.close()
            del reader

    run(test)


def test_a_stream_outlasts_the_bound_of_its_request() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        source.commit(5, (1, 1, "a"))
        async with serving_web(source, limits=ServeLimits(startup_s=LONG_S)) as served:
            answer = await served.subscribe("SUBSCRIBE accounts")
            await answer.message()
            await answer.message()
            assert served.left_s == math.inf, "the bound is that of the request alone"
            source.commit(6, 1)
            assert len((await answer.message())["rows"]) == 1
            answer.close()

    run(test)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


def filled(head: str) -> bytes:
    """A request's head that fills one read, so that what follows comes in the next turn."""
    begun = head.encode() + b"X: "
    return begun + b"a" * (READ_BYTES - len(begun) - 4) + b"\r\n\r\n"


def test_bytes_that_are_no_http_behind_a_request_end_the_connection_without_a_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with serving_web(MemorySubscriptions()) as served:
            for method, (path, body), count in product(("GET", "HEAD"), _ASKED, (300, 1_200)):
                reader, writer = await asyncio.open_connection("127.0.0.1", served.front.address[1])
                head = f"{method} {path} HTTP/1.1\r\nHost: {served.place}\r\n{body}"
                writer.write(filled(head) + b"zz\r\n" * count)
                with suppress(ConnectionError):  # it is reset, since nobody reads what it has sent
                    await reader.read()
                await until(lambda: not served.front.connections, "the connection has ended")
                await until(lambda: not served.source.open_streams, "its subscription has ended")
                assert errors(caplog) == [], (method, path, body, count)
                writer.close()

    run(test)


def test_bytes_that_are_no_http_get_400(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving_web(MemorySubscriptions()) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.front.address[1])
            writer.write(b"no http at all\r\n\r\n")
            assert b" 400 " in await reader.readline()
            await reader.read()
            writer.close()

    run(test)
    assert errors(caplog) == []
