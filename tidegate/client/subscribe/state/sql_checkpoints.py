"""Checkpoints in the database of the consumer's table: one commit of the user stores rows and token.

The connection is the user's, of ``sqlite3`` or psycopg 3; neither is imported here.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.client.subscribe.state.checkpoint import (
    Clock,
    fenced,
    next_epoch,
    require_name,
    wall_clock_ms,
)
from tidegate.client.subscribe.state.sql_dialect import (
    Connection,
    SqlDialect,
    begins_by_itself,
    is_amid_transaction,
    needs_begin,
    plain_row,
)
from tidegate.errors import SettingsError

_RAISE_EPOCH: Final = (
    "INSERT INTO tidegate_checkpoints (name, epoch, token, updated) VALUES (?, ?, NULL, CURRENT_TIMESTAMP) "
    "ON CONFLICT (name) DO UPDATE SET updated = CURRENT_TIMESTAMP, epoch = CASE "
    "WHEN tidegate_checkpoints.epoch < excluded.epoch THEN excluded.epoch "
    "ELSE tidegate_checkpoints.epoch + 1 END"
)
_READ: Final = "SELECT epoch, token FROM tidegate_checkpoints WHERE name = ?"
_COMMIT: Final = (
    "UPDATE tidegate_checkpoints SET token = ?, updated = CURRENT_TIMESTAMP WHERE name = ? AND epoch = ?"
)
_REQUIRE_HELD: Final = (
    "UPDATE tidegate_checkpoints SET updated = CURRENT_TIMESTAMP WHERE name = ? AND epoch = ?"
)
#: PostgreSQL's ``serialization_failure``: in a transaction above READ COMMITTED, the row was changed since.
_CHANGED_SINCE: Final = "40001"


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A checkpoint in a database that this process has acquired."""

    name: str
    epoch: int
    token: str | None
    _connection: Any = field(repr=False)
    _dialect: SqlDialect = field(repr=False)

    def commit(self, token: str) -> None:
        """Store a token within the transaction that is open, or that this statement begins. The user commits
        it.

        Call it before the rows are applied. Then a process that is fenced gets ``Fenced``, and no error of
        the database about its rows. And nobody can acquire the checkpoint before the transaction ends.

        Raises ``Fenced`` if another process has acquired the checkpoint: let this error end the transaction,
        so that its rows are rolled back. Raises ``SettingsError`` if rows and token would not be in one
        transaction. Other errors are the driver's.
        """
        self._execute(_COMMIT, (token, self.name, self.epoch))

    def require_held(self) -> None:
        """Raise ``Fenced`` if another process has acquired the checkpoint; the token stays as it is.

        Call it in a transaction that stores no token: that of a chunk of a snapshot. Until the transaction
        ends, nobody acquires the checkpoint. Raises as ``commit``.
        """
        self._execute(_REQUIRE_HELD, (self.name, self.epoch))

    def _execute(self, statement: str, parameters: tuple[object, ...]) -> None:
        """Execute a statement that changes the checkpoint's row if that has the epoch of this process."""
        if not is_amid_transaction(self._connection) and not begins_by_itself(self._connection):
            raise SettingsError(
                f"The token of the checkpoint {self.name} would be stored apart from the rows: the "
                "connection is in autocommit. Begin a transaction, and within it commit the token and apply "
                "the batch"
            )
        cursor = self._connection.cursor()
        try:
            cursor.execute(self._dialect.statement(statement), parameters)
        except Exception as error:
            if getattr(error, "sqlstate", None) != _CHANGED_SINCE:
                raise
            raise fenced(self.name, self.epoch, "its row was changed by another transaction") from error
        if cursor.rowcount < 0:
            raise SettingsError(
                f"The driver does not say whether the token of the checkpoint {self.name} was stored, as in "
                "psycopg's pipeline mode: commit it outside of that"
            )
        if cursor.rowcount != 1:
            raise fenced(self.name, self.epoch, "another process has acquired it, or its row was deleted")

    def close(self) -> None:
        """Do nothing: the connection belongs to the user."""


class SqlCheckpoints:
    """Checkpoints in the table ``tidegate_checkpoints`` of the connection's database."""

    __slots__ = ("_clock", "_connection", "_dialect")

    def __init__(self, connection: Connection, dialect: SqlDialect, clock: Clock = wall_clock_ms) -> None:
        """``dialect`` is `SQLITE` or `POSTGRES`."""
        self._connection = connection
        self._dialect = dialect
        self._clock = clock

    def acquire(self, name: str) -> HeldRow:
        """Raise the epoch of the name, and return its token, in a transaction of its own.

        Creates the table where it is missing. Raises ``SettingsError`` amid a transaction. Other errors are
        the driver's; nothing was acquired then.
        """
        require_name(name)
        if is_amid_transaction(self._connection):
            raise SettingsError(
                f"The checkpoint {name} has to be acquired in a transaction of its own, or others would not "
                "be fenced by it: commit or roll back what is open on the connection first"
            )
        explicit = needs_begin(self._connection)
        cursor = self._connection.cursor()
        try:
            if explicit:
                cursor.execute(self._dialect.begin)
            self._create_table(cursor)
            cursor.execute(self._dialect.statement(_RAISE_EPOCH), (name, next_epoch(0, self._clock())))
            cursor.execute(self._dialect.statement(_READ), (name,))
            epoch, token = plain_row(cursor.fetchone())
            cursor.execute("COMMIT") if explicit else self._connection.commit()
        except BaseException:
            with suppress(Exception):  # the first error counts; a broken connection has no more to say
                cursor.execute("ROLLBACK") if explicit else self._connection.rollback()
            raise
        return HeldRow(name, int(epoch), token, self._connection, self._dialect)

    def _create_table(self, cursor: Any) -> None:
        cursor.execute(self._dialect.finds_table)
        if plain_row(cursor.fetchone())[0] is None:
            if self._dialect.locks_creation:
                cursor.execute(self._dialect.locks_creation)
            cursor.execute(self._dialect.table)
