"""The transaction of a session: a block from BEGIN to COMMIT, or one command alone."""

from __future__ import annotations

from tidegate.errors import RequestRefused
from tidegate.serve.limits import ServeLimits
from tidegate.serve.postgres import wire
from tidegate.serve.postgres.cursor import Cursor
from tidegate.serve.postgres.kept_names import KeptNames
from tidegate.subscribe.statement.transaction_reads import TransactionReads


class SessionTransaction:
    """The transaction of one session: its state, its cursors, and what it may still read.

    Attributes:
        status: whether a block is open, and whether it has failed.
        reads: which reads are still allowed.
        cursors: the cursors that were declared in it, by name.
    """

    __slots__ = ("cursors", "reads", "status")

    def __init__(self, limits: ServeLimits) -> None:
        self.status = wire.IDLE
        self.reads = TransactionReads()
        self.cursors: KeptNames[Cursor] = KeptNames("cursors", limits)

    def begin(self) -> None:
        """Open a block. If one is open already, nothing changes."""
        if self.status is wire.IDLE:
            self.status, self.reads = wire.IN_TRANSACTION, TransactionReads()

    def end(self) -> list[Cursor]:
        """Leave the block. Returns its cursors, which are to be closed."""
        cursors = [self.cursors[name] for name in self.cursors.names()]
        self.cursors.clear()
        self.status, self.reads = wire.IDLE, TransactionReads()
        return cursors

    def fail(self) -> None:
        """Note that a command failed: within a block every command is refused until the block ends."""
        if self.status is wire.IN_TRANSACTION:
            self.status = wire.FAILED

    def require_not_failed(self, *, ends: bool) -> None:
        """Raise ``RequestRefused`` in a block that has failed, unless the command ends the block."""
        if self.status is wire.FAILED and not ends:
            raise RequestRefused(
                "current transaction is aborted, commands ignored until end of transaction block",
                "transaction_failed",
                "25P02",
            )

    def require_new_cursor(self, name: str, characters: int) -> None:
        """Raise ``RequestRefused`` if no cursor of this name can be declared.

        ``characters`` is the length of its statement.
        """
        if self.status is wire.IDLE:
            raise RequestRefused(
                "DECLARE CURSOR can only be used in transaction blocks",
                "no_transaction",
                "25P01",
                "BEGIN first",
            )
        if name in self.cursors:
            raise RequestRefused(f'cursor "{name[:60]}" already exists', "name_taken", "42P03")
        self.cursors.require_room(name, characters)

    def cursor(self, name: str) -> Cursor:
        """Return a cursor. Raises ``RequestRefused`` for an unknown one."""
        if name not in self.cursors:
            raise RequestRefused(f'cursor "{name[:60]}" does not exist', "unknown_name", "34000")
        return self.cursors[name]
