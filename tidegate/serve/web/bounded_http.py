"""HTTP connections that a client cannot keep open by doing nothing, or almost nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, ClassVar, Final

from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_MIB: Final = 1 << 20


class CountingTransport:
    """A connection's transport that counts the bytes that are written.

    ``unread`` is how many of them the client may not have read. Over TLS a transport does not tell that.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.unread = 0

    def write(self, data: bytes) -> None:
        """Write bytes, and count them."""
        self.unread += len(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedHttp(H11Protocol):
    """Ends a connection if its client does not complete a request, or does not read its answer.

    1. A client has ``request_s`` seconds for a request. They begin with the connection, or with the end of
       the last answer, and end with the last byte of the request. uvicorn has such a time only for a silent
       connection: a byte now and then would keep the connection for ever.
    2. A client has ``request_s`` seconds to read the bytes that wait for it, and as many more for each MiB of
       them. This does not hold for the paths in ``streams``: a subscription waits for its client.
    3. If a client sends more while it gets a subscription, its connection is ended. Otherwise nothing after
       these bytes would be read, not even the end of the connection.
    4. If a client sends bytes that are not HTTP, its connection is ended. The client gets 400 before, unless
       the answer to its request has begun. That answer is not completed. What the client sends after that is
       not read.
    """

    request_s: ClassVar[float]
    streams: ClassVar[Collection[str]]
    _deadline: asyncio.TimerHandle | None = None
    _is_full = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as there
        """Begin to wait for the first request."""
        self._counted = CountingTransport(transport)
        super().connection_made(self._counted)  # type: ignore[arg-type] # it has all that a transport has
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request. Once the request is whole, its time is over."""
        if self.transport.is_closing():
            return
        if not self._is_answering():  # the client has read, and asks again
            if self._counted.unread >= _MIB:
                self._stop_watching()  # the time that runs was for reading
            self._counted.unread = 0
        super().data_received(data)
        if self._is_streaming() and self.conn.trailing_data[0]:
            self.transport.abort()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer that the bytes are no request. If no answer is possible any more, end the connection."""
        if self._is_answering():
            self.cycle.disconnected = True  # otherwise its answer would follow this one
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except LocalProtocolError:
            self.transport.abort()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        if self.scope["path"] in self.streams:  # its client has read all but the last bytes
            self._counted.unread = 0
        self._watch()

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        super().pause_writing()
        self._is_full = True
        self._watch()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        self._is_full = False
        self._stop_watching()
        self._watch()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Make a WebSocket of the connection.

        If its client has not read earlier answers, end the connection: the WebSocket would not learn that it
        has to wait. A browser always reads before it asks for a WebSocket.
        """
        if self._is_full:
            self.transport.abort()
        else:
            super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock of the connection, which has ended."""
        super().connection_lost(exc)
        self._stop_watching()

    def _watch(self) -> None:
        """Let the time run while the server waits for the client. Bytes of the client do not stop it."""
        if self._is_upgraded() or (self._is_answering() and not self._is_held()):
            self._stop_watching()
        elif self._deadline is None:
            shares = 1 + self._counted.unread // _MIB
            self._deadline = self.loop.call_later(shares * self.request_s, self.transport.abort)

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # it is annotated as never None
        return cycle is not None and not (cycle.response_complete or cycle.disconnected)

    def _is_streaming(self) -> bool:
        return not self._is_upgraded() and self._is_answering() and self.scope["path"] in self.streams

    def _is_held(self) -> bool:
        return self._is_full and not self._is_streaming()

    def _is_upgraded(self) -> bool:
        return self.transport.get_protocol() is not self

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def bounded_http(request_s: float, streams: Collection[str]) -> type[BoundedHttp]:
    """Return a protocol class with this bound in seconds. uvicorn makes its connections of it."""
    return type("BoundedHttp", (BoundedHttp,), {"request_s": request_s, "streams": streams})
