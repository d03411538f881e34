"""A PostgreSQL front over topics in memory, with real sockets, and clients of it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from tests.unit.serve.memory_subscriptions import MemorySubscriptions
from tidegate.serve.encoded_batches import EncodedBatches
from tidegate.serve.limits import ServeLimits
from tidegate.serve.postgres.front import PostgresFront
from tidegate.serve.postgres.login import Admission
from tidegate.serve.postgres.wire import StartupMessage

_KERNEL_BYTES: Final = 64 * 1024
_HANGS_S: Final = 200.0  # whatever else the machine does: a test takes seconds


@dataclass(slots=True)
class Served:
    """A front that listens, and what it reads from."""

    front: PostgresFront
    source: MemorySubscriptions

    @property
    def port(self) -> int:
        return self.front.address[1]

    def parameters(self, **others: Any) -> dict[str, Any]:
        """Return what psycopg connects with."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": "ada",
            "dbname": "bank",
            "autocommit": True,
            "connect_timeout": 100,
            **others,
        }

    async def connect(self, **others: Any) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(**self.parameters(**others))

    async def raw(self) -> RawClient:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        bound_buffers(writer.get_extra_info("socket"))
        return RawClient(reader, writer)


@dataclass(slots=True)
class RawClient:
    """A client that can send any bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def login(self, user: str = "ada") -> None:
        """Send the startup message, and read all that comes before the first query: there are no users."""
        assert await self.tries_to_log_in(user), "the connection ended before its login"

    async def tries_to_log_in(self, user: str = "ada") -> bool:
        """The same. Returns ``False`` where the connection ends before."""
        with suppress(ConnectionError):
            await self.send(startup_message({"user": user}))
        return (await self.until(b"Z"))[-1][0] == b"Z"

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def query(self, text: str) -> None:
        await self.send(frame(b"Q", text.encode() + b"\0"))

    async def message(self) -> tuple[bytes, bytes]:
        """The next message: its type, and what is in it. An empty type for the end."""
        try:
            head = await self.reader.readexactly(5)
        except (asyncio.IncompleteReadError, ConnectionError):
            return b"", b""
        return head[:1], await self.reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)

    async def until(self, kind: bytes) -> list[tuple[bytes, bytes]]:
        """Messages up to one of this type, or the end."""
        found = [await self.message()]
        while found[-1][0] not in (kind, b""):
            found.append(await self.message())
        return found

    def close(self) -> None:
        self.writer.close()


def bound_buffers(connected: Any) -> None:
    """Bound what the kernel keeps of a connection, or of all that a listening socket accepts.

    Otherwise it depends on the machine how much a client is sent that reads nothing: it may be 30 MiB.
    """
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connected.setsockopt(socket.SOL_SOCKET, option, _KERNEL_BYTES)


def frame(kind: bytes, payload: bytes) -> bytes:
    """A message with the length that it has."""
    return kind + struct.pack("!I", len(payload) + 4) + payload


def startup_message(parameters: dict[str, str]) -> bytes:
    """Return what a client begins with."""
    return StartupMessage(params=parameters).to_wire()


def error_of(payload: bytes) -> dict[str, str]:
    """The fields of an error."""
    return {part[:1].decode(): part[1:].decode() for part in payload.split(b"\0") if part}


@asynccontextmanager
async def serving(
    source: MemorySubscriptions | None = None,
    admission: Admission | None = None,
    limits: ServeLimits | None = None,
    encoded: EncodedBatches | None = None,
) -> AsyncIterator[Served]:
    """A front while the context lasts. At its end nothing is left open."""
    source = source or MemorySubscriptions()
    front = PostgresFront(source, admission, limits, encoded)
    await front.start("127.0.0.1", 0)
    assert front._server is not None
    bound_buffers(front._server.sockets[0])
    try:
        yield Served(front, source)
    finally:
        await front.close()
    assert not source.open_streams


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine; one that hangs fails."""

    async def bounded() -> None:
        async with asyncio.timeout(_HANGS_S):
            await test()

    asyncio.run(bounded())


@asynccontextmanager
async def turns() -> AsyncIterator[list[int]]:
    """How often the loop has had a turn for others while the context lasts: its one number grows."""
    counted = [0]

    async def count() -> None:
        while True:
            await asyncio.sleep(0)
            counted[0] += 1

    counting = asyncio.ensure_future(count())
    try:
        yield counted
    finally:
        counting.cancel()
        await asyncio.wait({counting})
