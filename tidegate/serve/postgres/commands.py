"""Reads the commands of a session from SQL.

These are the commands that clients send before and after a SUBSCRIBE. All others are refused with an error
that names them: this server has no tables to select from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tidegate.errors import RequestRefused
from tidegate.serve.postgres.sql_words import (
    Statement,
    Word,
    WordReader,
    not_supported,
    syntax_error,
)

_DURATION: Final = re.compile(
    r"\s*(?P<number>\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>[a-z]*)\s*", re.ASCII | re.IGNORECASE
)
_UNITS: Final = {
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_MOST_ROWS: Final = 2**63 - 1
_LONGEST_S: Final = 366 * 86400.0
_MOST_CONSTANTS: Final = 100


@dataclass(frozen=True, slots=True)
class Subscribe:
    """``SUBSCRIBE ...``: gives rows until the subscription ends.

    ``text`` is the statement. ``position`` is the number of characters before it in the query.
    """

    text: str
    position: int = 0


@dataclass(frozen=True, slots=True)
class CopyOut:
    """``COPY (SUBSCRIBE ...) TO STDOUT``. ``text`` and ``position`` are those of the SUBSCRIBE alone."""

    text: str
    position: int = 0


@dataclass(frozen=True, slots=True)
class BeginBlock:
    """Begins a transaction."""


@dataclass(frozen=True, slots=True)
class EndBlock:
    """Ends a transaction, by COMMIT or by ROLLBACK.

    Both do the same, since nothing was written. Only the tag of the answer differs.
    """

    commit: bool


@dataclass(frozen=True, slots=True)
class Declare:
    """``DECLARE cursor CURSOR FOR SUBSCRIBE ...``. ``text`` and ``position`` are those of the SUBSCRIBE."""

    cursor: str
    text: str
    position: int = 0


@dataclass(frozen=True, slots=True)
class Fetch:
    """``FETCH [n | ALL] cursor [WITH (timeout = '1s')]``.

    For ALL ``count`` is 2^63 - 1. Without a timeout ``timeout_s`` is ``None``.
    """

    cursor: str
    count: int = 1
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """``CLOSE cursor``. An empty name stands for all cursors."""

    cursor: str


@dataclass(frozen=True, slots=True)
class SetSetting:
    """``SET name = value``; the value is ``None`` for the setting's default."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ShowSetting:
    """``SHOW name``."""

    name: str


@dataclass(frozen=True, slots=True)
class ShowTables:
    """``SHOW TABLES``: gives the tables that can be subscribed to."""


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """``SHOW COLUMNS FROM table``."""

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deallocate:
    """``DEALLOCATE name``. An empty name stands for all prepared statements."""

    name: str


@dataclass(frozen=True, slots=True)
class Discard:
    """``DISCARD ALL``."""


@dataclass(frozen=True, slots=True)
class SelectConstants:
    """``SELECT`` of numbers, texts, and functions of the session.

    A number or a text is a ``Word`` of ``items``. A function is a ``str``, its name.
    """

    items: tuple[Word | str, ...]


Command: TypeAlias = (
    Subscribe
    | CopyOut
    | BeginBlock
    | EndBlock
    | Declare
    | Fetch
    | CloseCursor
    | SetSetting
    | ShowSetting
    | ShowTables
    | ShowColumns
    | Deallocate
    | Discard
    | SelectConstants
)


def read_command(statement: Statement) -> Command:
    """Read the command of a statement; a SUBSCRIBE in it is not parsed yet. Raises ``RequestRefused``."""
    reader = WordReader(statement)
    verb = reader.words[0].upper
    if verb in ("SUBSCRIBE", "TAIL"):
        return Subscribe(statement.text_from(0), statement.words[0].at)
    read = _READERS.get(verb)
    if read is None:
        raise _unknown(reader)
    reader.at = 1
    command = read(reader, statement)
    reader.require_end()
    return command


def _unknown(reader: WordReader) -> Exception:
    verb = reader.words[0].upper
    if verb in _REFUSED:
        return not_supported(f"{verb} is not supported: this server gives subscriptions alone", _HINT)
    return reader.unexpected()


_HINT: Final = "SHOW TABLES says what can be subscribed to; SUBSCRIBE <table> shows it"
_REFUSED: Final = frozenset(
    """ALTER ANALYZE CALL CHECKPOINT CLUSTER COMMENT CREATE DELETE DO DROP EXECUTE EXPLAIN GRANT INSERT LISTEN
    LOCK MERGE MOVE NOTIFY PREPARE REFRESH REINDEX RELEASE REVOKE SAVEPOINT TABLE TRUNCATE UNLISTEN UPDATE
    VACUUM VALUES WITH""".split()  # noqa: SIM905 - a list of words reads better
)


def _copy(reader: WordReader, statement: Statement) -> Command:
    if not reader.accept("("):
        raise not_supported("COPY is there for subscriptions: COPY (SUBSCRIBE ...) TO STDOUT")
    first, depth = reader.at, 1
    while depth:
        word = reader.one("word", "quoted", "string", "number", "sign")
        depth += (word.upper == "(") - (word.upper == ")")
    last = reader.at - 1
    reader.require("TO", "STDOUT")
    reader.accept("WITH")
    if reader.accept("("):
        reader.require("FORMAT")
        form = reader.one("word", "string").value.lower()
        if form != "text":
            raise not_supported(f"COPY in the format {form:.20} is not supported: it writes text")
        reader.require(")")
    if first == last or statement.words[first].upper not in ("SUBSCRIBE", "TAIL"):
        raise not_supported("COPY is there for subscriptions: COPY (SUBSCRIBE ...) TO STDOUT")
    return CopyOut(statement.text_from(first, last).rstrip(), statement.words[first].at)


def _begin(reader: WordReader, _: Statement) -> Command:
    while reader.words:  # isolation and access modes change nothing for subscriptions
        reader.one("word", "sign")
    return BeginBlock()


def _end(*, commit: bool) -> Callable[[WordReader, Statement], Command]:
    def read(reader: WordReader, _: Statement) -> Command:
        reader.accept("WORK") or reader.accept("TRANSACTION")
        if reader.accept("TO") or reader.accept("PREPARED"):
            raise not_supported("savepoints and prepared transactions are not supported")
        reader.accept("AND", "NO", "CHAIN")
        return EndBlock(commit)

    return read


def _declare(reader: WordReader, statement: Statement) -> Command:
    cursor = reader.name()
    while reader.words and reader.words[0].upper not in ("CURSOR", "FOR"):
        word = reader.one("word").upper
        if word in ("BINARY", "SCROLL") and statement.words[reader.at - 2].upper != "NO":
            raise not_supported(f"a {word} cursor is not supported: rows are text, and go forward")
    reader.require("CURSOR")
    if reader.accept("WITH", "HOLD"):
        raise not_supported("a cursor WITH HOLD is not supported: it ends with its transaction")
    reader.accept("WITHOUT", "HOLD")
    reader.require("FOR")
    at = reader.at
    if not reader.words or reader.words[0].upper not in ("SUBSCRIBE", "TAIL"):
        raise not_supported("cursors are there for subscriptions: DECLARE c CURSOR FOR SUBSCRIBE ...")
    reader.at = len(statement.words)
    return Declare(cursor, statement.text_from(at), statement.words[at].at)


def _fetch(reader: WordReader, _: Statement) -> Command:
    reader.accept("FORWARD")
    count = 1
    if reader.words and reader.words[0].kind == "number":
        digits = reader.one("number").text
        if "." in digits or len(digits) > len(str(_MOST_ROWS)):
            raise syntax_error(f"FETCH takes a whole number of rows, not {digits[:30]}")
        count = min(int(digits), _MOST_ROWS)
    elif reader.accept("ALL"):
        count = _MOST_ROWS
    elif len(reader.words) > 1 and reader.words[0].upper in (
        "BACKWARD",
        "PRIOR",
        "FIRST",
        "LAST",
        "ABSOLUTE",
        "RELATIVE",
    ):
        raise not_supported("a subscription goes forward alone: FETCH [n | ALL] cursor")
    elif len(reader.words) > 1:
        reader.accept("NEXT")
    reader.accept("FROM") or reader.accept("IN")
    cursor = reader.name()
    return Fetch(cursor, count, _timeout(reader) if reader.accept("WITH", "(") else None)


def _timeout(reader: WordReader) -> float:
    reader.require("TIMEOUT")
    reader.accept("=")
    text = reader.one("string", "number").value
    reader.require(")")
    match = _DURATION.fullmatch(text)
    unit = _UNITS.get(match["unit"].lower()) if match else None
    if match is None or unit is None:
        raise syntax_error(f"timeout is a duration, as '1s' or '500ms', not {text[:30]!r}")
    return min(float(match["number"]) * unit, _LONGEST_S)


def _close(reader: WordReader, _: Statement) -> Command:
    return CloseCursor("" if reader.accept("ALL") else reader.name())


def _set(reader: WordReader, _: Statement) -> Command:
    for scope in ("SESSION", "LOCAL"):
        if len(reader.words) > 1 and reader.words[1].upper not in ("=", "TO", "."):
            reader.accept(scope)
    if reader.accept("TRANSACTION") or reader.accept("CHARACTERISTICS"):
        reader.at += len(reader.words)
        return SetSetting("transaction", "")
    if reader.accept("TIME", "ZONE"):
        name = "timezone"
    else:
        name = _dotted(reader)
        if not (reader.accept("=") or reader.accept("TO")):
            raise reader.unexpected()
    values = [
        reader.one("word", "quoted", "string", "number", "sign").value for _ in range(len(reader.words))
    ]
    if not values:
        raise reader.unexpected()
    text = "".join(values).strip('"')
    return SetSetting(name, None if text.upper() == "DEFAULT" else text)


def _reset(reader: WordReader, _: Statement) -> Command:
    return Discard() if reader.accept("ALL") else SetSetting(_dotted(reader), None)


def _show(reader: WordReader, _: Statement) -> Command:
    if reader.accept("TABLES"):
        return ShowTables()
    if reader.accept("COLUMNS", "FROM"):
        names = [reader.name()]
        while reader.accept("."):
            names.append(reader.name())
        return ShowColumns(tuple(names))
    if reader.accept("TRANSACTION", "ISOLATION", "LEVEL"):
        return ShowSetting("transaction_isolation")
    if reader.accept("TIME", "ZONE"):
        return ShowSetting("timezone")
    return ShowSetting(_dotted(reader))


def _dotted(reader: WordReader) -> str:
    names = [reader.name()]
    while reader.accept("."):
        names.append(reader.name())
    return ".".join(names).lower()


def _deallocate(reader: WordReader, _: Statement) -> Command:
    if len(reader.words) > 1:
        reader.accept("PREPARE")
    return Deallocate("" if reader.accept("ALL") else reader.name())


def _discard(reader: WordReader, _: Statement) -> Command:
    reader.one("word")
    return Discard()


def _select(reader: WordReader, _: Statement) -> Command:
    items: list[Word | str] = []
    while True:
        if reader.words and reader.words[0].kind in ("number", "string"):
            items.append(reader.one("number", "string"))
        elif reader.words and reader.words[0].kind in ("word", "quoted"):
            name = _dotted(reader).removeprefix("pg_catalog.")
            if reader.accept("(") and not reader.accept(")"):
                raise _no_tables()
            items.append(name)
        else:
            raise _no_tables()
        if reader.accept("AS"):
            reader.name()
        if len(items) > _MOST_CONSTANTS:
            raise RequestRefused(
                f"a SELECT of constants has up to {_MOST_CONSTANTS} columns", "too_many_columns", "54011"
            )
        if not reader.words:
            return SelectConstants(tuple(items))
        if not reader.accept(","):
            raise _no_tables()


def _no_tables() -> Exception:
    return not_supported("SELECT is there for constants: this server gives subscriptions alone", _HINT)


_READERS: Final[Mapping[str, Callable[[WordReader, Statement], Command]]] = {
    "ABORT": _end(commit=False),
    "BEGIN": _begin,
    "CLOSE": _close,
    "COMMIT": _end(commit=True),
    "COPY": _copy,
    "DEALLOCATE": _deallocate,
    "DECLARE": _declare,
    "DISCARD": _discard,
    "END": _end(commit=True),
    "FETCH": _fetch,
    "RESET": _reset,
    "ROLLBACK": _end(commit=False),
    "SELECT": _select,
    "SET": _set,
    "SHOW": _show,
    "START": _begin,
}
