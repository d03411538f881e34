"""The tables of changefeed cases as descriptors, and the rows that cases spell for them.

Of a table a case gives its name, its columns in order and its primary key. Families are left out: the groups
that are about families are not claimed. Two kinds of column come from their types' text: a VIRTUAL one has no
datum in a row; a STORED one is computed here, as a source would.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from tests.conformance.case import Case
from tests.conformance.literals import datum_of, json_of
from tests.conformance.sql_literals import sql_literal, stored
from tidegate.hlc import Timestamp
from tidegate.rows import Column, Datum, Family, Json, KeyPart, SqlType, TableDescriptor, parse_sql_type

_HIDDEN: Final = " (hidden)"
_NOT_NULL: Final = re.compile(r"\s+NOT NULL\b", re.IGNORECASE)
_COMPUTED: Final = re.compile(r"\s+AS\s*\((?P<formula>[^()]*)\)\s*(?P<how>VIRTUAL|STORED)\b", re.IGNORECASE)
_DEFAULT: Final = re.compile(r"\s+DEFAULT\s+(?P<literal>.+)$", re.IGNORECASE)
_FORMULA: Final = re.compile(r"\s*(?P<column>\w+)\s*(?P<sign>[+*-])\s*(?P<number>\d+)\s*")


class _Declared(NamedTuple):
    """A column as its case declares it."""

    name: str
    type: SqlType
    nullable: bool
    virtual: bool
    formula: str
    default: str


class CaseTable:
    """A table of a case: its descriptor, and how the case's rows become datums."""

    def __init__(self, table: Mapping[str, Any], enums: Mapping[str, Sequence[str]], table_id: int) -> None:
        declared = [_declare(column, enums) for column in table["columns"]]
        self._columns = [column for column in declared if not column.virtual]
        self._virtual = {column.name for column in declared if column.virtual}
        self._rowids = count(1_000_001)
        keys = [str(name) for name in table["pk"]]
        hidden = [name.removesuffix(_HIDDEN) for name in keys if name.endswith(_HIDDEN)]
        rowids = [_Declared(name, parse_sql_type("INT"), False, False, "", "") for name in hidden]
        self._columns += rowids
        self.descriptor = _descriptor(table, table_id, [*declared, *rowids], keys)
        in_rows = [column for column in self.descriptor.columns if column.in_rows]
        positions = {column.id: at for at, column in enumerate(in_rows)}
        self.key_positions = tuple(positions[part.column_id] for part in self.descriptor.primary_key)

    @property
    def name(self) -> str:
        """The table's name in the case."""
        return self.descriptor.name

    def row(self, spelled: Mapping[str, Any], *, rounded: bool) -> tuple[Datum, ...]:
        """The datums of a whole row; columns that are not named have their default, or NULL.

        ``rounded`` for what SQL would store; otherwise a decimal keeps the digits that the case spells.
        """
        known = {column.name for column in self._columns} | self._virtual
        if unknown := spelled.keys() - known:
            raise ValueError(f"table {self.name} has no column {', '.join(sorted(unknown))}")
        return self._whole(
            {
                column.name: _datum(column.type, spelled[column.name], rounded=rounded)
                for column in self._columns
                if column.name in spelled
            }
        )

    def literals(
        self, texts: Sequence[str], names: Sequence[str] = (), *, rounded: bool
    ) -> tuple[Datum, ...]:
        """The datums of a row of SQL literals, for all columns that are not computed or for ``names``."""
        by_name = {column.name: column for column in self._columns}
        plain = [name for name, column in by_name.items() if not column.formula and not self._is_hidden(name)]
        return self._whole(
            {
                name: sql_literal(by_name[name].type, text, rounded=rounded)
                for name, text in zip(names or plain, texts, strict=True)
            }
        )

    def changed(
        self, row: Sequence[Datum], assigned: Mapping[str, Any], *, rounded: bool
    ) -> tuple[Datum, ...]:
        """The row after an UPDATE."""
        names = [column.name for column in self._columns]
        types = {column.name: column.type for column in self._columns}
        if unknown := assigned.keys() - set(names):
            raise ValueError(f"table {self.name} has no column {', '.join(sorted(unknown))}")
        kept = dict(zip(names, row, strict=True))
        new = {name: _datum(types[name], value, rounded=rounded) for name, value in assigned.items()}
        return self._whole(kept | new)

    def key(self, spelled: Any) -> tuple[Datum, ...]:
        """The datums of a primary key."""
        values = spelled if isinstance(spelled, list) else [spelled]
        types = [self._columns[at].type for at in self.key_positions]
        return tuple(_datum(kind, value, rounded=True) for kind, value in zip(types, values, strict=True))

    def key_of(self, row: Sequence[Datum]) -> tuple[Datum, ...]:
        """The primary key of a whole row."""
        return tuple(row[at] for at in self.key_positions)

    def _is_hidden(self, name: str) -> bool:
        return any(column.hidden and column.name == name for column in self.descriptor.columns)

    def _whole(self, given: dict[str, Datum]) -> tuple[Datum, ...]:
        for column in self._columns:
            if self._is_hidden(column.name):
                given.setdefault(column.name, next(self._rowids))
            elif column.default:
                given.setdefault(column.name, sql_literal(column.type, column.default))
        for column in self._columns:
            if column.formula:
                given[column.name] = _compute(column.formula, given)
        return tuple(given.get(column.name) for column in self._columns)


def case_tables(case: Case, table_ids: Iterator[int]) -> dict[str, CaseTable]:
    """The tables of a case by name; each takes the next of ``table_ids``."""
    return {
        table["name"]: CaseTable(table, _enums(case, table), next(table_ids)) for table in tables_in(case)
    }


def tables_in(case: Case) -> list[dict[str, Any]]:
    """The tables as the case declares them, with the database and schema that are only told by its topics."""
    tables = case["table"] if isinstance(case["table"], list) else [case["table"]]
    return [{**_place(case, table), **table} for table in tables]


def _place(case: Case, table: Mapping[str, Any]) -> dict[str, str]:
    """Database and schema, where the expected topics are full names and the table itself does not say."""
    if not case["options"].get("full_table_name"):
        return {}
    for text in case["expect"].get("records", ()):
        full_name = text.partition(": ")[0].split(".")
        if len(full_name) == 3 and full_name[2] == table["name"]:
            return {"database": full_name[0], "schema": full_name[1]}
    return {}


def _enums(case: Case, table: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Labels by type name, where they do not stand in the column's type itself."""
    found: dict[str, Sequence[str]] = {}
    for holder in (case, table):
        for name in ("enums", "types"):
            found |= holder.get(name) or {}
    return found


def _declare(column: Mapping[str, Any], enums: Mapping[str, Sequence[str]]) -> _Declared:
    text = str(column["type"])
    computed = _COMPUTED.search(text)
    not_null = _NOT_NULL.search(text) is not None
    text = _NOT_NULL.sub("", _COMPUTED.sub("", text))
    default = _DEFAULT.search(text)
    text = _DEFAULT.sub("", text).strip()
    labels = next((column[name] for name in ("labels", "enum") if name in column), enums.get(text))
    if labels is not None:
        text = f"{text}({', '.join(labels)})"
    return _Declared(
        name=column["name"],
        type=parse_sql_type(text),
        nullable=not not_null,
        virtual=computed is not None and computed["how"].upper() == "VIRTUAL",
        formula="" if computed is None else computed["formula"],
        default="" if default is None else default["literal"],
    )


def _descriptor(
    table: Mapping[str, Any], table_id: int, declared: Sequence[_Declared], keys: Sequence[str]
) -> TableDescriptor:
    hidden = {name.removesuffix(_HIDDEN) for name in keys if name.endswith(_HIDDEN)}
    parts = [name.removesuffix(_HIDDEN) for name in keys]
    names = [part.removesuffix(" DESC").removesuffix(" ASC") for part in parts]
    columns = tuple(
        Column(
            number,
            column.name,
            column.type,
            nullable=column.nullable and column.name not in names,
            hidden=column.name in hidden,
            virtual=column.virtual,
        )
        for number, column in enumerate(declared, 1)
    )
    ids = {column.name: column.id for column in columns}
    return TableDescriptor(
        id=table_id,
        name=table["name"],
        version=1,
        modified=Timestamp(0, 1),  # below whatever time a case gives to its writes
        columns=columns,
        primary_key=tuple(
            KeyPart(ids[name], descending=part.endswith(" DESC"))
            for name, part in zip(names, parts, strict=True)
        ),
        families=(Family(0, "primary", tuple(column.id for column in columns if not column.virtual)),),
        database=table.get("database", "defaultdb"),
        schema=table.get("schema", "public"),
    )


def _datum(sql_type: SqlType, value: Any, *, rounded: bool) -> Datum:
    if isinstance(value, dict) and value.keys() == {"jsonb"}:
        return Json(json_of(value["jsonb"]))
    if value is None:
        return None
    datum = datum_of(sql_type, value)
    return stored(sql_type, datum) if rounded else datum


def _compute(formula: str, row: Mapping[str, Datum]) -> Datum:
    match = _FORMULA.fullmatch(formula)
    if match is None:
        raise ValueError(f"the cases' reader cannot compute a column AS ({formula})")
    value, number = row.get(match["column"]), int(match["number"])
    if not isinstance(value, int):
        return None
    return {"+": value + number, "-": value - number, "*": value * number}[match["sign"]]
