"""Tables as the ``kv.*`` cases describe them, in a text such as

``accounts(id INT PK id1, owner STRING id2, FAMILY f0(id), FAMILY f1(owner)); table id 51; UNIQUE i2(owner)
STORING balance OLD storing``

Columns end in their id (their position, where it is left out), index names in the index's; definitions are
separated by commas or semicolons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidegate.hlc import ZERO
from tidegate.rows import Column, Family, KeyPart, TableDescriptor, parse_sql_type

_TABLE: Final = re.compile(r"\s*(?:CREATE\s+TABLE\s+)?(\w+)\s*\(", re.IGNORECASE)
_OPENING: Final = re.compile(r"\b\w+\s*\(")
_TABLE_ID: Final = re.compile(r"\btable id (\d+)", re.IGNORECASE)
_COLUMN: Final = re.compile(r"(?P<name>\w+)\s+(?P<type>.+?)(?:\s+id\s?(?P<id>\d+)\b(?P<rest>.*))?", re.DOTALL)
_NO_COLUMN: Final = re.compile(r"(?:FAMILY|INDEX|UNIQUE|PRIMARY|PK)\b|\w+\s*\(", re.IGNORECASE)
_PRIMARY_WORDS: Final = re.compile(r"\bPK\b|\bPRIMARY\s+KEY\b", re.IGNORECASE)
_MODIFIERS: Final = re.compile(
    r"\bPK\b|\bPRIMARY\s+KEY\b|\bNOT\s+NULL\b|\bNULL\b|\b(?:A|DE)SC\b", re.IGNORECASE
)
_NOT_NULL: Final = re.compile(r"\bNOT\s+NULL\b", re.IGNORECASE)
_DESCENDING: Final = re.compile(r"\bDESC\b", re.IGNORECASE)
_PRIMARY_KEY: Final = re.compile(r"(?:PRIMARY\s+KEY|PK)\s*\((?P<columns>[^)]*)\)", re.IGNORECASE)
_FAMILY: Final = re.compile(r"FAMILY\s+(?P<name>\w*?)(?P<id>\d*)\s*\((?P<columns>[^)]*)\)", re.IGNORECASE)
_INDEX: Final = re.compile(
    r"(?P<unique>UNIQUE\s+)?(?:INDEX\s+)?(?P<name>\w*?)(?P<id>\d+)\s*\((?P<columns>[^)]*)\)"
    r"(?:\s+STORING\s+(?P<stored>\([^)]*\)|\w+(?:\s*,\s*\w+)*))?",
    re.IGNORECASE,
)
_OLD_STORING: Final = re.compile(r"\bOLD\s+storing\b", re.IGNORECASE)
_STORING_NOTE: Final = re.compile(r"\s*\b(?:OLD|NEW)\s+storing\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class IndexText:
    """A secondary index. ``stored_in_key_form`` marks the old form of STORING."""

    id: int
    unique: bool
    parts: tuple[KeyPart, ...]
    stored: tuple[int, ...]
    stored_in_key_form: bool


@dataclass(frozen=True, slots=True)
class TableText:
    """A described table and its secondary indexes by id."""

    descriptor: TableDescriptor
    indexes: dict[int, IndexText]

    def column(self, column_id: int) -> Column:
        """The column of that id."""
        return next(column for column in self.descriptor.columns if column.id == column_id)


def parse_table(text: str, table_id: int) -> TableText:
    """The first table that ``text`` describes; ``table_id`` holds where the text names none."""
    named = _TABLE_ID.search(text)
    opening = _TABLE.match(text)
    if opening is None:
        raise ValueError(f"no table in {text!r}")
    body, rest = _enclosed(text, opening.end())
    items = list(_items(body, ",;"))
    columns = [_column(item, i) for i, item in enumerate(filter(_is_column, items), 1)]
    descriptor = TableDescriptor(
        id=int(named[1]) if named else table_id,
        name=opening[1],
        version=1,
        modified=ZERO,
        columns=tuple(columns),
        primary_key=_primary_key(items, columns),
        families=_families(items, columns),
    )
    definitions = [*(item for item in items if not _is_column(item)), *_items(rest, ";")]
    indexes = _indexes(definitions, columns, old=_OLD_STORING.search(text) is not None)
    return TableText(descriptor, indexes)


def parse_last_table(text: str, table_id: int) -> TableText:
    """The last table that ``text`` describes: of two interleaved ones, the child."""
    openings = [match for match in _OPENING.finditer(text) if _has_columns(text, match.end())]
    return parse_table(text[openings[-1].start() :], table_id)


def _has_columns(text: str, start: int) -> bool:
    body, _ = _enclosed(text, start)
    return any(map(_is_column, _items(body, ",;")))


def _enclosed(text: str, start: int) -> tuple[str, str]:
    """Return the text up to the parenthesis that closes the one before ``start``, and the text after it."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return text[start:position], text[position + 1 :]
    return text[start:], ""


def _items(text: str, separators: str) -> Iterator[str]:
    """The parts of ``text`` between separators outside parentheses."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and character in separators:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()


def _is_column(item: str) -> bool:
    return _NO_COLUMN.match(item) is None and _COLUMN.fullmatch(item) is not None


def _column(item: str, position: int) -> Column:
    match = _COLUMN.fullmatch(item)
    assert match is not None
    modifiers = match["type"] + (match["rest"] or "")
    sql_type = parse_sql_type(_MODIFIERS.sub("", match["type"]).strip())
    not_null = _PRIMARY_WORDS.search(modifiers) or _NOT_NULL.search(modifiers)
    return Column(int(match["id"] or position), match["name"], sql_type, nullable=not not_null)


def _primary_key(items: list[str], columns: list[Column]) -> tuple[KeyPart, ...]:
    for item in items:
        if match := _PRIMARY_KEY.fullmatch(item):
            return _parts(match["columns"], columns)
    inline = [item for item in items if _is_column(item) and _PRIMARY_WORDS.search(item)]
    by_name = {column.name: column.id for column in columns}
    return tuple(
        KeyPart(by_name[item.split()[0]], descending=_DESCENDING.search(item) is not None) for item in inline
    )


def _parts(text: str, columns: list[Column]) -> tuple[KeyPart, ...]:
    by_name = {column.name: column.id for column in columns}
    names = [name.split() for name in text.split(",") if name.strip()]
    return tuple(KeyPart(by_name[words[0]], words[-1].upper() == "DESC") for words in names)


def _families(items: list[str], columns: list[Column]) -> tuple[Family, ...]:
    """Families in the order of their definition; a single column of a later one stands bare."""
    matches = [match for item in items if (match := _FAMILY.fullmatch(item))]
    if not matches:
        return (Family(0, "primary", tuple(column.id for column in columns)),)
    families = []
    for position, match in enumerate(matches):
        ids = tuple(part.column_id for part in _parts(match["columns"], columns))
        family_id = int(match["id"] or position)
        default = ids[0] if family_id and len(ids) == 1 else 0
        families.append(Family(family_id, f"{match['name']}{match['id']}", ids, default))
    return tuple(families)


def _indexes(definitions: list[str], columns: list[Column], old: bool) -> dict[int, IndexText]:
    by_name = {column.name: column.id for column in columns}
    found: dict[int, IndexText] = {}
    for definition in definitions:
        match = _INDEX.fullmatch(_STORING_NOTE.sub("", definition).strip())
        if match is None or definition.upper().startswith("FAMILY"):
            continue
        stored = (match["stored"] or "").strip("()")
        found[int(match["id"])] = IndexText(
            id=int(match["id"]),
            unique=match["unique"] is not None,
            parts=_parts(match["columns"], columns),
            stored=tuple(by_name[name.strip()] for name in stored.split(",") if name.strip()),
            stored_in_key_form=old,
        )
    return found
