"""CREATE TABLE and INSERT statements of cases, as the objects in which other cases say the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.case import Case, NotClaimed
from tests.conformance.quoted_literals import plain_name, split_list

_NAME: Final = r'(?:"(?:[^"]|"")+"|[\w.]+)'
_CREATE: Final = re.compile(
    rf"\s*CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>{_NAME})\s*\((?P<body>.*)\)\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)
_INSERT: Final = re.compile(
    rf"\s*(?:INSERT|UPSERT)\s+INTO\s+(?P<name>{_NAME})\s*(?:\((?P<columns>[^()]*)\))?\s*(?P<values>VALUES\b.*?)\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)
_COLUMN: Final = re.compile(rf"(?P<name>{_NAME})\s+(?P<type>.+)", re.DOTALL)
_PRIMARY_KEY: Final = re.compile(
    r"(?:CONSTRAINT\s+\S+\s+)?PRIMARY\s+KEY\s*\((?P<columns>[^)]*)\)", re.IGNORECASE
)
_OWN_KEY: Final = re.compile(r"\s+PRIMARY\s+KEY(?P<direction>\s+(?:ASC|DESC))?\b", re.IGNORECASE)
_UNIQUE: Final = re.compile(r"\s+UNIQUE\b", re.IGNORECASE)
_NO_COLUMN: Final = re.compile(r"(?:UNIQUE|INDEX|INVERTED|CONSTRAINT|CHECK|FOREIGN)\b", re.IGNORECASE)
_FAMILY: Final = re.compile(r"\s+FAMILY\b|^FAMILY\b", re.IGNORECASE)


def without_statements(case: Case) -> Case:
    """The case with every table and every write as an object.

    Raises ``ValueError`` for a text that creates no table, or inserts no rows.
    """
    table = case.get("table")
    tables = [_declared(each) if isinstance(each, str) else each for each in _listed(table)]
    writes = [_write(write) for write in case.get("writes", ())]
    return {**case, "table": tables if isinstance(table, list) else tables[0], "writes": writes}


def _listed(table: Any) -> list[Any]:
    return table if isinstance(table, list) else [table]


def _write(write: dict[str, Any]) -> dict[str, Any]:
    if write.get("op") == "txn":
        return {**write, "writes": [_write(each) for each in write["writes"]]}
    if write.get("op") != "insert_sql" or "sql" not in write:
        return write
    match = _INSERT.fullmatch(write["sql"])
    if match is None:
        raise ValueError(f"{write['sql']!r} inserts no rows that the cases' reader knows")
    said = {name: value for name, value in write.items() if name != "sql"}
    columns = (
        {}
        if match["columns"] is None
        else {"columns": [plain_name(each) for each in split_list(match["columns"])]}
    )
    return {
        "table": plain_name(match["name"].rpartition(".")[2]),
        **columns,
        **said,
        "values": match["values"],
    }


def _declared(statement: str) -> Mapping[str, Any]:
    match = _CREATE.fullmatch(statement)
    if match is None:
        raise ValueError(f"{statement!r} creates no table that the cases' reader knows")
    columns: list[dict[str, str]] = []
    keys: list[str] = []
    for item in split_list(match["body"]):
        if _FAMILY.search(item):
            raise NotClaimed("column families are not supported yet")
        if key := _PRIMARY_KEY.fullmatch(item):
            keys = [plain_name(name) for name in split_list(key["columns"])]
        elif (column := _COLUMN.fullmatch(item)) and not _NO_COLUMN.match(item):
            name = plain_name(column["name"])
            if own := _OWN_KEY.search(column["type"]):
                keys = [name + (own["direction"] or "")]
            columns.append({"name": name, "type": _UNIQUE.sub("", _OWN_KEY.sub("", column["type"]))})
    *place, name = match["name"].split(".") if '"' not in match["name"] else [match["name"]]
    named = dict(zip(("schema", "database"), reversed(place), strict=False))
    return {"name": plain_name(name), "columns": columns, "pk": keys, **named}
