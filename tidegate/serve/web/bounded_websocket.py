"""WebSockets with bounds: a client that does not read can neither keep one open nor fill memory."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class EndingTransport:
    """A connection's transport that closes within ``close_s`` seconds, even if its client does not read.

    asyncio's ``close`` waits until the client has read all that was written. That may never happen.
    """

    def __init__(self, transport: asyncio.Transport, close_s: float) -> None:
        self._transport = transport
        self._close_s = close_s
        self._deadline: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Close the connection when its client has read what was written, or when the time is over."""
        self.end_soon()
        self._transport.close()

    def end_soon(self) -> None:
        """Cut the connection after ``close_s`` seconds. A second call does nothing."""
        if self._deadline is None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._close_s, self._transport.abort)

    def ended(self) -> None:
        """Stop the timer: the connection is gone."""
        if self._deadline is not None:
            self._deadline.cancel()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """Bounds the bytes that wait for a client, and how long a client that reads nothing keeps its connection.

    1. A ping is answered immediately while its client reads. If more than ``waiting_bytes`` wait for the
       client when a ping comes, only the answer to its newest ping is kept (RFC 6455, 5.5.3), and nothing
       more is read from the client. So a client that only pings fills no memory. Before such a ping comes,
       the server goes on reading, because it needs the answers to its own pings.
    2. A close may take ``close_s`` seconds. It does not matter what begins it: the subscription, the server,
       the client, or a ping without an answer. Then the connection is cut.
    """

    waiting_bytes: ClassVar[int]
    close_s: ClassVar[float]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the connection."""
        self._ending = EndingTransport(transport, self.close_s)  # type: ignore[arg-type] # it has all of one
        self._late_pong = b""
        self._is_held = False  # whether reading has stopped, since a ping cannot be answered yet
        self.close_timeout = self.close_s
        super().connection_made(self._ending)  # type: ignore[arg-type] # it has all that a transport has
        self.transport.set_write_buffer_limits(self.waiting_bytes)

    def data_received(self, data: bytes) -> None:
        """Take bytes. End the connection if a client sends frames before it has the answer to its request."""
        if self.transport.is_closing():
            return
        if self.handshake_initiated and not self.handshake_complete:
            self._give_up()
        else:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._ending.ended()

    def handle_ping(self) -> None:
        """Answer a ping: now, or later when its client has read."""
        if self.writable.is_set():
            super().handle_ping()
            return
        answers = self.conn.data_to_send()
        if answers:  # with the first ping of a read come the answers to all of its pings
            self._late_pong = answers[-1]
        self._is_held = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        if not self._is_held:
            return
        self._is_held = False
        late, self._late_pong = self._late_pong, b""
        if not self.transport.is_closing():
            self.transport.write(late)
        if not (self.read_paused or self._is_held):
            self.transport.resume_reading()

    def handle_cont(self, event: Any) -> None:
        """Take a part of a message. Empty parts are passed over: a client may send any number of them."""
        if event.data or event.fin:
            super().handle_cont(event)

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next message. After that uvicorn reads on, so stop reading if a ping waits."""
        message = await super().receive()
        if self._is_held:
            self.transport.pause_reading()
        return message

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message when there is room. The time of a close begins to run before there is room."""
        if message["type"] == "websocket.close":
            self._ending.end_soon()
        await super().send(message)

    def _give_up(self) -> None:
        """End the connection without an answer: if uvicorn parsed such frames, it could not answer."""
        self.disconnected = self.close_sent = self.handshake_complete = True
        self.transport.abort()


def bounded_websocket(waiting_bytes: int, close_s: float) -> type[BoundedWebSocket]:
    """Return a protocol class with these bounds. uvicorn makes its WebSockets of it."""
    return type("BoundedWebSocket", (BoundedWebSocket,), {"waiting_bytes": waiting_bytes, "close_s": close_s})
