"""The differences between SQLite and PostgreSQL in SQL for the table of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol


class Connection(Protocol):
    """A connection of the DB-API (PEP 249): of ``sqlite3``, or of psycopg 3."""

    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """The SQL of one database, where databases differ.

    Attributes:
        parameter: the placeholder of a parameter in a statement (the DB-API's ``paramstyle``).
        begin: the statement that begins a transaction.
        finds_table: a query with one row, whose value is not NULL if the table exists.
        locks_creation: the statement that lets one process at a time create the table; empty if transactions
            do that by themselves.
        table: the statement that creates the table.
    """

    parameter: str
    begin: str
    finds_table: str
    locks_creation: str
    table: str

    def statement(self, text: str) -> str:
        """Return ``text`` with this database's placeholders in place of each ``?``."""
        return text.replace("?", self.parameter)


SQLITE: Final = SqlDialect(
    parameter="?",
    begin="BEGIN IMMEDIATE",
    finds_table="SELECT max(name) FROM sqlite_master WHERE type = 'table' AND name = 'tidegate_checkpoints'",
    locks_creation="",
    table="CREATE TABLE IF NOT EXISTS tidegate_checkpoints ("
    "name TEXT PRIMARY KEY, epoch INTEGER NOT NULL, token TEXT, updated TEXT NOT NULL)",
)
#: ``to_regclass`` looks along the search path, as the statements of checkpoints do.
POSTGRES: Final = SqlDialect(
    parameter="%s",
    begin="BEGIN",
    finds_table="SELECT to_regclass('tidegate_checkpoints')",
    # CREATE TABLE IF NOT EXISTS of two sessions at the same time fails in one of them.
    locks_creation="SELECT pg_advisory_xact_lock(hashtext('tidegate_checkpoints'))",
    table="CREATE TABLE IF NOT EXISTS tidegate_checkpoints ("
    "name text PRIMARY KEY, epoch bigint NOT NULL, token text, updated timestamptz NOT NULL)",
)


def is_amid_transaction(connection: Any) -> bool:
    """Whether a transaction is open that the caller, or a statement of the caller's, has begun.

    A ``sqlite3`` connection with ``autocommit=False`` (Python 3.12) always has an open transaction, so this
    tells nothing about the caller: it counts as no transaction.
    """
    if hasattr(connection, "in_transaction"):
        return getattr(connection, "autocommit", None) is not False and bool(connection.in_transaction)
    info = getattr(connection, "info", None)
    return info is not None and int(info.transaction_status) != 0  # libpq's PQTRANS_IDLE


def begins_by_itself(connection: Any) -> bool:
    """Whether a statement that changes rows begins a transaction, as the DB-API says."""
    if hasattr(connection, "isolation_level") and hasattr(connection, "in_transaction"):
        mode = getattr(connection, "autocommit", -1)
        return bool(mode is False or (mode == -1 and connection.isolation_level is not None))
    return not getattr(connection, "autocommit", False)


def needs_begin(connection: Any) -> bool:
    """Whether a transaction of several statements has to be begun by a statement of its own.

    ``sqlite3`` begins one by itself before a change, which is too late for a read before it.
    """
    if hasattr(connection, "in_transaction"):
        return getattr(connection, "autocommit", -1) is not False
    return bool(getattr(connection, "autocommit", False))


def plain_row(row: Any) -> tuple[Any, ...]:
    """Return the values of a row, whatever row factory the user's connection has."""
    return tuple(row.values()) if isinstance(row, Mapping) else tuple(row)
