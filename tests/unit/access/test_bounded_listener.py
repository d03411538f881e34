"""The listener over real sockets: it holds so many connections, with those amid their handshake."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.registry.certificates import Authority
from tidegate.access import bounded_listener
from tidegate.access.bounded_listener import BoundedListener, listening_sockets

_MOST: Final = 3
_COMES_S: Final = 30.0


class _Echo(asyncio.Protocol):
    """Sends back what comes."""

    def __init__(self, connections: set[_Echo]) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connections.add(self)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert isinstance(self._transport, asyncio.Transport)
        self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)


class _Served:
    """A listener, its address, and the connections that its server knows."""

    def __init__(self, tls: ssl.SSLContext | None, handshake_s: float) -> None:
        self.connections: set[_Echo] = set()
        self.listener = BoundedListener(
            lambda: _Echo(self.connections),
            lambda: len(self.connections),
            _MOST,
            tls=tls,
            handshake_s=handshake_s,
        )
        (bound,) = listening_sockets("127.0.0.1", 0)
        self.port: int = bound.getsockname()[1]
        self.listener.listen([bound])

    async def until(self, greeted: int, connections: int) -> None:
        """Wait until so many are amid their handshake, and so many behind it."""
        async with asyncio.timeout(_COMES_S):
            while (self.listener.greeted, len(self.connections)) != (greeted, connections):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)

    async def opened(self, tls: ssl.SSLContext | None = None) -> asyncio.StreamWriter:
        """Open a connection that is answered."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        return writer

    async def silent(self) -> socket.socket:
        """Open a connection on which nothing is sent."""
        connection = socket.socket()
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self.port))
        return connection


@asynccontextmanager
async def _served(tls: ssl.SSLContext | None = None, handshake_s: float = 60.0) -> AsyncIterator[_Served]:
    served = _Served(tls, handshake_s)
    try:
        yield served
    finally:
        await served.listener.close()


async def _is_ended(connection: socket.socket) -> bool:
    async with asyncio.timeout(_COMES_S):
        try:
            return await asyncio.get_running_loop().sock_recv(connection, 1) == b""
        except ConnectionResetError:
            return True
        finally:
            connection.close()


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The server's, and a client's."""
    authority = Authority()
    return authority.server_context(tmp_path), ssl.create_default_context(cadata=authority.cert.decode())


def test_a_connection_beyond_the_bound_is_closed_and_one_that_ends_makes_room() -> None:
    async def scenario() -> None:
        async with _served() as served:
            writers = [await served.opened() for _ in range(_MOST)]
            assert await _is_ended(await served.silent())
            writers.pop().close()
            await served.until(0, _MOST - 1)
            writers.append(await served.opened())
            for writer in writers:
                writer.close()
            await served.until(0, 0)

    asyncio.run(scenario())


def test_handshakes_that_do_not_go_on_count_and_end_in_time(
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    server, client = tls

    async def scenario() -> None:
        async with _served(server, handshake_s=2.0) as served:
            writer = await served.opened(client)
            silent = [await served.silent() for _ in range(_MOST - 1)]
            await served.until(_MOST - 1, 1)
            assert await _is_ended(await served.silent()), "it is one too many"
            assert served.listener.greeted == _MOST - 1
            assert [await _is_ended(each) for each in silent] == [True] * (_MOST - 1)
            await served.until(0, 1)
            another = await served.opened(client)
            for each in (writer, another):
                each.close()
            await served.until(0, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", bytes(100)])
def test_what_is_no_handshake_ends_its_connection_alone(
    sent: bytes, tls: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    server, client = tls

    async def scenario() -> None:
        async with _served(server) as served:
            for _ in range(_MOST + 1):
                connection = await served.silent()
                await asyncio.get_running_loop().sock_sendall(connection, sent)
                await asyncio.to_thread(connection.shutdown, socket.SHUT_WR)
                async with asyncio.timeout(_COMES_S):
                    while await _more(connection):
                        pass
                connection.close()
            await served.until(0, 0)
            (await served.opened(client)).close()

    asyncio.run(scenario())


async def _more(connection: socket.socket) -> bool:
    """Whether the server sends more; an alert of TLS may come before the end."""
    try:
        return await asyncio.get_running_loop().sock_recv(connection, 100) != b""
    except ConnectionResetError:
        return False


def test_an_end_takes_handshakes_with_it(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    server, client = tls

    async def scenario() -> None:
        async with _served(server) as served:
            writer = await served.opened(client)
            silent = await served.silent()
            await served.until(1, 1)
            await served.listener.close()
            assert await _is_ended(silent)
            assert len(served.connections) == 1, "the server ends its own"
            with pytest.raises(ConnectionRefusedError):
                await served.silent()
            writer.close()
            await served.until(0, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EINVAL])
def test_when_no_connection_can_be_accepted_it_rests_and_goes_on(
    number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bounded_listener, "_REST_S", 0.0)

    async def scenario() -> None:
        loop, left = asyncio.get_running_loop(), [3]
        accept = loop.sock_accept

        async def full_at_first(listening: socket.socket) -> Any:
            if left[0]:
                left[0] -= 1
                raise OSError(number, "why not")
            return await accept(listening)

        monkeypatch.setattr(loop, "sock_accept", full_at_first)
        async with _served() as served:
            (await served.opened()).close()
            await served.until(0, 0)

    asyncio.run(scenario())
    assert caplog.messages == ["no connection can be accepted for a second: why not"] * 3


def test_others_have_their_turn_however_many_clients_come(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        loop, accepted, ends = asyncio.get_running_loop(), 0, [socket.socketpair() for _ in range(50)]
        left = [mine for mine, _ in ends]

        async def at_once(_: socket.socket) -> Any:
            nonlocal accepted
            if not left:
                await asyncio.Event().wait()
            accepted += 1
            return left.pop(), None

        monkeypatch.setattr(loop, "sock_accept", at_once)
        async with _served() as served:
            await asyncio.sleep(0)
            assert accepted < 5
            await served.until(0, _MOST)
        for pair in ends:
            for each in pair:
                each.close()

    asyncio.run(scenario())


def test_an_address_that_is_taken_is_an_error() -> None:
    (bound,) = listening_sockets("127.0.0.1", 0)
    with bound, pytest.raises(OSError, match="in use"):
        listening_sockets("127.0.0.1", bound.getsockname()[1])


def test_all_addresses_of_a_name_are_bound() -> None:
    sockets = listening_sockets("localhost", 0)
    assert {each.getsockname()[0] for each in sockets} <= {"127.0.0.1", "::1"}
    assert sockets
    for each in sockets:
        each.close()
