"""Handles the bytes of a connection a few at a time, so that other clients have their turns in between.

asyncio hands over up to 256 KiB of a client at a time. These may be 40,000 WebSocket frames, or chunks of a
body, which take a second to parse.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

#: The most bytes that are handled in one turn of the loop: some hundreds of the smallest frames.
READ_BYTES: Final = 2 * 1024


class SmallReads(asyncio.Protocol):
    """Gives a protocol the bytes of its connection, up to ``READ_BYTES`` in each turn of the loop.

    While bytes wait here, or the protocol pauses reading, nothing more is read.
    """

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self.protocol = protocol
        self._waiting = b""
        self._turn: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._held = False  # whether the protocol has paused reading
        self.protocol.connection_made(_HeldTransport(transport, self))  # type: ignore[arg-type] # it has all

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection. Bytes that still wait are dropped."""
        self._waiting = b""
        self._stop()
        self.protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes, and give the first of them to the protocol."""
        self._waiting += data
        if self._turn is None and not self._held:
            self._give()

    def eof_received(self) -> bool | None:
        """Pass on that the client sends nothing more."""
        return self.protocol.eof_received()

    def pause_writing(self) -> None:
        """Pass the call on to the protocol."""
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        """Pass the call on to the protocol."""
        self.protocol.resume_writing()

    def hold(self) -> None:
        """Give the protocol no more bytes until ``go_on`` is called."""
        self._held = True
        self._stop()
        self._transport.pause_reading()

    def go_on(self) -> None:
        """Give the protocol the bytes that wait, and read on."""
        self._held = False
        if self._waiting:
            self._later()
        else:
            self._transport.resume_reading()

    def _give(self) -> None:
        self._turn = None
        piece, self._waiting = self._waiting[:READ_BYTES], self._waiting[READ_BYTES:]
        if self._waiting:
            self._transport.pause_reading()
            self._later()
        self.protocol.data_received(piece)
        if not (self._waiting or self._held or self._transport.is_closing()):
            self._transport.resume_reading()

    def _later(self) -> None:
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._give)

    def _stop(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None


class _HeldTransport:
    """The transport that the protocol sees. If the protocol pauses reading, bytes that wait stay here."""

    def __init__(self, transport: asyncio.Transport, reads: SmallReads) -> None:
        self._transport = transport
        self._reads = reads

    def pause_reading(self) -> None:
        self._reads.hold()

    def resume_reading(self) -> None:
        self._reads.go_on()

    def set_protocol(self, protocol: asyncio.Protocol) -> None:
        self._reads.protocol = protocol

    def get_protocol(self) -> asyncio.Protocol:
        return self._reads.protocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
