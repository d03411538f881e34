"""Masks a statement for errors: keywords and option names stay, and nearly all else is replaced by stars.

A mistake can move a secret to any place. If a quote is missing, what stood inside quotes stands outside, and
a password may stand where a name belongs. So nothing is shown only because of its place, except table names:
these follow ``CREATE CHANGEFEED FOR``, and are letters and digits between spaces, commas and dots.
"""

from __future__ import annotations

import re
from typing import Final

from tidegate.changefeed.statement.grammar import KEYWORDS
from tidegate.changefeed.statement.option_table import KNOWN_OPTIONS

_SHOWN: Final = 60  # characters of a word that may be of any length
_WORDS: Final = frozenset(
    (
        *map(str.lower, KEYWORDS),
        *KNOWN_OPTIONS,
        *(choice for option in KNOWN_OPTIONS.values() for choice in option.choices),
        *("delete", "insert", "options", "select", "update", "upsert"),
    )
)
#: A literal, a quoted name, a comment or a word. A piece that is not closed goes on to the end.
_PIECE: Final = re.compile(
    r"""'[^']*'?|"[^"]*"?|--[^\n]*|/\*(?:(?!\*/)[\s\S])*(?:\*/)?|[^\s,.=();'"]+""",
)
_BEGIN: Final = re.compile(r"\s*CREATE\s+CHANGEFEED\s+FOR(?=\s)", re.IGNORECASE)
_TABLE_NAME: Final = re.compile(r"[^\W\d][\w$]*(?=[\s,.])")
_HIDDEN: Final = re.compile(r"[^\s]")
_AFTER_NAMES: Final = frozenset(("into", "with"))


def masked(statement: str) -> str:
    """Return the statement with stars in place of all that may be a secret.

    The result has the length and the line breaks of the statement.

    Example: ``FOR TABLE t INTO 'kafka://h' WITH diff`` becomes ``FOR TABLE t INTO '*********' WITH diff``.
    """
    begin = _BEGIN.match(statement)
    names_end = _names_end(statement, begin.end()) if begin else 0
    return _PIECE.sub(lambda piece: _masked_piece(piece, names_end), statement)


def found_words(statement: str, position: int) -> str:
    """Describe what stands at ``position`` for an error, in words that show no secret.

    The result is the word itself if it is known. Otherwise it is, for example, 'another word' or 'text in
    single quotes'.
    """
    piece = _PIECE.match(masked(statement), position)
    if piece is None:
        return statement[position]
    text = piece[0]
    if text.startswith(("'", '"')):
        return "text in single quotes" if text[0] == "'" else "text in double quotes"
    if "*" in text:
        return "another word"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _names_end(statement: str, begin: int) -> int:
    """Return where the table names end: at the first piece after ``begin`` that is not a table name."""
    for piece in _PIECE.finditer(statement, begin):
        name = _TABLE_NAME.match(statement, piece.start())
        if name is None or name.end() != piece.end() or name[0].lower() in _AFTER_NAMES:
            return piece.start()
    return len(statement)


def _masked_piece(piece: re.Match[str], names_end: int) -> str:
    text = piece[0]
    if piece.start() < names_end or text.lower() in _WORDS:
        return text
    if text[0] in "'\"":
        if text[1:-1].lower() in _WORDS:
            return text
        end = text[0] if len(text) > 1 and text[-1] == text[0] else ""
        return text[0] + _stars(text[1 : len(text) - len(end)]) + end
    return text[:2] + _stars(text[2:]) if text.startswith(("--", "/*")) else _stars(text)


def _stars(text: str) -> str:
    return _HIDDEN.sub("*", text)
