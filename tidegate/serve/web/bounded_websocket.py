"""WebSockets with bounds: a client that does not read neither keeps one open nor fills memory."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class EndingTransport:
    """A connection's transport that closes within a time, whether its client reads or not.

    asyncio's ``close`` waits until all that was written is read, which may be never.
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
        """Let the time run after which the connection is cut. A second call does nothing."""
        if self._deadline is None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._close_s, self._transport.abort)

    def ended(self) -> None:
        """Stop the time: the connection is gone."""
        if self._deadline is not None:
            self._deadline.cancel()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """Bounds what waits for a client, and how long a client that reads nothing keeps its place.

    1. A ping is answered at once while its client reads. While more than ``waiting_bytes`` wait for the
       client, the answer to its newest ping alone is kept (RFC 6455, 5.5.3), and nothing more is read from
       it. So a client that only pings fills no memory. Reading does not stop before such a ping, because the
       answers to the server's own pings have to be heard.
    2. A close has ``close_s`` seconds, whoever begins it: the subscription, the server, the client, or the
       time for the answer to a ping. Then the connection is cut.
    """

    waiting_bytes: ClassVar[int]
    close_s: ClassVar[float]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection."""
        self._ending = EndingTransport(transport, self.close_s)  # type: ignore[arg-type] # it has all of one
        self._late_pong = b""
        self._is_held = False  # not read from, since a ping cannot be answered yet
        self.close_timeout = self.close_s
        super().connection_made(self._ending)  # type: ignore[arg-type] # it has all that a transport has
        self.transport.set_write_buffer_limits(self.waiting_bytes)

    def data_received(self, data: bytes) -> None:
        """Take bytes. A client that sends frames before it has the answer to its request is ended."""
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
        """Answer a ping, now or when its client has read."""
        if self.writable.is_set():
            super().handle_ping()
            return
        answers = self.conn.data_to_send()
        if answers:  # those to all pings of one read come with the first
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
        """Take a part of a message. Empty parts count for nothing, and there may be any number of them."""
        if event.data or event.fin:
            super().handle_cont(event)

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next message. uvicorn reads on then, so stop it where a ping waits."""
        message = await super().receive()
        if self._is_held:
            self.transport.pause_reading()
        return message

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message when there is room. For a close the time runs at once."""
        if message["type"] == "websocket.close":
            self._ending.end_soon()
        await super().send(message)

    def _give_up(self) -> None:
        """End the connection without an answer: uvicorn cannot answer once such frames were parsed."""
        self.disconnected = self.close_sent = self.handshake_complete = True
        self.transport.abort()


def bounded_websocket(waiting_bytes: int, close_s: float) -> type[BoundedWebSocket]:
    """Return the protocol of WebSockets with these bounds, for uvicorn to make them of."""
    return type("BoundedWebSocket", (BoundedWebSocket,), {"waiting_bytes": waiting_bytes, "close_s": close_s})
