"""A client of a WebSocket that breaks its rules is no error of the server."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import product

import pytest

from tests.unit.serve.memory_subscriptions import MemorySubscriptions, until
from tests.unit.serve.postgres.served import run
from tests.unit.serve.web.served_web import serving_web
from tidegate.serve.web.small_reads import READ_BYTES

#: A close; a frame with a bit that no extension has; a text.
FRAMES = (b"\x88\x80\0\0\0\0", b"\xf1\x80\0\0\0\0", b"\x81\x81\0\0\0\0a")


PATHS = ("/subscribe?statement=SUBSCRIBE+accounts", "/nothing")
ASKS = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nX: "
)


def test_frames_before_the_answer_end_the_connection_without_a_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with serving_web(MemorySubscriptions()) as served:
            for path, frame in product(PATHS, FRAMES):
                reader, writer = await asyncio.open_connection("127.0.0.1", served.front.address[1])
                head = f"GET {path} HTTP/1.1\r\nHost: {served.place}\r\n{ASKS}".encode()
                # The head fills one read: the frames come in the next turn, before the answer.
                writer.write(head + b"a" * (READ_BYTES - len(head) - 4) + b"\r\n\r\n" + frame * 10)
                with suppress(ConnectionError):  # it is reset, since nobody reads what it has sent
                    await reader.read()
                await until(lambda: not served.front.connections, "the connection has ended")
                await until(lambda: not served.source.open_streams, "its subscription has ended")
                assert [
                    each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR
                ] == [], (path, frame)
                writer.close()

    run(test)
