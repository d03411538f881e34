"""Carries out the commands of one session, and writes their results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final, assert_never

from tidegate.errors import RequestRefused
from tidegate.serve.encoded_batches import EncodedBatches
from tidegate.serve.limits import ServeLimits
from tidegate.serve.postgres import wire
from tidegate.serve.postgres.client_stream import ClientStream
from tidegate.serve.postgres.commands import (
    BeginBlock,
    CloseCursor,
    Command,
    CopyOut,
    Deallocate,
    Declare,
    Discard,
    EndBlock,
    Fetch,
    SelectConstants,
    SetSetting,
    ShowColumns,
    ShowSetting,
    ShowTables,
    Subscribe,
)
from tidegate.serve.postgres.cursor import Cursor
from tidegate.serve.postgres.login import Client
from tidegate.serve.postgres.prepared import Portal, PreparedStatements
from tidegate.serve.postgres.session_settings import SessionSettings
from tidegate.serve.postgres.small_answers import SmallAnswer, answer
from tidegate.serve.postgres.transaction import SessionTransaction
from tidegate.serve.postgres.value_text import copy_line, row_values
from tidegate.serve.stream_source import StreamColumns, Subscriptions
from tidegate.subscribe.updates.relation import Relations
from tidegate.subscribe.updates.update import RowValues

_MOST_ROWS: Final = 2**63 - 1
_ROWS: Final = "postgres rows"
_COPY: Final = "postgres copy"
_GIVE_ROWS: Final = (Subscribe, Fetch, ShowTables, ShowColumns, ShowSetting, SelectConstants)


def encode_rows(rows: Sequence[RowValues]) -> bytes:
    """Encode rows as DataRow messages."""
    return wire.data_rows(map(row_values, rows))


def encode_copy(rows: Sequence[RowValues]) -> bytes:
    """Encode rows as CopyData messages."""
    return wire.copy_rows(map(copy_line, rows))


class CommandRun:
    """The commands of one session. ``position`` is where its SUBSCRIBE begins in the query."""

    def __init__(
        self,
        stream: ClientStream,
        client: Client,
        subscriptions: Subscriptions,
        limits: ServeLimits,
        encoded: EncodedBatches,
        transaction: SessionTransaction,
        prepared: PreparedStatements,
    ) -> None:
        self._stream = stream
        self._client = client
        self._subscriptions = subscriptions
        self._encoded = encoded
        self._transaction = transaction
        self._prepared = prepared
        self._settings = SessionSettings(limits.names)
        self.position = 0
        self.process_id = 0

    async def simple(self, command: Command) -> None:
        """Carry out a command of a simple query. The client gets its columns, then its rows."""
        match command:
            case Subscribe() | CopyOut():
                cursor = await self._open(command.text, command.position)
                try:
                    await self._stream.write(self._head(command, cursor))
                    await self._to_the_end(command, cursor, 0)
                finally:
                    await cursor.close()
            case Fetch():
                columns = self._transaction.cursor(command.cursor).columns
                await self._stream.write(wire.row_description(columns))
                await self._fetch(command, Portal(command), 0)
            case ShowTables() | ShowColumns() | ShowSetting() | SelectConstants():
                small = await self._answer(command)
                await self._stream.write(wire.row_description(small.columns))
                await self._small_rows(Portal(command, answer=small), 0)
            case _:
                await self._plain(command)

    async def execute(self, portal: Portal, max_rows: int) -> None:
        """Carry out a portal, which was described before. Give up to ``max_rows`` rows; 0 stands for all.

        A portal that is carried out again goes on after the rows that it has given.
        """
        match portal.command:
            case None:
                await self._stream.write(wire.EMPTY_QUERY)
            case Subscribe() | CopyOut() as command:
                await self._execute_subscribe(command, portal, max_rows)
            case Fetch() as command:
                await self._fetch(command, portal, max_rows)
            case ShowTables() | ShowColumns() | ShowSetting() | SelectConstants() as command:
                portal.answer = portal.answer or await self._answer(command)
                await self._small_rows(portal, max_rows)
            case command:
                await self._plain(command)

    async def described(self, command: Command | None) -> StreamColumns | None:
        """Return the columns of a command's rows; ``None`` for a command that gives no rows.

        In a block that has failed, only commands that give no rows are described.
        """
        self._transaction.require_not_failed(ends=not isinstance(command, _GIVE_ROWS))
        match command:
            case Subscribe():
                self.position = command.position
                return await self._subscriptions.describe(command.text, dialect=self._settings.dialect)
            case Fetch():
                return self._transaction.cursor(command.cursor).columns
            case ShowTables() | ShowColumns() | ShowSetting() | SelectConstants():
                return (await self._answer(command)).columns
        return None

    async def describe_portal(self, name: str) -> StreamColumns | None:
        """Return the columns of a portal, or of a cursor, which is a portal too."""
        if self._is_cursor(name):
            return self._transaction.cursor(name).columns
        portal = self._prepared.portal(name)
        portal.described = await self.described(portal.command)
        return portal.described

    async def execute_named(self, name: str, max_rows: int) -> None:
        """Carry out a portal by its name, or a cursor, which is a portal too.

        In a block that has failed, only portals that end the block are carried out.
        """
        if self._is_cursor(name):
            self._transaction.require_not_failed(ends=False)
            portal = Portal(Subscribe(""), cursor=self._transaction.cursor(name))
        else:
            portal = self._prepared.portal(name)
            self._transaction.require_not_failed(ends=isinstance(portal.command, EndBlock))
        await self.execute(portal, max_rows)

    def _is_cursor(self, name: str) -> bool:
        return name in self._transaction.cursors and name not in self._prepared.portals

    async def close_portal(self, name: str) -> None:
        """End a portal or a cursor, if it is there."""
        if self._is_cursor(name):
            cursor = self._transaction.cursors.pop(name)
            if cursor is not None:
                await cursor.close()
            return
        portal = self._prepared.portals.pop(name)
        if portal is not None and portal.cursor is not None:
            await portal.cursor.close()

    async def end_transaction(self) -> None:
        """End what a transaction has: its cursors, and all portals."""
        for cursor in self._transaction.end():
            await cursor.close()
        for name in self._prepared.portals.names():
            await self.close_portal(name)

    async def close(self) -> None:
        """End the session's transaction, with its cursors and portals."""
        await self.end_transaction()

    async def _open(self, text: str, position: int) -> Cursor:
        self.position = position
        self._transaction.reads.begin_subscribe()
        return Cursor(await self._subscriptions.open(text, dialect=self._settings.dialect))

    def _head(self, command: Subscribe | CopyOut, cursor: Cursor) -> bytes:
        if isinstance(command, CopyOut):
            return wire.copy_out(len(cursor.columns.header))
        return wire.row_description(cursor.columns)

    async def _to_the_end(self, command: Subscribe | CopyOut, cursor: Cursor, rows: int) -> int:
        """Give all rows that are left. Returns how many were given in all; ``rows`` were given before."""
        copies = isinstance(command, CopyOut)
        form, encode = (_COPY, encode_copy) if copies else (_ROWS, encode_rows)
        for piece in cursor.rest():
            await self._stream.write(encode(piece))
            rows += len(piece)
            await asyncio.sleep(0)
        async for batch in cursor.batches():
            for count, chunk in self._encoded.chunks(batch, form, encode):
                await self._stream.write(chunk)
                rows += count
                await asyncio.sleep(0)  # a client that never waits must not hold up the others
        await self._stream.write(
            wire.COPY_DONE + wire.complete(f"COPY {rows}") if copies else wire.complete(f"SUBSCRIBE {rows}")
        )
        return rows

    async def _execute_subscribe(self, command: Subscribe | CopyOut, portal: Portal, max_rows: int) -> None:
        if portal.cursor is None:
            portal.cursor = await self._open(command.text, command.position)
            if portal.described is not None and portal.described != portal.cursor.columns:
                raise RequestRefused(
                    "the columns have changed since they were described",
                    "columns_changed",
                    "0A000",
                    "try again",
                )
        if isinstance(command, CopyOut):  # at each execution: CopyDone has to follow a CopyOutResponse
            await self._stream.write(self._head(command, portal.cursor))
        if isinstance(command, CopyOut) or not max_rows:
            portal.given = await self._to_the_end(command, portal.cursor, portal.given)
            return
        portal.given += await self._rows(portal.cursor, max_rows, None)
        ended = portal.cursor.ended
        await self._stream.write(
            wire.complete(f"SUBSCRIBE {portal.given}") if ended else wire.PORTAL_SUSPENDED
        )

    async def _fetch(self, command: Fetch, portal: Portal, max_rows: int) -> None:
        cursor = self._transaction.cursor(command.cursor)
        if not portal.is_done:
            left = command.count - portal.given
            most = min(left, max_rows) if max_rows else left
            given = await self._rows(cursor, most, _wait_s(command, portal))
            portal.given += given
            if given == most < left:
                await self._stream.write(wire.PORTAL_SUSPENDED)
                return
            portal.is_done = True
        await self._stream.write(wire.complete(f"FETCH {portal.given}"))

    async def _small_rows(self, portal: Portal, max_rows: int) -> None:
        assert portal.answer is not None
        left = portal.answer.rows[portal.given :]
        given = left[:max_rows] if max_rows else left
        portal.given += len(given)
        end = wire.complete(f"{portal.answer.tag} {portal.given}")
        rows = encode_rows([tuple(row) for row in given])
        await self._stream.write(rows + (end if len(given) == len(left) else wire.PORTAL_SUSPENDED))

    async def _rows(self, cursor: Cursor, most: int, timeout_s: float | None) -> int:
        given = 0
        async for piece in cursor.rows(most, timeout_s):
            await self._stream.write(encode_rows(piece))
            given += len(piece)
            await asyncio.sleep(0)
        return given

    async def _answer(self, command: ShowTables | ShowColumns | ShowSetting | SelectConstants) -> SmallAnswer:
        names_tables = isinstance(command, ShowTables | ShowColumns)
        relations = await self._subscriptions.relations() if names_tables else Relations(())
        return answer(command, relations, self._settings, self._client, self.process_id)

    async def _plain(self, command: Command) -> None:
        """Carry out a command that gives no rows."""
        match command:
            case BeginBlock():
                self._transaction.begin()
                tag = "BEGIN"
            case EndBlock():
                failed = self._transaction.status is wire.FAILED
                await self.end_transaction()
                tag = "COMMIT" if command.commit and not failed else "ROLLBACK"
            case Declare():
                self._transaction.require_new_cursor(command.cursor, len(command.text))
                cursor = await self._open(command.text, command.position)
                self._transaction.cursors.put(command.cursor, cursor, len(command.text))
                tag = "DECLARE CURSOR"
            case CloseCursor():
                await self._close_cursors(command.cursor)
                tag = "CLOSE CURSOR"
            case SetSetting():
                self._settings.set(command.name, command.value)
                tag = "SET"
            case Deallocate():
                self._prepared.forget(command.name)
                tag = "DEALLOCATE"
            case Discard():
                self._settings.clear()
                self._prepared.forget("")
                tag = "DISCARD ALL"
            case (
                Subscribe()
                | CopyOut()
                | Fetch()
                | ShowTables()
                | ShowColumns()
                | ShowSetting()
                | SelectConstants()
            ):
                raise AssertionError(command)
            case never:
                assert_never(never)
        await self._stream.write(wire.complete(tag))

    async def _close_cursors(self, name: str) -> None:
        names = [name] if name else self._transaction.cursors.names()
        for each in names:
            cursor = self._transaction.cursor(each)
            self._transaction.cursors.pop(each)
            await cursor.close()


def _wait_s(command: Fetch, portal: Portal) -> float | None:
    """Return how many seconds a FETCH waits for rows; ``None`` if it waits until there is a row.

    A FETCH that was suspended and goes on waits for what is left of its time.
    """
    if command.timeout_s is None:
        return 0.0 if portal.given else None
    if portal.until_s is None:
        portal.until_s = time.monotonic() + command.timeout_s
    return max(portal.until_s - time.monotonic(), 0.0)
