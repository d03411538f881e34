"""What the extended protocol keeps between its messages: prepared statements, and portals bound to them."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import RequestRefused
from tidegate.serve.postgres import wire
from tidegate.serve.postgres.commands import Command, read_command
from tidegate.serve.postgres.cursor import Cursor
from tidegate.serve.postgres.sql_words import not_supported, statements, syntax_error
from tidegate.serve.stream_source import StreamColumns

_PARAMETERS = "parameters are not supported: write the values into the statement (psycopg: sql.Literal)"


@dataclass(slots=True)
class Portal:
    """A command that is about to be executed, or has been in part.

    Attributes:
        command: what it executes; ``None`` for an empty statement.
        described: the columns that the client was told.
        cursor: the subscription, once it is open.
        given: how many of its rows were given.
    """

    command: Command | None
    described: StreamColumns | None = None
    cursor: Cursor | None = None
    given: int = 0


class PreparedStatements:
    """The prepared statements and portals of a session, up to a number of each."""

    __slots__ = ("_most", "_statements", "portals")

    def __init__(self, most: int) -> None:
        self._statements: dict[str, Command | None] = {}
        self.portals: dict[str, Portal] = {}
        self._most = most

    def parse(self, message: wire.Parse) -> Command | None:
        """Prepare a statement. Raises ``RequestRefused``."""
        if message.statement and message.statement in self._statements:
            raise RequestRefused(
                f'prepared statement "{message.statement[:60]}" already exists', "name_taken", "42P05"
            )
        found = statements(message.query)
        if len(found) > 1:
            raise syntax_error("cannot insert multiple commands into a prepared statement")
        if message.param_types or any(word.text == "$" for each in found for word in each.words):
            raise not_supported(_PARAMETERS)
        command = read_command(found[0]) if found else None
        self._require_room(self._statements, message.statement, "prepared statements")
        self._statements[message.statement] = command
        return command

    def command(self, name: str) -> Command | None:
        """Return a prepared statement. Raises ``RequestRefused`` for an unknown one."""
        if name not in self._statements:
            raise RequestRefused(f'prepared statement "{name[:60]}" does not exist', "unknown_name", "26000")
        return self._statements[name]

    def bind(self, message: wire.Bind) -> Portal:
        """Make a portal of a prepared statement. Raises ``RequestRefused``, also for a name that is taken."""
        if message.param_values:
            raise not_supported(_PARAMETERS)
        if any(message.result_formats):
            raise not_supported("binary results are not supported: ask for text")
        if message.portal in self.portals:
            raise RequestRefused(f'portal "{message.portal[:60]}" already exists', "name_taken", "42P03")
        self._require_room(self.portals, message.portal, "portals")
        portal = Portal(self.command(message.statement))
        self.portals[message.portal] = portal
        return portal

    def portal(self, name: str) -> Portal:
        """Return a portal. Raises ``RequestRefused`` for an unknown one."""
        if name not in self.portals:
            raise RequestRefused(f'portal "{name[:60]}" does not exist', "unknown_name", "34000")
        return self.portals[name]

    def forget(self, name: str) -> None:
        """Drop a prepared statement, or all of them with an empty name."""
        if name:
            self.command(name)
            del self._statements[name]
        else:
            self._statements.clear()

    def close(self, name: str) -> None:
        """Drop a prepared statement, if it is there."""
        self._statements.pop(name, None)

    def _require_room(
        self, kept: dict[str, Portal] | dict[str, Command | None], name: str, what: str
    ) -> None:
        if name not in kept and len(kept) >= self._most:
            raise RequestRefused(f"A session has up to {self._most} {what}", "too_many_names", "54000")
