"""The tables of changefeed cases as descriptors, and the rows that cases spell for them.

Of a table a case gives its name, its columns in order and its primary key. Families are left out: the groups
that are about families are not claimed. Two kinds of column come from their types' text: a VIRTUAL one has no
datum in a row; a STORED one is computed here, as a source would. A schema change gives the table's next
version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final, NamedTuple

from tests.conformance.case import Case
from tests.conformance.case_columns import DeclaredColumn, EnumLabels, column_datum, computed_datum, declare
from tests.conformance.case_ddl import (
    AddColumn,
    AddLabel,
    Alteration,
    AlterTable,
    DropColumn,
    OfType,
    RenameColumn,
    RenameLabel,
    RenameTable,
    RenameType,
    SetDefault,
    SetNullable,
)
from tests.conformance.enum_types import (
    created_types,
    has_label,
    has_type,
    with_label,
    with_renamed_label,
    with_type_name,
    written_labels,
)
from tests.conformance.sql_literals import sql_literal
from tidegate.hlc import Timestamp
from tidegate.rows import Column, Datum, Family, KeyPart, SqlType, TableDescriptor, parse_sql_type

_HIDDEN: Final = " (hidden)"
#: The key of a table that declares none.
_ROWID: Final = f"rowid{_HIDDEN}"
_AND: Final = re.compile(r"\s+AND\s+", re.IGNORECASE)
_EQUALS: Final = re.compile(r"\s*(?P<name>\w+)\s*=\s*(?P<literal>.+?)\s*")
#: Below whatever time a case gives to its writes.
_BEGINNING: Final = Timestamp(0, 1)


class _Shared(NamedTuple):
    """The state that all versions of a table share."""

    labels: EnumLabels
    rowids: Iterator[int]
    column_ids: Iterator[int]


class CaseTable:
    """A version of a case's table: its descriptor, and how the case's rows become datums."""

    def __init__(
        self, descriptor: TableDescriptor, declared: Sequence[DeclaredColumn], shared: _Shared
    ) -> None:
        self.descriptor = descriptor
        self._declared = tuple(declared)
        self._shared = shared
        self._columns = [column for column in declared if not column.virtual]
        self._virtual = {column.name for column in declared if column.virtual}
        positions = {column_id: at for at, column_id in enumerate(self._ids_in_rows)}
        self.key_positions = tuple(positions[part.column_id] for part in descriptor.primary_key)

    @classmethod
    def of(cls, table: Mapping[str, Any], labels: EnumLabels, table_id: int) -> CaseTable:
        """The table as the case declares it."""
        declared = [declare(column, labels) for column in table["columns"]]
        keys = [str(name) for name in table.get("pk") or [_ROWID]]
        hidden = [name.removesuffix(_HIDDEN) for name in keys if name.endswith(_HIDDEN)]
        declared += [DeclaredColumn(name, parse_sql_type("INT"), nullable=False) for name in hidden]
        shared = _Shared(labels, count(1_000_001), count(len(declared) + 1))
        return cls(_descriptor(table, table_id, declared, keys), declared, shared)

    def altered(self, change: Alteration, modified: Timestamp) -> CaseTable:
        """The next version of the table, valid from a timestamp on.

        Raises ``ValueError`` for a column that the table does not have, has already, or has in its key.
        """
        descriptor = replace(self.descriptor, version=self.descriptor.version + 1, modified=modified)
        declared: Sequence[DeclaredColumn] = self._declared
        match change:
            case RenameTable():
                descriptor = replace(descriptor, name=change.new)
            case RenameColumn():
                descriptor, declared = self._renamed(descriptor, change)
            case AddColumn():
                descriptor, declared = self._added(descriptor, change)
            case DropColumn():
                descriptor, declared = self._dropped(descriptor, change.name)
            case SetDefault():
                declared = self._with(change.name, default=change.literal)
            case SetNullable():
                declared = self._with(change.name, nullable=change.nullable)
                columns = list(descriptor.columns)
                at = self._position(change.name)
                columns[at] = replace(columns[at], nullable=change.nullable)
                descriptor = replace(descriptor, columns=tuple(columns))
            case AlterTable():
                table = self
                for each in change.changes:
                    table = table.altered(each, modified)
                descriptor, declared = replace(table.descriptor, version=descriptor.version), table._declared
        return CaseTable(descriptor, declared, self._shared)

    def is_changed_by(self, change: OfType) -> bool:
        """Whether a column is of the enum type, and lacks the label that is added, or has the one renamed."""
        if isinstance(change, RenameType):
            return any(has_type(column.type, change.type_name) for column in self._declared)
        found = [has_label(column.type, change.type_name, change.label) for column in self._declared]
        return isinstance(change, RenameLabel) in found

    def labelled(self, change: OfType, modified: Timestamp) -> CaseTable:
        """The next version of the table, in which the enum type has its new label."""
        columns = tuple(
            replace(column, type=_labelled(column.type, change)) for column in self.descriptor.columns
        )
        types = {column.name: column.type for column in columns}
        declared = [column._replace(type=types[column.name]) for column in self._declared]
        version = self.descriptor.version + 1
        descriptor = replace(self.descriptor, version=version, modified=modified, columns=columns)
        return CaseTable(descriptor, declared, self._shared)

    def relabelled_row(self, change: OfType, row: Sequence[Datum]) -> tuple[Datum, ...]:
        """A row of this version with the new label where it had the old one."""
        if not isinstance(change, RenameLabel):
            return tuple(row)
        return tuple(
            datum if has_label(column.type, change.type_name, change.new) is None else _renamed(datum, change)
            for column, datum in zip(self._columns, row, strict=True)
        )

    def from_the_beginning(self) -> CaseTable:
        """Return this version as if the table had never had another."""
        descriptor = replace(self.descriptor, version=1, modified=_BEGINNING)
        return CaseTable(descriptor, self._declared, self._shared)

    def carry_over(self, before: CaseTable, row: Sequence[Datum]) -> tuple[Datum, ...]:
        """A row of the version before as a row of this one: an added column is NULL, a dropped one gone."""
        datums = dict(zip(before._ids_in_rows, row, strict=True))
        return tuple(datums.get(column_id) for column_id in self._ids_in_rows)

    @property
    def id(self) -> int:
        """The table's id, which no change changes."""
        return self.descriptor.id

    @property
    def name(self) -> str:
        """The table's name in the case."""
        return self.descriptor.name

    @property
    def key_name(self) -> str:
        """The first column of the primary key."""
        return self._columns[self.key_positions[0]].name

    def row(self, spelled: Mapping[str, Any], *, rounded: bool) -> tuple[Datum, ...]:
        """The datums of a whole row; columns that are not named have their default, or NULL.

        ``rounded`` for what SQL would store; otherwise a decimal keeps the digits that the case spells.
        """
        known = {column.name for column in self._columns} | self._virtual
        if unknown := spelled.keys() - known:
            raise ValueError(f"table {self.name} has no column {', '.join(sorted(unknown))}")
        return self._whole(
            {
                column.name: column_datum(column.type, spelled[column.name], rounded=rounded)
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
        new = {name: column_datum(types[name], value, rounded=rounded) for name, value in assigned.items()}
        return self._whole(kept | new)

    def fits(self, row: Sequence[Datum], where: Mapping[str, Any] | str) -> bool:
        """Whether a row has these datums, given by name or as ``a = 1 AND b = 'x'``."""
        datums = dict(zip((column.name for column in self._columns), row, strict=True))
        return all(datums[name] == datum for name, datum in self._wanted(where))

    def _wanted(self, where: Mapping[str, Any] | str) -> Iterator[tuple[str, Datum]]:
        types = {column.name: column.type for column in self._columns}
        if not isinstance(where, str):
            yield from (
                (name, column_datum(types[name], value, rounded=True)) for name, value in where.items()
            )
            return
        for condition in _AND.split(where):
            match = _EQUALS.fullmatch(condition)
            if match is None or match["name"] not in types:
                raise ValueError(f"the cases' reader knows no condition {condition!r}")
            yield match["name"], sql_literal(types[match["name"]], match["literal"])

    def with_key(self, row: Sequence[Datum], spelled: Any) -> tuple[Datum, ...]:
        """The row under another primary key."""
        datums = dict(zip((column.name for column in self._columns), row, strict=True))
        names = [self._columns[at].name for at in self.key_positions]
        return self._whole(datums | dict(zip(names, self.key(spelled), strict=True)))

    def key(self, spelled: Any) -> tuple[Datum, ...]:
        """The datums of a primary key."""
        values = spelled if isinstance(spelled, list) else [spelled]
        types = [self._columns[at].type for at in self.key_positions]
        return tuple(
            column_datum(kind, value, rounded=True) for kind, value in zip(types, values, strict=True)
        )

    def key_of(self, row: Sequence[Datum]) -> tuple[Datum, ...]:
        """The primary key of a whole row."""
        return tuple(row[at] for at in self.key_positions)

    @property
    def _ids_in_rows(self) -> list[int]:
        return [column.id for column in self.descriptor.columns if column.in_rows]

    def _renamed(
        self, descriptor: TableDescriptor, change: RenameColumn
    ) -> tuple[TableDescriptor, Sequence[DeclaredColumn]]:
        at = self._position(change.old)
        self._require_new(change.new)
        columns = list(descriptor.columns)
        columns[at] = replace(columns[at], name=change.new)
        declared = [
            column._replace(formula=re.sub(rf"\b{re.escape(change.old)}\b", change.new, column.formula))
            for column in self._declared
        ]
        declared[at] = declared[at]._replace(name=change.new)
        return replace(descriptor, columns=tuple(columns)), declared

    def _added(
        self, descriptor: TableDescriptor, change: AddColumn
    ) -> tuple[TableDescriptor, Sequence[DeclaredColumn]]:
        self._require_new(change.name)
        added = declare({"name": change.name, "type": change.type_text}, self._shared.labels)
        number = next(self._shared.column_ids)
        family = descriptor.families[0]
        columns = (*descriptor.columns, Column(number, added.name, added.type))
        families = (replace(family, column_ids=(*family.column_ids, number)),)
        return replace(descriptor, columns=columns, families=families), [*self._declared, added]

    def _dropped(
        self, descriptor: TableDescriptor, name: str
    ) -> tuple[TableDescriptor, Sequence[DeclaredColumn]]:
        at = self._position(name)
        gone = descriptor.columns[at].id
        if gone in [part.column_id for part in descriptor.primary_key]:
            raise ValueError(f"column {name} is in the primary key of table {self.name}")
        columns = descriptor.columns[:at] + descriptor.columns[at + 1 :]
        families = tuple(
            replace(family, column_ids=tuple(number for number in family.column_ids if number != gone))
            for family in descriptor.families
        )
        return replace(descriptor, columns=columns, families=families), self._declared[:at] + self._declared[
            at + 1 :
        ]

    def _with(self, name: str, **members: Any) -> Sequence[DeclaredColumn]:
        declared = list(self._declared)
        at = self._position(name)
        declared[at] = declared[at]._replace(**members)
        return declared

    def _position(self, name: str) -> int:
        names = [column.name for column in self._declared]
        if name not in names:
            raise ValueError(f"table {self.name} has no column {name}")
        return names.index(name)

    def _require_new(self, name: str) -> None:
        if name in [column.name for column in self._declared]:
            raise ValueError(f"table {self.name} has a column {name} already")

    def _is_hidden(self, name: str) -> bool:
        return any(column.hidden and column.name == name for column in self.descriptor.columns)

    def _whole(self, given: dict[str, Datum]) -> tuple[Datum, ...]:
        for column in self._columns:
            if self._is_hidden(column.name):
                given.setdefault(column.name, next(self._shared.rowids))
            elif column.default:
                given.setdefault(column.name, sql_literal(column.type, column.default))
        for column in self._columns:
            if column.formula:
                given[column.name] = computed_datum(column.formula, given)
        return tuple(given.get(column.name) for column in self._columns)


def _labelled(sql_type: SqlType, change: OfType) -> SqlType:
    if isinstance(change, RenameType):
        return with_type_name(sql_type, change.type_name, change.new)
    if isinstance(change, AddLabel):
        return with_label(sql_type, change.type_name, change.label, before=change.before, after=change.after)
    return with_renamed_label(sql_type, change.type_name, change.label, change.new)


def _renamed(datum: Datum, change: RenameLabel) -> Datum:
    if isinstance(datum, tuple):
        return tuple(_renamed(element, change) for element in datum)
    return change.new if datum == change.label else datum


def case_tables(case: Case, table_ids: Iterator[int]) -> dict[str, CaseTable]:
    """The tables of a case by name; each takes the next of ``table_ids``."""
    return {
        table["name"]: CaseTable.of(table, _labels(case, table), next(table_ids)) for table in tables_in(case)
    }


def tables_in(case: Case) -> list[dict[str, Any]]:
    """The tables as the case declares them, with the database and schema that are only told by its topics."""
    tables = case["table"] if isinstance(case["table"], list) else [case["table"]]
    return [{**_place(case, table), **table} for table in tables]


def _place(case: Case, table: Mapping[str, Any]) -> dict[str, str]:
    """Database and schema, where the expected topics are full names and the table itself does not say."""
    if not case["options"].get("full_table_name"):
        return {}
    for topic in _topics_in(case):
        full_name = topic.split(".")
        if len(full_name) == 3 and full_name[2] == table["name"]:
            return {"database": full_name[0], "schema": full_name[1]}
    return {}


def _topics_in(case: Case) -> Iterator[str]:
    """The topics that a case expects, by themselves, before records, or in subjects behind a prefix."""
    expect, prefix = case["expect"], str(case["options"].get("avro_schema_prefix", ""))
    for name in ("topics", "resolved_topics", "records"):
        listed = expect.get(name, ())
        for text in [listed] if isinstance(listed, str) else listed:
            yield text.partition(": ")[0]
    for subject in expect.get("subjects", ()):
        yield subject.removeprefix(prefix).removesuffix("-key").removesuffix("-value")


def _labels(case: Case, table: Mapping[str, Any]) -> EnumLabels:
    """Labels of enum types that do not stand in the column's type itself."""
    found: dict[str, Sequence[str]] = dict(created_types(case.get("writes", ())))
    for holder in (case, table):
        for name in ("enums", "types"):
            found |= holder.get(name) or {}
    return EnumLabels(found, lambda type_text: written_labels(case, table, type_text))


def _descriptor(
    table: Mapping[str, Any], table_id: int, declared: Sequence[DeclaredColumn], keys: Sequence[str]
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
        modified=_BEGINNING,
        columns=columns,
        primary_key=tuple(
            KeyPart(ids[name], descending=part.endswith(" DESC"))
            for name, part in zip(names, parts, strict=True)
        ),
        families=(Family(0, "primary", tuple(column.id for column in columns if not column.virtual)),),
        database=table.get("database", "defaultdb"),
        schema=table.get("schema", "public"),
    )
