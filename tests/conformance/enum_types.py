"""The enum types of a case's columns, wherever the case gives their labels.

That is in the column's type (``status(open, closed)``, ``ENUM status ('open', 'closed')``), beside it, in the
case's ``enums`` or ``types``, in a CREATE TYPE among its writes; or nowhere, when a type goes by its name
alone: then its labels are those that the case writes into the column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tests.conformance.case import Case
from tests.conformance.quoted_literals import split_list
from tests.conformance.sql_literals import split_rows, sql_literal
from tidegate.errors import StatementError
from tidegate.rows import EnumMember, Kind, SqlType, parse_sql_type
from tidegate.rows.enum_labels import members_from_labels

_PREFIXED: Final = re.compile(r"(?:CREATE\s+TYPE\s+|ENUM\s+)(?=[\w.]+\s*(?:AS\s+ENUM\s*)?\()", re.IGNORECASE)
_AS_ENUM: Final = re.compile(r"\s+AS\s+ENUM\s*(?=\()", re.IGNORECASE)
_CREATE_TYPE: Final = re.compile(
    r"\s*CREATE\s+TYPE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:\w+\.)*\"?(?P<name>\w+)\"?\s+AS\s+ENUM\s*"
    r"\((?P<labels>.*)\)\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)
#: Above every member's bytes: a new one stands half way to it.
_PHYSICAL_END: Final = 2**16
_NAME: Final = re.compile(r"(?:\w+\.)*\"?(?P<name>[A-Za-z_]\w*)\"?")
#: CockroachDB's own types that tidegate does not know: none of them is an enum.
_OTHER_TYPES: Final = re.compile(
    r"ANY|CITEXT|INT2VECTOR|JSONPATH|LTREE|MONEY|OIDVECTOR|RECORD|REG[A-Z]+|SERIAL[248]?|TUPLE|UNKNOWN|VOID|XML",
    re.IGNORECASE,
)


def created_types(writes: Iterable[Mapping[str, Any]]) -> dict[str, Sequence[str]]:
    """The labels of every type that the case creates, by its name."""
    found: dict[str, Sequence[str]] = {}
    for write in writes:
        created = _CREATE_TYPE.fullmatch(str(write.get("sql", "")))
        if created is not None:
            found[created["name"]] = _texts(SqlType(Kind.STRING), split_list(created["labels"]))
    return found


def creates_type(statement: str) -> bool:
    """Whether the statement creates an enum type."""
    return _CREATE_TYPE.fullmatch(statement) is not None


def declared_type(text: str, labels: Sequence[str] | None, written: Callable[[], Sequence[str]]) -> SqlType:
    """The type that a column's ``text`` spells, with ``labels`` where the case gives them.

    ``written`` gives the labels of a type that has no others. Raises ``StatementError`` for no type at all.
    """
    element_text = text.removesuffix("[]").strip()
    is_array = element_text != text
    if labels is None:
        try:
            return parse_sql_type(_AS_ENUM.sub("", _PREFIXED.sub("", text)))
        except StatementError:
            name = _NAME.fullmatch(element_text)
            if name is None or _OTHER_TYPES.fullmatch(name["name"]):
                raise
            labels = written() or (name["name"],)
    name = _NAME.fullmatch(element_text)
    shown = "" if name is None or name["name"].upper() == "ENUM" else name["name"]
    enum = SqlType(Kind.ENUM, name=shown, members=members_from_labels(list(labels)))
    return SqlType(Kind.ARRAY, element=enum) if is_array else enum


def has_label(sql_type: SqlType, name: str, label: str) -> bool | None:
    """Whether the enum type of that name has the label; ``None`` for another type. Arrays: their elements."""
    enum = sql_type.element if sql_type.kind is Kind.ARRAY and sql_type.element else sql_type
    if enum.kind is not Kind.ENUM or enum.name != name:
        return None
    return label in [member.label for member in enum.members]


def has_type(sql_type: SqlType, name: str) -> bool:
    """Whether it is the enum type of that name, or an array of it."""
    return has_label(sql_type, name, "") is not None


def with_label(sql_type: SqlType, name: str, label: str, *, before: str = "", after: str = "") -> SqlType:
    """The type with the label behind the others, or beside one of them, if it is the one of that name and has
    it not.

    Raises ``ValueError`` for a neighbour that the type has not.
    """
    if has_label(sql_type, name, label) is not False:
        return sql_type
    if sql_type.element is not None:
        return replace(
            sql_type, element=with_label(sql_type.element, name, label, before=before, after=after)
        )
    labels = [member.label for member in sql_type.members]
    if (neighbour := before or after) and neighbour not in labels:
        raise ValueError(f"type {name} has no label {neighbour}")
    at = labels.index(before) if before else labels.index(after) + 1 if after else len(labels)
    ends = [0, *(int.from_bytes(member.physical, "big") for member in sql_type.members), _PHYSICAL_END]
    added = EnumMember(((ends[at] + ends[at + 1]) // 2).to_bytes(2, "big"), label)
    return replace(sql_type, members=(*sql_type.members[:at], added, *sql_type.members[at:]))


def with_type_name(sql_type: SqlType, name: str, new: str) -> SqlType:
    """The enum type of that name under a new one, and arrays of it."""
    if not has_type(sql_type, name):
        return sql_type
    if sql_type.element is not None:
        return replace(sql_type, element=with_type_name(sql_type.element, name, new))
    return replace(sql_type, name=new)


def with_renamed_label(sql_type: SqlType, name: str, old: str, new: str) -> SqlType:
    """The type whose label ``old`` is ``new`` now. One that was only written later was never a member."""
    if has_label(sql_type, name, old) is not True:
        return sql_type
    if sql_type.element is not None:
        return replace(sql_type, element=with_renamed_label(sql_type.element, name, old, new))
    kept = [member for member in sql_type.members if member.label != new]
    members = (replace(member, label=new) if member.label == old else member for member in kept)
    return replace(sql_type, members=tuple(members))


def type_name(text: str) -> str:
    """The name of the type that ``text`` spells, or of its elements."""
    name = _NAME.fullmatch(text.removesuffix("[]").strip())
    return text if name is None else name["name"]


def written_labels(case: Case, table: Mapping[str, Any], type_text: str) -> list[str]:
    """Return what the case writes into the table's columns of this type, sorted."""
    columns = [column["name"] for column in table["columns"] if str(column["type"]) == type_text]
    found = {
        label
        for write in _single_writes(case.get("writes", ()))
        if write.get("table") == table["name"]
        for label in _labels_in(write, table, columns)
    }
    return sorted(found)


def _single_writes(writes: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for write in writes:
        yield write
        yield from _single_writes(write.get("writes", ()))


def _labels_in(write: Mapping[str, Any], table: Mapping[str, Any], columns: Sequence[str]) -> Iterator[str]:
    for row in (*write.get("rows", ()), write.get("set", {}), write.get("prev") or {}):
        for column in columns:
            value = row.get(column)
            values = value if isinstance(value, list) else [value]
            yield from (text for text in values if isinstance(text, str))
    names = write.get("columns") or [column["name"] for column in table["columns"]]
    for texts in split_rows(write["values"]) if "values" in write else ():
        wanted = [text for name, text in zip(names, texts, strict=False) if name in columns]
        yield from _texts(SqlType(Kind.STRING), wanted)


def _texts(string: SqlType, literals: Iterable[str]) -> list[str]:
    """The texts of SQL literals and of arrays of them, NULLs left out."""
    found: list[str] = []
    for literal in literals:
        is_array = literal.upper().startswith("ARRAY") or literal.startswith("'{")
        datum = sql_literal(SqlType(Kind.ARRAY, element=string) if is_array else string, literal)
        found += [text for text in (datum if isinstance(datum, tuple) else (datum,)) if isinstance(text, str)]
    return found
