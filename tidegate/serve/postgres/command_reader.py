"""Reads the commands of clients' queries, so that a long query holds up no other client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias, TypeVar

from tidegate.errors import RequestRefused
from tidegate.serve.postgres.commands import Command, read_command
from tidegate.serve.postgres.sql_words import not_supported, statements, syntax_error
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.statement.parser import MOST_CHARACTERS

#: The most characters of a query that is read in the event loop. It takes some milliseconds.
_SHORT: Final = 4_096
_MOST_COMMANDS: Final = 1_000
#: Why a statement with parameters is refused.
NO_PARAMETERS: Final = (
    "parameters are not supported: write the values into the statement (psycopg: sql.Literal)"
)

_Read = TypeVar("_Read")
#: The commands of a query, in order. If one is refused, its refusal stands last, and no command follows.
QueryCommands: TypeAlias = list[Command | RequestRefused]


class CommandReader:
    """Reads short queries in the event loop, and long ones in a thread, one at a time."""

    __slots__ = ("_thread",)

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "long query")

    async def query(self, text: str) -> QueryCommands:
        """Read the commands of a simple query.

        Raises ``SubscribeStatementError`` for a text that is too long, and ``RequestRefused`` for too many
        commands.
        """
        return await self._read(_query, text)

    async def prepared(self, text: str) -> Command | None:
        """Read a statement that is to be prepared; ``None`` for an empty one.

        Raises ``SubscribeStatementError`` as ``query`` does, and ``RequestRefused`` for a statement that
        cannot be prepared.
        """
        return await self._read(_prepared, text)

    async def _read(self, read: Callable[[str], _Read], text: str) -> _Read:
        if len(text) > MOST_CHARACTERS:
            raise StatementFault.TOO_LARGE.error(
                f"the query has {len(text)} characters, and {MOST_CHARACTERS} are possible"
            )
        if len(text) <= _SHORT:
            return read(text)
        return await asyncio.get_running_loop().run_in_executor(self._thread, read, text)

    def close(self) -> None:
        """End the thread, once it has read what it has begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _query(text: str) -> QueryCommands:
    """Read all commands of a query.

    They are read before the first one runs: that one may run for days, and until then the words of the other
    commands would take much memory.
    """
    cut = statements(text)
    if len(cut) > _MOST_COMMANDS:
        raise RequestRefused(
            f"the query has {len(cut)} commands, and {_MOST_COMMANDS} are possible",
            "too_many_commands",
            "54000",
            "send it in parts",
        )
    found: QueryCommands = []
    for statement in cut:
        try:
            found.append(read_command(statement))
        except RequestRefused as refused:
            return [*found, refused]
    return found


def _prepared(text: str) -> Command | None:
    found = statements(text)
    if len(found) > 1:
        raise syntax_error("cannot insert multiple commands into a prepared statement")
    if any(word.text == "$" for each in found for word in each.words):
        raise not_supported(NO_PARAMETERS)
    return read_command(found[0]) if found else None
