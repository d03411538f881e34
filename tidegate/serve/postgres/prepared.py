"""The state of the extended protocol between messages: prepared statements, and portals bound to them."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import RequestRefused
from tidegate.serve.limits import ServeLimits
from tidegate.serve.postgres import wire
from tidegate.serve.postgres.command_reader import NO_PARAMETERS
from tidegate.serve.postgres.commands import Command
from tidegate.serve.postgres.cursor import Cursor
from tidegate.serve.postgres.kept_names import KeptNames
from tidegate.serve.postgres.small_answers import SmallAnswer
from tidegate.serve.postgres.sql_words import not_supported
from tidegate.serve.stream_source import StreamColumns


@dataclass(slots=True)
class Portal:
    """A command that is about to be executed, or that was executed in part.

    Attributes:
        command: what it executes; ``None`` for an empty statement.
        described: the columns that the client has been told.
        cursor: the subscription, once it is open.
        answer: the answer to a small command, once there is one.
        until_s: when the time of a FETCH is over, by the monotonic clock; ``None`` if it has no such time.
        given: how many of its rows were given.
        is_done: whether it gives no more rows.
    """

    command: Command | None
    described: StreamColumns | None = None
    cursor: Cursor | None = None
    answer: SmallAnswer | None = None
    until_s: float | None = None
    given: int = 0
    is_done: bool = False


class PreparedStatements:
    """The prepared statements and portals of a session, both within the limits of a session."""

    __slots__ = ("_statements", "portals")

    def __init__(self, limits: ServeLimits) -> None:
        self._statements: KeptNames[Command | None] = KeptNames("prepared statements", limits)
        self.portals: KeptNames[Portal] = KeptNames("portals", limits)

    def require_room(self, message: wire.Parse) -> None:
        """Raise ``RequestRefused`` where this statement cannot be prepared, before it is read."""
        if message.statement and message.statement in self._statements:
            raise RequestRefused(
                f'prepared statement "{message.statement[:60]}" already exists', "name_taken", "42P05"
            )
        if message.param_types:
            raise not_supported(NO_PARAMETERS)
        self._statements.require_room(message.statement, len(message.query))

    def keep(self, message: wire.Parse, command: Command | None) -> None:
        """Keep the command that was read from a statement, by the statement's name."""
        self._statements.put(message.statement, command, len(message.query))

    def command(self, name: str) -> Command | None:
        """Return a prepared statement. Raises ``RequestRefused`` for an unknown one."""
        if name not in self._statements:
            raise RequestRefused(f'prepared statement "{name[:60]}" does not exist', "unknown_name", "26000")
        return self._statements[name]

    def bind(self, message: wire.Bind) -> Portal:
        """Make a portal of a prepared statement. Raises ``RequestRefused``, also for a name that is taken."""
        if message.param_values:
            raise not_supported(NO_PARAMETERS)
        if any(message.result_formats):
            raise not_supported("binary results are not supported: ask for text")
        if message.portal in self.portals:
            raise RequestRefused(f'portal "{message.portal[:60]}" already exists', "name_taken", "42P03")
        portal = Portal(self.command(message.statement))
        self.portals.put(message.portal, portal, self._statements.characters(message.statement))
        return portal

    def portal(self, name: str) -> Portal:
        """Return a portal. Raises ``RequestRefused`` for an unknown one."""
        if name not in self.portals:
            raise RequestRefused(f'portal "{name[:60]}" does not exist', "unknown_name", "34000")
        return self.portals[name]

    def forget(self, name: str) -> None:
        """Drop a prepared statement. An empty name stands for all of them.

        Raises ``RequestRefused`` for an unknown name.
        """
        if name:
            self.command(name)
            self._statements.pop(name)
        else:
            self._statements.clear()

    def close(self, name: str) -> None:
        """Drop a prepared statement, if it is there."""
        self._statements.pop(name)
