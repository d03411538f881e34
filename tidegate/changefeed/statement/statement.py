"""Changefeed statements, parsed.

Each kind of statement is a class of its own. To add a kind, add its rule to `grammar.py`, its class here, its
reader to ``_READERS``, and the code that carries it out.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from tidegate.changefeed.definition.definition_size import FEED_RECORD_BYTES
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.statement.caret import with_caret
from tidegate.changefeed.statement.grammar import GRAMMAR, TERMINAL_TEXTS
from tidegate.changefeed.statement.option_clauses import OptionClause
from tidegate.changefeed.statement.statement_mask import found_words
from tidegate.changefeed.text.surrogates import LONE_SURROGATE
from tidegate.errors import StatementError

SUPPORTED_STATEMENT: Final = (
    "supported: CREATE CHANGEFEED FOR [TABLE] name, ... INTO 'kafka://host:port' [WITH option [= value], ...]"
)

_REFUSED: Final = {
    "alter": "ALTER CHANGEFEED",
    "cancel": "CANCEL",
    "create_query": "CREATE CHANGEFEED ... AS SELECT (a feed of a query)",
    "create_schedule": "CREATE SCHEDULE",
    "database_target": "CHANGEFEED FOR DATABASE",
    "drop": "DROP CHANGEFEED",
    "experimental": "EXPERIMENTAL CHANGEFEED",
    "family_target": "TABLE ... FAMILY (a feed of one column family)",
    "pause": "PAUSE",
    "resume": "RESUME",
    "show": "SHOW CHANGEFEED JOBS",
}
#: A definition holds the statement's parts and also its standard form, so about twice the characters.
_MOST_CHARACTERS: Final = FEED_RECORD_BYTES // 2
#: The most commas between tables, options and brokers. A definition can have at most 1,583 tables.
_MOST_COMMAS: Final = 10_000


class TableTarget(NamedTuple):
    """A table of the FOR list; ``position`` is its offset in the statement."""

    table: TableName
    position: int


@dataclass(frozen=True, slots=True)
class CreateChangefeed:
    """The statement ``CREATE CHANGEFEED FOR targets INTO sink_uri WITH options``."""

    targets: tuple[TableTarget, ...]
    sink_uri: str
    sink_position: int
    options: tuple[OptionClause, ...]


#: The kinds of statements that a text can be; more follow.
Statement: TypeAlias = CreateChangefeed


@cache
def _parser() -> Lark:
    """Return the parser. It is made for the first statement: that takes 0.02 s, and most processes parse
    none.
    """
    return Lark(GRAMMAR, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse_statement(text: str) -> Statement:
    """Parse one statement, with or without a semicolon.

    Raises ``StatementError`` with the position, and the line with a caret, for text that is no changefeed
    statement, and for statements that this version knows but does not support.
    """
    try:
        _require_bounds(text)
        _require_text(text)
        return _statement(_parse(text))
    except StatementError as error:
        raise with_caret(error, text) from None


def _require_bounds(text: str) -> None:
    """Refuse a statement that is too large to be stored.

    This comes before parsing, which takes 20 us for each word.
    """
    if len(text) > _MOST_CHARACTERS:
        raise StatementError(
            f"the statement is too large: it has {len(text)} characters, and {_MOST_CHARACTERS} are possible"
        )
    if text.count(",") > _MOST_COMMAS:
        raise StatementError(
            f"the statement is too large: it has {text.count(',')} commas, and {_MOST_COMMAS} are possible. "
            "Divide the tables among several feeds"
        )


def _require_text(text: str) -> None:
    """Refuse half of a surrogate pair, which a stored definition cannot hold as UTF-8."""
    half = LONE_SURROGATE.search(text)
    if half is not None:
        raise StatementError(
            f"the statement has half of a surrogate pair, {half[0]!a}, which is no character: write the "
            "statement as UTF-8",
            half.start(),
        )


def _parse(text: str) -> Tree[Token]:
    try:
        statement: Tree[Token] = _parser().parse(text).children[0]
    except UnexpectedInput as error:
        raise _syntax_error(error, text) from None
    return statement


def _syntax_error(error: Any, text: str) -> StatementError:
    token = getattr(error, "token", None)
    at_end = token is not None and token.type == "$END"
    position = len(text.rstrip()) if at_end else error.pos_in_stream
    rest = text[position:]
    if rest[:1] in ("'", '"') and rest[:1] not in rest[1:]:
        return StatementError("the quote that opens here is never closed", position)
    if rest.startswith("/*"):
        return StatementError("the comment that opens here is never closed", position)
    expected = _expected_text(getattr(error, "accepts", None) or ())
    found = "the statement ends" if at_end else f"found {found_words(text, position)}"
    return StatementError(f"expected {expected}, but {found}", position)


def _expected_text(terminals: Iterable[str]) -> str:
    texts = sorted({TERMINAL_TEXTS[name] for name in terminals if name in TERMINAL_TEXTS})
    if "the end of the statement" in texts:
        texts.remove("the end of the statement")
        texts.append("the end of the statement")
    if len(texts) < 2:
        return texts[0] if texts else "something else"
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def _statement(statement: Tree[Token]) -> Statement:
    rule = str(statement.data)
    if rule in _REFUSED:
        raise _refused(rule, 0)
    return _READERS[rule](statement)


def _create(statement: Tree[Token]) -> CreateChangefeed:
    parts: dict[str, Tree[Token]] = {part.data: part for part in statement.children}
    if "into" not in parts:
        raise StatementError(
            f"CREATE CHANGEFEED without INTO (a feed to the session) is not supported; {SUPPORTED_STATEMENT}"
        )
    sink = parts["into"].children[0]
    return CreateChangefeed(
        targets=tuple(_target(target) for target in parts["targets"].children),
        sink_uri=_unquoted(sink),
        sink_position=sink.start_pos,
        options=tuple(_option(option) for option in parts["options"].find_data("option"))
        if "options" in parts
        else (),
    )


def _refused(rule: str, position: int) -> StatementError:
    return StatementError(f"{_REFUSED[rule]} is not supported yet; {SUPPORTED_STATEMENT}", position)


def _target(target: Tree[Token]) -> TableTarget:
    names = target.children[0].children
    position = names[0].start_pos
    if target.data in _REFUSED:
        raise _refused(str(target.data), position)
    if len(names) > 3:
        raise StatementError("a table name has at most three parts: database.schema.table", position)
    parts = [_name(token) for token in names]
    match parts:
        case [name]:
            return TableTarget(TableName(name), position)
        case [database, name]:
            return TableTarget(TableName(name, database=database), position)
        case _:
            return TableTarget(TableName(parts[2], parts[1], parts[0]), position)


def _option(option: Tree[Token]) -> OptionClause:
    name, *values = option.children
    value = None
    if values:
        value = _unquoted(values[0]) if values[0].type == "STRING_VALUE" else _folded(values[0])
    return OptionClause(_name(name), value, name.start_pos)


def _name(token: Token) -> str:
    return _unquoted(token) if token.type.startswith("QUOTED") else _folded(token)


def _folded(token: Token) -> str:
    return unicodedata.normalize("NFC", str(token).lower())


def _unquoted(token: Token) -> str:
    quote = token[0]
    return str(token)[1:-1].replace(quote * 2, quote)


#: The reader of each rule of the grammar.
_READERS: Final[Mapping[str, Callable[[Tree[Token]], Statement]]] = {"create": _create}
