"""Answers commands whose answer is a few rows of texts: SHOW, and SELECT of constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tidegate.errors import RequestRefused
from tidegate.serve.postgres.commands import (
    SelectConstants,
    ShowColumns,
    ShowSetting,
    ShowTables,
)
from tidegate.serve.postgres.login import Client
from tidegate.serve.postgres.session_settings import VERSION_TEXT, SessionSettings
from tidegate.serve.stream_source import ShownType, StreamColumns
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.updates.relation import TABLE, Relations

_UNNAMED: Final = "?column?"
_DIGITS_OF_INT8: Final = 18


class SmallAnswer(NamedTuple):
    """The answer to a small command: columns, rows, and the command's tag, without the number of rows."""

    columns: StreamColumns
    rows: Sequence[Sequence[str | int]]
    tag: str


def answer(
    command: ShowTables | ShowColumns | ShowSetting | SelectConstants,
    relations: Relations,
    settings: SessionSettings,
    client: Client,
    process_id: int,
) -> SmallAnswer:
    """Answer a command. Raises ``RequestRefused`` and ``SubscribeStatementError`` for unknown names."""
    match command:
        case ShowTables():
            tables = sorted(str(each.name) for each in relations if each.kind == TABLE)
            return _texts(("name",), [(name,) for name in tables])
        case ShowColumns():
            return _columns_of(command.table, relations)
        case ShowSetting():
            return _texts((command.name,), [(settings.get(command.name),)])
    functions = _functions(settings, client, process_id)
    names, types, values = [], [], []
    for item in command.items:
        if isinstance(item, str):
            value = functions.get(item)
            if value is None:
                raise RequestRefused(
                    f"SELECT {item[:60]} is not supported: this server gives subscriptions alone",
                    "not_supported",
                    "0A000",
                    "SHOW TABLES says what can be subscribed to; SUBSCRIBE <table> shows it",
                )
        else:
            value = item.value
        whole = isinstance(value, int) or (
            not isinstance(item, str)
            and item.kind == "number"
            and value.isdigit()
            and len(value) <= _DIGITS_OF_INT8
        )
        names.append(item if isinstance(item, str) else _UNNAMED)
        types.append(ShownType.INT8 if whole else ShownType.TEXT)
        values.append(value)
    return SmallAnswer(StreamColumns(tuple(names), tuple(types)), [values], "SELECT")


def _columns_of(parts: tuple[str, ...], relations: Relations) -> SmallAnswer:
    found = relations.named(parts)
    if len(found) != 1:
        raise StatementFault.UNKNOWN_RELATION.error(f"unknown catalog item '{'.'.join(parts)[:200]}'")
    key = found[0].primary_key
    return _texts(("name", "key"), [(name, "yes" if name in key else "") for name in found[0].columns])


def _texts(names: tuple[str, ...], rows: Sequence[Sequence[str]]) -> SmallAnswer:
    return SmallAnswer(StreamColumns(names, (ShownType.TEXT,) * len(names)), rows, "SHOW")


def _functions(settings: SessionSettings, client: Client, process_id: int) -> Mapping[str, str | int]:
    return {
        "version": VERSION_TEXT,
        "current_database": client.database,
        "current_catalog": client.database,
        "current_schema": settings.get("search_path"),
        "current_user": client.user,
        "session_user": client.user,
        "user": client.user,
        "pg_backend_pid": process_id,
        "true": "t",
        "false": "f",
    }
