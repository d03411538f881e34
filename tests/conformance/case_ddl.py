"""Schema changes of changefeed cases: the statements that are read, and what stays out.

Read are a column renamed, a nullable one added, one dropped, a table renamed, a type created. A source
follows a dropped column by a backfill of the table's rows, which tidegate does not know yet: ``case_history``
leaves such cases out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from tests.conformance.case import NotClaimed
from tests.conformance.enum_types import creates_type

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


Alteration: TypeAlias = RenameColumn | AddColumn | DropColumn | RenameTable


def read_ddl(statement: str) -> Alteration | None:
    """What the statement changes; ``None`` for a type, which ``enum_types`` reads. Raises ``NotClaimed``."""
    statement = statement.strip().removesuffix(";").strip()
    if creates_type(statement):
        return None
    alteration = _alteration(statement)
    if alteration is None:
        raise NotClaimed(f"op ddl is not supported yet for {statement}")
    return alteration


def _alteration(statement: str) -> Alteration | None:
    alter = _ALTER.fullmatch(statement)
    if alter is None:
        return None
    table, what = _last_part(alter["table"]), alter["what"].strip()
    if match := _RENAME_COLUMN.fullmatch(what):
        return RenameColumn(table, _plain(match["old"]), _plain(match["new"]))
    if match := _RENAME_TABLE.fullmatch(what):
        return RenameTable(table, _last_part(match["new"]))
    if match := _DROP_COLUMN.fullmatch(what):
        return DropColumn(table, _plain(match["old"]))
    if (match := _ADD_COLUMN.fullmatch(what)) and not _MORE_THAN_A_TYPE.search(match["type"]):
        return AddColumn(table, _plain(match["new"]), match["type"].strip())
    return None


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _last_part(name: str) -> str:
    return _plain(name if name.startswith('"') else name.rpartition(".")[2])
