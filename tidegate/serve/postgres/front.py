"""The PostgreSQL front: takes connections, lets clients in, and runs a session for each."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from tidegate.errors import RequestRefused, TidegateError, WireBroken
from tidegate.serve.encoded_batches import EncodedBatches
from tidegate.serve.limits import ServeLimits
from tidegate.serve.postgres import wire
from tidegate.serve.postgres.cancel_keys import CancelKeys
from tidegate.serve.postgres.client_stream import ClientStream
from tidegate.serve.postgres.command_reader import CommandReader
from tidegate.serve.postgres.error_fields import error_fields
from tidegate.serve.postgres.login import Admission, Client, admit, begin
from tidegate.serve.postgres.session import Session
from tidegate.serve.stream_source import Subscriptions

_LOG: Final = logging.getLogger(__name__)
#: The class of SQLSTATEs of logins that are refused.
_LOGIN_CLASS: Final = "28"
_SECRET_BYTES: Final = {wire.PROTOCOL_3_0: 4, wire.PROTOCOL_3_2: 32}


class PostgresFront:
    """A server for clients of PostgreSQL's protocol. Nothing that one client does stops the others."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        admission: Admission | None = None,
        limits: ServeLimits | None = None,
        encoded: EncodedBatches | None = None,
    ) -> None:
        self._subscriptions = subscriptions
        self._admission = admission or Admission()
        self._limits = limits or ServeLimits()
        self._encoded = encoded or EncodedBatches()
        self._reader = CommandReader()
        self._keys = CancelKeys()
        self._streams: set[ClientStream] = set()
        self._sessions = 0
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port at which it listens."""
        assert self._server is not None
        host, port, *_ = self._server.sockets[0].getsockname()
        return host, port

    @property
    def connections(self) -> int:
        """The number of connections, before and after their login."""
        return len(self._streams)

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises ``OSError``."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: ClientStream(self._limits, self._serve), host, port)

    async def close(self) -> None:
        """Stop listening, and end all sessions."""
        if self._server is not None:
            self._server.close()
        tasks = [stream.task for stream in self._streams]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._reader.close()

    async def _serve(self, stream: ClientStream) -> None:
        self._streams.add(stream)
        try:
            if len(self._streams) <= 2 * self._limits.connections:
                await self._greet(stream)
        except asyncio.CancelledError:
            _say_last(stream, _server_ends())
        except ConnectionError:
            pass
        except (TidegateError, TimeoutError) as error:
            refused = str(getattr(error, "sqlstate", "")).startswith(_LOGIN_CLASS)
            self._subscriptions.counts.refused_logins["postgres"] += refused
            _say_last(stream, error)
        except OSError as error:  # an error of TLS: the client cannot be told any more
            _LOG.info("A connection of the PostgreSQL front broke, and its statement ends: %s", error)
        except Exception as error:
            _say_last(stream, error)
        finally:
            self._streams.discard(stream)
            stream.close()

    async def _greet(self, stream: ClientStream) -> None:
        try:
            async with asyncio.timeout(self._limits.startup_s):
                message = await begin(stream, self._admission, self._limits)
                if isinstance(message, wire.CancelRequest):
                    self._keys.cancel(message.process_id, message.secret_key)
                    return
                if message is None:
                    return
                if not isinstance(message, wire.StartupMessage):
                    raise WireBroken("A startup message is waited for, and something else came")
                self._require_room()
                client = await admit(stream, message, self._admission, self._limits)
        except TimeoutError:
            raise RequestRefused(
                f"the login took longer than {self._limits.startup_s:g} s", "startup_timeout", "08006"
            ) from None
        if client is not None:
            await self._converse(stream, client)

    async def _converse(self, stream: ClientStream, client: Client) -> None:
        self._require_room()
        self._sessions += 1
        session = Session(stream, client, self._subscriptions, self._limits, self._encoded, self._reader)
        process_id, secret = self._keys.add(session.cancel, _SECRET_BYTES[client.protocol])
        try:
            await session.serve(process_id, secret)
        finally:
            self._sessions -= 1
            self._keys.remove(process_id)

    def _require_room(self) -> None:
        if self._sessions >= self._limits.connections:
            raise RequestRefused(
                f"sorry, too many clients already: {self._limits.connections} are connected",
                "too_many_connections",
                "53300",
                "close one, or try again later",
            )


def _server_ends() -> RequestRefused:
    return RequestRefused("the server ends: connect again, and resume", "interrupted", "57P01")


def _say_last(stream: ClientStream, error: BaseException) -> None:
    with contextlib.suppress(ConnectionError):
        stream.write_now(wire.error(error_fields(error, fatal=True)))
