"""HTTP connections that no client holds by doing nothing, or next to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, ClassVar, Final

from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_MIB: Final = 1 << 20


class CountingTransport:
    """A connection's transport that counts what is written: ``unread`` is what its client may not have read.

    Over TLS a transport does not tell that.
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
    """Ends a connection whose client holds it: without a whole request, or without reading its answer.

    1. A client has ``request_s`` seconds for a request: from the connection, or the answer before it, to the
       last byte. uvicorn has a time for a silent connection alone: a byte now and then would hold one for
       ever.
    2. A client has as long to read what waits for it, and as long again for each MiB of that. This is not so
       for the paths in ``streams``: a subscription waits for its client.
    3. A client that sends more while it gets a subscription is ended. Nothing is read then behind what it has
       sent, not even that it is gone.
    4. A client that sends bytes that are not HTTP gets 400, if the answer to its request has not begun, and
       is ended. That answer is given up. What the client sends after that is not read.
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
        """Take bytes of a request. If it is whole, nothing is waited for."""
        if self.transport.is_closing():
            return
        if not self._is_answering():  # the client has read, and asks again
            if self._counted.unread >= _MIB:
                self._stop_watching()  # that time was for reading
            self._counted.unread = 0
        super().data_received(data)
        if self._is_streaming() and self.conn.trailing_data[0]:
            self.transport.abort()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer that a request is none. Where nothing can be said any more, end the connection."""
        if self._is_answering():
            self.cycle.disconnected = True  # its answer would be sent after this one
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except LocalProtocolError:
            self.transport.abort()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        if self.scope["path"] in self.streams:  # its client has read all but the last of it
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

        If its client has not read the answers before, end it: no browser asks before it has read, and nobody
        would tell the WebSocket that it has to wait.
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
        """Let the time run while the client is waited for. What it sends meanwhile does not stop it."""
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
    """Return the protocol of connections with this bound in seconds, for uvicorn to make them of."""
    return type("BoundedHttp", (BoundedHttp,), {"request_s": request_s, "streams": streams})
