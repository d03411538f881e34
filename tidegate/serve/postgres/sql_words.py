"""Cuts SQL into statements and words, as far as the commands of a session need it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, overload

from tidegate.errors import RequestRefused

_PIECE: Final = re.compile(
    r"(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))"  # without an end it takes the rest: one search
    r"|(?P<string>'[^']*'(?:'[^']*')*)"
    r'|(?P<quoted>"[^"]*"(?:"[^"]*")*)'
    r"|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<word>[^\W\d][\w$]*)"
    r"|(?P<sign>.)",
    re.DOTALL,
)


class Word(NamedTuple):
    """A word of SQL. ``kind`` is string, quoted, number, word or sign; ``at`` is its offset."""

    kind: str
    text: str
    at: int

    @property
    def upper(self) -> str:
        """The word or sign in upper case, as keywords are; empty for quoted names, texts and numbers."""
        return self.text.upper() if self.kind in ("word", "sign") else ""

    @property
    def name(self) -> str:
        """The name that the word stands for: without quotes, or in lower case."""
        return self.text[1:-1].replace('""', '"') if self.kind == "quoted" else self.text.lower()

    @property
    def value(self) -> str:
        """The text that the word stands for: without quotes."""
        return self.text[1:-1].replace("''", "'") if self.kind == "string" else self.text


class Statement(NamedTuple):
    """One statement of a text: its words, and the text from which their offsets count."""

    words: tuple[Word, ...]
    source: str

    def text_from(self, word: int, until: int | None = None) -> str:
        """Return the text from one word up to another one, which is excluded, or to the end."""
        end = self.words[-1].at + len(self.words[-1].text) if until is None else self.words[until].at
        return self.source[self.words[word].at : end]


def statements(text: str) -> list[Statement]:
    """Split the text at its semicolons into statements. Those without a word are left out."""
    found: list[list[Word]] = [[]]
    for piece in _PIECE.finditer(text):
        kind = str(piece.lastgroup)
        if kind == "sign" and piece[0] == ";":
            found.append([])
        elif kind != "space":
            found[-1].append(Word(kind, piece[0], piece.start()))
    return [Statement(tuple(words), text) for words in found if words]


class _Left(Sequence[Word]):
    """The words of a statement from the word at ``first`` on."""

    __slots__ = ("_first", "_words")

    def __init__(self, words: tuple[Word, ...], first: int) -> None:
        self._words = words
        self._first = first

    def __len__(self) -> int:
        return len(self._words) - self._first

    @overload
    def __getitem__(self, at: int) -> Word: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Word]: ...
    def __getitem__(self, at: int | slice) -> Word | Sequence[Word]:
        if isinstance(at, slice):
            return self._words[self._first :][at]
        return self._words[self._first + at]


class WordReader:
    """Reads a statement's words one after the other."""

    __slots__ = ("_statement", "at")

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self.at = 0

    @property
    def words(self) -> Sequence[Word]:
        """The words that are left. They are not copied: a command may have 100,000."""
        return _Left(self._statement.words, self.at)

    def accept(self, *keywords: str) -> bool:
        """Pass over these keywords if they stand here, one after the other. Returns whether they do."""
        ahead = [word.upper for word in self._statement.words[self.at : self.at + len(keywords)]]
        if ahead != list(keywords):
            return False
        self.at += len(keywords)
        return True

    def one(self, *kinds: str) -> Word:
        """Read the next word, which has to be of one of the kinds. Raises ``RequestRefused``."""
        if not self.words or self.words[0].kind not in kinds:
            raise self.unexpected()
        self.at += 1
        return self._statement.words[self.at - 1]

    def name(self) -> str:
        """Read the next word as a name. Raises ``RequestRefused``."""
        return self.one("word", "quoted").name

    def require(self, *keywords: str) -> None:
        """Pass over keywords that have to stand here, one after the other. Raises ``RequestRefused``."""
        for keyword in keywords:
            if not self.accept(keyword):
                raise self.unexpected()

    def require_end(self) -> None:
        """Raise ``RequestRefused`` if a word follows."""
        if self.words:
            raise self.unexpected()

    def unexpected(self) -> RequestRefused:
        """Make the error for the word that stands here."""
        if not self.words:
            return syntax_error("syntax error at end of input")
        return syntax_error(f'syntax error at or near "{self.words[0].text[:60]}"')


def syntax_error(message: str) -> RequestRefused:
    """Make the error for SQL that is no command."""
    return RequestRefused(message, "syntax_error", "42601")


def not_supported(message: str, hint: str = "") -> RequestRefused:
    """Make the error for SQL that PostgreSQL understands and this server does not."""
    return RequestRefused(message, "not_supported", "0A000", hint)
