"""A web front over topics in memory, with real sockets, and clients of it."""

from __future__ import annotations

import asyncio
import json
import math
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from tests.unit.serve.memory_subscriptions import MemorySubscriptions
from tests.unit.serve.postgres.served import bound_buffers
from tidegate.serve.addresses import ListenAddress
from tidegate.serve.encoded_batches import EncodedBatches
from tidegate.serve.limits import ServeLimits
from tidegate.serve.web.bounded_http import BoundedHttp
from tidegate.serve.web.front import WebFront
from tidegate.serve.web.guard import WebAccess
from tidegate.serve.web.watched_feeds import WatchedFeeds

LOOPBACK = ListenAddress("127.0.0.1", 0)
#: A bound that no machine reaches within a test.
LONG_S = 60.0


@dataclass(slots=True)
class ServedWeb:
    """A front that listens, and what it reads from."""

    front: WebFront
    source: MemorySubscriptions

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.front.address[1]}"

    @property
    def connection(self) -> BoundedHttp:
        """The server's side of the only HTTP connection."""
        assert self.front._server is not None
        (found,) = self.front._server.server_state.connections
        assert isinstance(found, BoundedHttp)
        return found

    @property
    def left_s(self) -> float:
        """The seconds that the only connection has left; endless while its client is not waited for."""
        timer = self.connection._deadline
        return math.inf if timer is None else timer.when() - asyncio.get_running_loop().time()

    def give(self, request_s: float) -> None:
        """Give the clients of all connections this time from now on."""
        assert self.front._server is not None
        protocol: Any = self.front._server.config.http_protocol_class
        protocol.request_s = request_s
        for each in self.front._server.server_state.connections:
            if isinstance(each, BoundedHttp):
                each._stop_watching()
                each._watch()

    async def get(
        self, path: str, tls: ssl.SSLContext | None = None, before: str = "", **headers: str
    ) -> WebAnswer:
        """Ask, and read the answer's head; header names have ``_`` for ``-``.

        With a request ``before`` on the connection, the head is that of its answer.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self.front.address[1], ssl=tls)
        bound_buffers(writer.get_extra_info("socket"))
        sent = {"host": self.place, **{name.replace("_", "-"): value for name, value in headers.items()}}
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        writer.write(f"{before}GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        first = (await reader.readline()).decode()
        found: dict[str, str] = {}
        while (line := (await reader.readline()).decode().strip()) != "":
            name, _, value = line.partition(":")
            found[name.lower()] = value.strip()
        return WebAnswer(int(first.split()[1]) if first else 0, found, reader, writer)

    async def subscribe(self, statement: str, path_options: str = "", **headers: str) -> WebAnswer:
        query = urlencode({"statement": statement})
        return await self.get(f"/subscribe?{query}{path_options}", None, **headers)


@dataclass(slots=True)
class WebAnswer:
    """An answer: its head, and its body as it comes."""

    status: int
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    _rest: bytes = b""

    async def line(self) -> bytes:
        """The next line of the body; empty at its end."""
        while b"\n" not in self._rest:
            piece = await self._piece()
            if not piece:
                found, self._rest = self._rest, b""
                return found
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"

    async def message(self) -> Any:
        """The next line as JSON; ``None`` at the end."""
        line = await self.line()
        return json.loads(line) if line else None

    async def event(self) -> dict[str, str]:
        """The next server-sent event, comments left out."""
        fields: dict[str, str] = {}
        while True:
            line = (await self.line()).decode().rstrip("\n")
            if not line and fields:
                return fields
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value

    async def body(self) -> bytes:
        """All of the body."""
        found = [self._rest]
        while piece := await self._piece():
            found.append(piece)
        return b"".join(found)

    async def _piece(self) -> bytes:
        if "content-length" in self.headers:
            length = int(self.headers.pop("content-length"))
            self.headers["content-length"] = "0"
            return await self.reader.readexactly(length)
        size = int((await self.reader.readline() or b"0").strip() or b"0", 16)
        found = await self.reader.readexactly(size)
        await self.reader.readline()
        return found

    def close(self) -> None:
        self.writer.close()


class LargePage(WatchedFeeds):
    """A page of feeds that has more bytes than sockets hold."""

    BYTES = 8 << 20

    def __init__(self) -> None:
        pass

    async def now(self) -> tuple[HTTPStatus, bytes]:
        return HTTPStatus.OK, b"x" * self.BYTES

    def close(self) -> None:
        pass


@asynccontextmanager
async def serving_web(
    source: MemorySubscriptions | None = None,
    access: WebAccess | None = None,
    tls: ssl.SSLContext | None = None,
    limits: ServeLimits | None = None,
    encoded: EncodedBatches | None = None,
    ping_s: float = 15.0,
    feeds: WatchedFeeds | None = None,
) -> AsyncIterator[ServedWeb]:
    """A front while the context lasts. At its end nothing is left open."""
    source = source or MemorySubscriptions()
    front = WebFront(source, access or WebAccess(LOOPBACK), tls, limits, encoded, ping_s=ping_s, feeds=feeds)
    await front.start()
    bound_buffers(front._socket)
    try:
        yield ServedWeb(front, source)
    finally:
        await front.close()
    assert not source.open_streams
