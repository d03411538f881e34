"""HTTP connections that no client holds by doing nothing, or next to nothing."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_MIB: Final = 1 << 20


class BoundedHttp(H11Protocol):
    """Ends a connection that for ``request_s`` seconds has had no whole request, and no answer under way.

    uvicorn has such a time for a silent connection alone: a byte now and then would hold one for ever. A
    client that still reads a complete answer has as long again for each MiB of it.
    """

    request_s: ClassVar[float]
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as there
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request. If it is whole, nothing is waited for."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._stop_watching()

    def _watch(self) -> None:
        """Let the time run while nothing is answered. What comes in meanwhile does not stop it."""
        if self._is_upgraded() or self._is_answering():
            self._stop_watching()
        elif self._deadline is None:
            shares = 1 + self.transport.get_write_buffer_size() // _MIB
            self._deadline = self.loop.call_later(shares * self.request_s, self.transport.abort)

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # it is annotated as never None
        return cycle is not None and not cycle.response_complete

    def _is_upgraded(self) -> bool:
        return self.transport.get_protocol() is not self

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def bounded_http(request_s: float) -> type[BoundedHttp]:
    """Return the protocol of connections with this bound in seconds, for uvicorn to make them of."""
    return type("BoundedHttp", (BoundedHttp,), {"request_s": request_s})
