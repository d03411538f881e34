"""Turns lark's errors about a text that is no statement into Materialize's words: ``Expected KEY, found
comma``.

Materialize's parser is written by hand and names one thing that it wants; lark names all that could stand
there. If the statement could end there, the error names the end of the statement, because nothing that may
follow was found.

Source: Materialize ``src/sql-parser/src/parser.rs`` (``expected``, ``expect_one_of_keywords``).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from tidegate.errors import SubscribeStatementError
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.statement.grammar import KEYWORDS, UNSUPPORTED, terminal

_SHOWN: Final = 60  # characters of a word that may be of any length
_BY_TERMINAL: Final = {terminal(word): word for word in KEYWORDS if word != "TAIL"}
_WORDS: Final = frozenset((*KEYWORDS, *UNSUPPORTED, "TIMESTAMP", "WITHIN"))
_PIECE: Final = re.compile(
    r"""(?P<string>'(?:[^']|'')*')|"(?P<quoted>(?:[^"]|"")+)"|(?P<number>\d+(?:\.\d+)?)"""
    r"""|(?P<word>[^\W\d][\w$]*)|(?P<operator>[-+*/%<>=!|]+)""",
)
_PUNCTUATION: Final = {
    "(": "left parenthesis",
    ")": "right parenthesis",
    ",": "comma",
    ".": "dot",
    ";": "semicolon",
}
_OPTIONS: Final = frozenset({"PROGRESS", "SNAPSHOT"})
#: The words for each terminal that can be wanted. Where several can stand, the first of them is named.
_WANTED: Final = (
    ("$END", "end of statement"),
    ("_RPAR", "right parenthesis"),
    ("NUMBER", "an expression"),
    ("NAME", "identifier"),
    ("_LIST_LPAR", "a list of columns in parentheses"),
    ("_LPAR", "left parenthesis"),
    ("_EQUAL", "equals sign"),
)


def syntax_error(error: Any, text: str) -> SubscribeStatementError:
    """Make the error for what lark raised (``lark.exceptions.UnexpectedInput``) for ``text``."""
    token = getattr(error, "token", None)
    at_end = token is not None and token.type == "$END"
    position = len(text.rstrip()) if at_end else error.pos_in_stream
    accepted = getattr(error, "accepts", None) or getattr(error, "allowed", None) or ()
    if not at_end and text[position] in "'\"" and text[position] not in text[position + 1 :]:
        return StatementFault.SYNTAX.error("the quote that opens here is never closed", position)
    if text.startswith("/*", position):
        return StatementFault.SYNTAX.error("the comment that opens here is never closed", position)
    fault = StatementFault.SYNTAX
    if accepted and {*accepted} <= _OPTIONS and text[position : position + 1].isalpha():
        fault = StatementFault.UNKNOWN_OPTION
    return fault.error(f"Expected {_wanted(accepted)}, found {found(text, position)}", position)


def found(text: str, position: int) -> str:
    """Say in words what stands at ``position``: ``ENVELOPE``, ``identifier "a"``, ``EOF``."""
    if position >= len(text.rstrip()):
        return "EOF"
    piece = _PIECE.match(text, position)
    if piece is None:
        return _PUNCTUATION.get(text[position], repr(text[position]))
    shown = piece[0] if len(piece[0]) <= _SHOWN else f"{piece[0][:_SHOWN]}..."
    match piece.lastgroup:
        case "string":
            return f"string literal {shown}"
        case "number" | "operator":
            return f'{piece.lastgroup} "{shown}"'
        case "word" if shown.upper() in _WORDS:
            return shown.upper()
    return f'identifier "{shown.strip(chr(34))}"'


def _wanted(accepted: Collection[str]) -> str:
    for name, text in _WANTED:
        if name in accepted:
            return text
    words = [word for name, word in _BY_TERMINAL.items() if name in accepted]
    if not words:
        return "something else"
    return words[0] if len(words) == 1 else f"one of {', '.join(words[:-1])} or {words[-1]}"
