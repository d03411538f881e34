"""Schema changes of changefeed cases: the statements that are read, and what stays out.

Read are a column renamed, a nullable one added, one dropped, its default or its NOT NULL changed, a table
renamed, a type created or renamed, a label of one added or renamed; and several changes of a table in one
statement. Indexes, constraints and other tables change no column. A source
follows a dropped column by a backfill of the table's rows, which tidegate does not know yet: ``case_history``
leaves such cases out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from tests.conformance.case import NotClaimed
from tests.conformance.enum_types import creates_type
from tests.conformance.quoted_literals import plain_name, split_list

_NAME: Final = r'(?:"(?:[^"]|"")+"|[^\s",;()]+)'
_ALTER: Final = re.compile(
    rf"ALTER\s+TABLE\s+(?:IF\s+EXISTS\s+)?(?P<table>{_NAME})\s+(?P<what>.+)", re.IGNORECASE | re.DOTALL
)
_RENAME_COLUMN: Final = re.compile(
    rf"RENAME\s+COLUMN\s+(?P<old>{_NAME})\s+TO\s+(?P<new>{_NAME})", re.IGNORECASE
)
_RENAME_TABLE: Final = re.compile(rf"RENAME\s+TO\s+(?P<new>{_NAME})", re.IGNORECASE)
_DROP_COLUMN: Final = re.compile(
    rf"DROP\s+(?:COLUMN\s+)?(?:IF\s+EXISTS\s+)?(?!CONSTRAINT\b)(?P<old>{_NAME})(?:\s+(?:CASCADE|RESTRICT))?",
    re.IGNORECASE,
)
_ADD_COLUMN: Final = re.compile(
    rf"ADD\s+(?:COLUMN\s+)?(?:IF\s+NOT\s+EXISTS\s+)?(?!CONSTRAINT\b)(?P<new>{_NAME})\s+(?P<type>[^;]+)",
    re.IGNORECASE,
)
_SET_DEFAULT: Final = re.compile(
    rf"ALTER\s+(?:COLUMN\s+)?(?P<column>{_NAME})\s+SET\s+DEFAULT\s+(?P<literal>[^;,]+)", re.IGNORECASE
)
_DROP_DEFAULT: Final = re.compile(
    rf"ALTER\s+(?:COLUMN\s+)?(?P<column>{_NAME})\s+DROP\s+DEFAULT", re.IGNORECASE
)
_NOT_NULL: Final = re.compile(
    rf"ALTER\s+(?:COLUMN\s+)?(?P<column>{_NAME})\s+(?P<what>SET|DROP)\s+NOT\s+NULL", re.IGNORECASE
)
_LABEL: Final = r"'(?:[^']|'')*'"
_ADD_LABEL: Final = re.compile(
    rf"ALTER\s+TYPE\s+(?P<type>{_NAME})\s+ADD\s+VALUE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<label>{_LABEL})"
    rf"(?:\s+(?P<where>BEFORE|AFTER)\s+(?P<other>{_LABEL}))?",
    re.IGNORECASE,
)
_RENAME_TYPE: Final = re.compile(
    rf"ALTER\s+TYPE\s+(?P<type>{_NAME})\s+RENAME\s+TO\s+(?P<new>{_NAME})", re.IGNORECASE
)
_RENAME_LABEL: Final = re.compile(
    rf"ALTER\s+TYPE\s+(?P<type>{_NAME})\s+RENAME\s+VALUE\s+(?P<old>{_LABEL})\s+TO\s+(?P<new>{_LABEL})",
    re.IGNORECASE,
)
_OF_NO_COLUMN: Final = re.compile(
    rf"(?:(?:CREATE\s+(?:UNIQUE\s+|INVERTED\s+)?|DROP\s+|ALTER\s+)INDEX"
    rf"|CREATE\s+(?:TABLE|SEQUENCE|(?:MATERIALIZED\s+)?VIEW)|DROP\s+(?:SEQUENCE|(?:MATERIALIZED\s+)?VIEW)"
    rf"|ALTER\s+TABLE\s+{_NAME}\s+ALTER\s+(?:COLUMN\s+)?{_NAME}\s+SET\s+VISIBLE"
    rf"|ALTER\s+TABLE\s+{_NAME}\s+(?:ADD|DROP|VALIDATE|RENAME)\s+CONSTRAINT(?!.*\bPRIMARY\s+KEY)"
    rf"|ALTER\s+TABLE\s+{_NAME}\s+(?:SPLIT|UNSPLIT|SCATTER|CONFIGURE\s+ZONE|INJECT\s+STATISTICS)"
    rf"|ALTER\s+TABLE\s+{_NAME}\s+(?:SET|RESET)(?=\s*\()"
    r"|COMMENT\s+ON|GRANT|REVOKE|CREATE\s+STATISTICS)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_MORE_THAN_A_TYPE: Final = re.compile(
    r"\b(?:NOT|DEFAULT|AS|CREATE|FAMILY|UNIQUE|CHECK|REFERENCES|PRIMARY|ON|ADD|DROP|RENAME)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """The column keeps its id."""

    table: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A nullable column without a default."""

    table: str
    name: str
    type_text: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """The column's id is not used again."""

    table: str
    name: str


@dataclass(frozen=True, slots=True)
class RenameTable:
    """The table keeps its id."""

    table: str
    new: str


@dataclass(frozen=True, slots=True)
class SetDefault:
    """New rows have the literal where they say nothing; an empty one is no default."""

    table: str
    name: str
    literal: str


@dataclass(frozen=True, slots=True)
class SetNullable:
    """The column may be NULL from now on, or may not."""

    table: str
    name: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Several changes of a table at once, which make one version of it."""

    table: str
    changes: tuple[Alteration, ...]


@dataclass(frozen=True, slots=True)
class AddLabel:
    """The enum type has one more label, behind the others or beside the one that is named."""

    type_name: str
    label: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class RenameLabel:
    """A change of a label's name: the label stored under the old name gets the new one."""

    type_name: str
    label: str
    new: str


@dataclass(frozen=True, slots=True)
class RenameType:
    """The enum type keeps its labels."""

    type_name: str
    new: str


OfType: TypeAlias = AddLabel | RenameLabel | RenameType
Alteration: TypeAlias = (
    RenameColumn | AddColumn | DropColumn | RenameTable | SetDefault | SetNullable | AlterTable
)


def read_ddl(statement: str) -> Alteration | OfType | None:
    """Return what the statement changes; ``None`` for what is no table's column. Raises ``NotClaimed``."""
    statement = statement.strip().removesuffix(";").strip()
    if creates_type(statement) or _OF_NO_COLUMN.fullmatch(statement):
        return None
    if label := _ADD_LABEL.fullmatch(statement):
        place = {} if label["where"] is None else {label["where"].lower(): _text(label["other"])}
        return AddLabel(_last_part(label["type"]), _text(label["label"]), **place)
    if of_type := _RENAME_TYPE.fullmatch(statement):
        return RenameType(_last_part(of_type["type"]), _last_part(of_type["new"]))
    if renamed := _RENAME_LABEL.fullmatch(statement):
        return RenameLabel(_last_part(renamed["type"]), _text(renamed["old"]), _text(renamed["new"]))
    alteration = _alteration(statement)
    if alteration is None:
        raise NotClaimed(f"op ddl is not supported yet for {statement}")
    return alteration


def _alteration(statement: str) -> Alteration | None:
    alter = _ALTER.fullmatch(statement)
    if alter is None:
        return None
    table, parts = _last_part(alter["table"]), split_list(alter["what"].strip())
    changes = tuple(change for part in parts if (change := _change(table, part)))
    if len(changes) < len(parts):
        return None
    return changes[0] if len(changes) == 1 else AlterTable(table, changes)


def _change(table: str, what: str) -> Alteration | None:
    if match := _RENAME_COLUMN.fullmatch(what):
        return RenameColumn(table, plain_name(match["old"]), plain_name(match["new"]))
    if match := _RENAME_TABLE.fullmatch(what):
        return RenameTable(table, _last_part(match["new"]))
    if match := _DROP_COLUMN.fullmatch(what):
        return DropColumn(table, plain_name(match["old"]))
    if changed := _changed_column(table, what):
        return changed
    if (match := _ADD_COLUMN.fullmatch(what)) and not _MORE_THAN_A_TYPE.search(match["type"]):
        return AddColumn(table, plain_name(match["new"]), match["type"].strip())
    return None


def _changed_column(table: str, what: str) -> SetDefault | SetNullable | None:
    if match := _SET_DEFAULT.fullmatch(what):
        return SetDefault(table, plain_name(match["column"]), match["literal"].strip())
    if match := _DROP_DEFAULT.fullmatch(what):
        return SetDefault(table, plain_name(match["column"]), "")
    if match := _NOT_NULL.fullmatch(what):
        return SetNullable(table, plain_name(match["column"]), match["what"].upper() == "DROP")
    return None


def _text(quoted: str) -> str:
    return quoted[1:-1].replace("''", "'")


def _last_part(name: str) -> str:
    return plain_name(name if name.startswith('"') else name.rpartition(".")[2])
