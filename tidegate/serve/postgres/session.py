"""The session of one client that has logged in. It reads the client's messages and answers each in turn.

A command runs as a task of its own. The next message is read when the command is done. A cancel ends the task
of the command, and so does the end of the client. The subscription that the task reads ends too. After a
cancel the session goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from tidegate.errors import RequestRefused
from tidegate.serve.encoded_batches import EncodedBatches
from tidegate.serve.limits import ServeLimits
from tidegate.serve.postgres import wire
from tidegate.serve.postgres.client_stream import ClientStream
from tidegate.serve.postgres.command_reader import CommandReader
from tidegate.serve.postgres.command_run import CommandRun
from tidegate.serve.postgres.commands import EndBlock
from tidegate.serve.postgres.error_fields import error_fields
from tidegate.serve.postgres.login import Client
from tidegate.serve.postgres.prepared import PreparedStatements
from tidegate.serve.postgres.session_settings import REPORTED
from tidegate.serve.postgres.sql_words import not_supported
from tidegate.serve.postgres.transaction import SessionTransaction
from tidegate.serve.stream_source import Subscriptions

_PORTAL: Final = "P"
_STATEMENT: Final = "S"
_LARGEST_INT4: Final = 2**31 - 1


class Session:
    """One session."""

    def __init__(
        self,
        stream: ClientStream,
        client: Client,
        subscriptions: Subscriptions,
        limits: ServeLimits,
        encoded: EncodedBatches,
        reader: CommandReader,
    ) -> None:
        self._reader = reader
        self._stream = stream
        self._limits = limits
        self._prepared = PreparedStatements(limits)
        self._transaction = SessionTransaction(limits)
        self._run = CommandRun(
            stream, client, subscriptions, limits, encoded, self._transaction, self._prepared
        )
        self._running: asyncio.Task[None] | None = None
        self._skips_to_sync = False
        stream.on_gone = self.cancel

    def cancel(self) -> None:
        """End the command that runs, if one does."""
        if self._running is not None:
            self._running.cancel()

    async def serve(self, process_id: int, secret: bytes) -> None:
        """Serve the session until its client ends it. Raises ``WireBroken`` and ``ConnectionError``."""
        self._run.process_id = process_id
        reported = b"".join(wire.parameter_status(name, value) for name, value in REPORTED.items())
        await self._stream.write(
            reported + wire.backend_key(process_id, secret) + wire.ready(self._transaction.status)
        )
        length_of = partial(wire.frame_bytes, most_bytes=self._limits.message_bytes)
        try:
            while (frame := await self._stream.read(length_of)) is not None:
                message = wire.read_message(frame, wire.QUERIES)
                if isinstance(message, wire.Terminate):
                    return
                await self._answer(message)
                await asyncio.sleep(0)  # a client that sends many messages ahead must not hold up the others
        finally:
            await self._run.close()

    async def _answer(self, message: wire.Message) -> None:
        match message:
            case wire.Sync():
                self._skips_to_sync = False
                await self._ready()
            case wire.Flush():
                pass  # nothing is held back
            case _ if self._skips_to_sync:
                pass
            case wire.Query():
                await self._guarded(self._simple(message.query_string))
                await self._ready()
            case wire.FunctionCall():
                await self._fail(not_supported("function calls are not supported"))
                await self._ready()
            case _:
                self._skips_to_sync = not await self._guarded(self._extended(message))

    async def _ready(self) -> None:
        """Tell the client that the next query may come.

        Outside a block, the transaction of the command that has run ends first.
        """
        if self._transaction.status is wire.IDLE:
            await self._run.end_transaction()
        await self._stream.write(wire.ready(self._transaction.status))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run ``work`` as a task. If it fails, send its error to the client. Returns whether it succeeded."""
        task = self._running = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:  # the server ends
            task.cancel()
            await asyncio.wait({task})
            raise
        finally:
            self._running = None
        self._stream.require_there()
        if task.cancelled():
            await self._fail(RequestRefused("canceling statement due to user request", "canceled", "57014"))
            return False
        error = task.exception()
        if error is None:
            return True
        if isinstance(error, ConnectionError):
            raise error
        await self._fail(error)
        return False

    async def _fail(self, error: BaseException) -> None:
        self._transaction.fail()
        await self._stream.write(wire.error(error_fields(error, position=self._run.position)))

    async def _simple(self, text: str) -> None:
        self._run.position = 0
        commands = await self._reader.query(text)
        if not commands:
            await self._stream.write(wire.EMPTY_QUERY)
        for command in commands:
            if isinstance(command, RequestRefused):
                raise command
            self._transaction.require_not_failed(ends=isinstance(command, EndBlock))
            await self._run.simple(command)
            await asyncio.sleep(0)

    async def _extended(self, message: wire.Message) -> None:
        self._run.position = 0
        match message:
            case wire.Parse():
                self._prepared.require_room(message)
                command = await self._reader.prepared(message.query)
                self._transaction.require_not_failed(ends=isinstance(command, EndBlock))
                self._prepared.keep(message, command)
                await self._stream.write(wire.PARSE_COMPLETE)
            case wire.Bind():
                command = self._prepared.command(message.statement)
                self._transaction.require_not_failed(ends=isinstance(command, EndBlock))
                if not message.portal:
                    await self._run.close_portal("")
                self._prepared.bind(message)
                await self._stream.write(wire.BIND_COMPLETE)
            case wire.Describe(kind="S"):
                described = await self._run.described(self._prepared.command(message.name))
                await self._stream.write(wire.NO_PARAMETERS + _row_description(described))
            case wire.Describe(kind="P"):
                await self._stream.write(_row_description(await self._run.describe_portal(message.name)))
            case wire.Execute():
                most = message.max_rows if message.max_rows <= _LARGEST_INT4 else 0  # negative on the wire
                await self._run.execute_named(message.portal, most)
            case wire.Close(kind="P"):
                await self._run.close_portal(message.name)
                await self._stream.write(wire.CLOSE_COMPLETE)
            case wire.Close(kind="S"):
                self._prepared.close(message.name)
                await self._stream.write(wire.CLOSE_COMPLETE)
            case _:
                raise RequestRefused(
                    f"unexpected message {type(message).__name__}", "unexpected_message", "08P01"
                )


def _row_description(columns: Any) -> bytes:
    return wire.NO_DATA if columns is None else wire.row_description(columns)
