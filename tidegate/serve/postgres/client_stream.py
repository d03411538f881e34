"""The bytes of one client, in both directions.

Bytes that a client sends ahead wait in a buffer with a bound. Writing waits until the client reads on; other
clients do not wait for it. The server notices that a client is gone even while a command runs.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tidegate.errors import WireBroken
from tidegate.serve.keepalive import keep_alive
from tidegate.serve.limits import ServeLimits

#: How many bytes may wait in the buffer beside the longest message. When there are more, reading pauses. The
#: buffer may still get longer: a transport hands over up to 256 KiB at a time.
_SLACK_BYTES: Final = 64 * 1024


class ClientStream(asyncio.Protocol):
    """A connection, from its start to its end."""

    def __init__(
        self,
        limits: ServeLimits,
        serve: Callable[[ClientStream], Coroutine[Any, Any, None]],
    ) -> None:
        """``serve`` is run for the connection as a task of its own."""
        self._limits = limits
        self._serve = serve
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._most_waiting = limits.message_bytes + _SLACK_BYTES
        self._read_waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._reading_paused = False
        self._ahead_until: asyncio.TimerHandle | None = None
        self._taken_at = 0.0  # when the session took its last message, by the loop's clock
        self._is_too_far_ahead = False
        #: Whether the client has closed the connection, or the connection broke.
        self.gone = False
        #: This is called when the client is gone, or too far ahead. It ends the command that runs.
        self.on_gone: Callable[[], None] | None = None
        self.encrypted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(self._limits.waiting_bytes)
        connection = transport.get_extra_info("socket")
        if connection is not None:
            keep_alive(connection)
        self.task = asyncio.get_running_loop().create_task(self._serve(self))

    def data_received(self, data: bytes) -> None:
        """Keep the bytes, and stop reading while there are too many."""
        self._buffer += data
        if len(self._buffer) > self._most_waiting and not self._reading_paused:
            self._reading_paused = True
            self._writer.pause_reading()
            self._taken_at = asyncio.get_running_loop().time()
            self._look_ahead()
        self._wake(self._read_waiter)

    def eof_received(self) -> bool:
        """End the connection when the client ends its side, as PostgreSQL's protocol wants it."""
        self._end()
        return False

    def connection_lost(self, _: Exception | None) -> None:
        """Note that the connection is gone, and wake whoever reads or writes."""
        self._end()
        self._wake(self._drained)

    def pause_writing(self) -> None:
        """Make writers wait: the client does not read."""
        if self._drained is None or self._drained.done():
            self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Let writers go on: the client has read."""
        self._wake(self._drained)

    async def read(self, length_of: Callable[[bytes], int | None]) -> bytes | None:
        """Return the next frame; ``None`` at the end of the connection.

        ``length_of`` returns a frame's length from its first bytes; ``None`` if these bytes are too few.
        """
        while True:
            length = length_of(bytes(self._buffer[:8]))
            if length is not None and len(self._buffer) >= length:
                frame = bytes(self._buffer[:length])
                del self._buffer[:length]
                self._taken_at = asyncio.get_running_loop().time()
                self._read_on()
                return frame
            if self.gone:
                return None
            self._read_waiter = asyncio.get_running_loop().create_future()
            await self._read_waiter

    async def write(self, data: bytes) -> None:
        """Send whole messages, and wait until the client has taken enough. Raises as ``require_there`` does.

        If it is cancelled while it waits, no message stays half sent: it waits after all bytes were handed
        over.
        """
        self.write_now(data)
        while self._drained is not None and not self._drained.done():
            await asyncio.shield(self._drained)
        self.require_there()

    def require_there(self) -> None:
        """Raise ``ConnectionError`` if the client is gone, and ``WireBroken`` if it is too far ahead."""
        if self.gone:
            raise ConnectionResetError("the client is gone")
        if self._is_too_far_ahead:
            raise WireBroken(
                f"More was sent ahead than is read, and nothing was read for {self._limits.ahead_s:g} s, "
                "because a command runs: the connection ends. Send less ahead, or cancel the command"
            )

    def write_now(self, data: bytes) -> None:
        """Send bytes without waiting, for the last bytes of a connection. Raises ``ConnectionError``."""
        if self.gone:
            raise ConnectionResetError("the client is gone")
        self._writer.write(data)

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Go on in TLS. Raises ``WireBroken`` if bytes came before TLS, since anybody can have sent them.
        Raises ``ConnectionError`` if the client is gone.
        """
        if self._buffer:
            raise WireBroken(
                "Bytes came after the request for TLS and before TLS: they could be anybody's. "
                "The connection ends"
            )
        transport = await asyncio.get_running_loop().start_tls(
            self._writer, self, context, server_side=True, ssl_handshake_timeout=self._limits.startup_s
        )
        if transport is None:
            raise ConnectionResetError("the client is gone")
        self._transport = transport
        transport.set_write_buffer_limits(self._limits.waiting_bytes)
        self.encrypted = True

    def close(self) -> None:
        """End the connection once the client has what was written, or after ``close_s`` seconds."""
        self._writer.close()
        asyncio.get_running_loop().call_later(self._limits.close_s, self._writer.abort)

    @property
    def _writer(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def _read_on(self) -> None:
        if self._reading_paused and len(self._buffer) <= self._most_waiting:
            self._reading_paused = False
            self._writer.resume_reading()
            self._stop_waiting()

    def _end(self) -> None:
        if self.gone:
            return
        self.gone = True
        self._stop_waiting()
        self._wake(self._read_waiter)
        if self.on_gone is not None:
            self.on_gone()

    def _look_ahead(self) -> None:
        """End the command of a client whose session has taken no message for too long.

        While nothing is read from the client, the server cannot notice that it is gone.
        """
        loop = asyncio.get_running_loop()
        until = self._taken_at + self._limits.ahead_s
        if loop.time() < until:
            self._ahead_until = loop.call_at(until, self._look_ahead)
            return
        self._is_too_far_ahead = True
        self._wake(self._drained)
        if self.on_gone is not None:
            self.on_gone()

    def _stop_waiting(self) -> None:
        if self._ahead_until is not None:
            self._ahead_until.cancel()

    @staticmethod
    def _wake(waiter: asyncio.Future[None] | None) -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
