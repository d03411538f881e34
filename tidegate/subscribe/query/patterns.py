"""LIKE and ILIKE: ``%`` is any text, ``_`` any character. A character after a backslash stands for itself.

The pieces between ``%`` are found one after the other. A piece has one or more *runs* of plain text with
``_`` between them. Python finds a run in linear time. Wherever that run stands, the other runs of the piece
are compared. The number of runs has a bound, so the time grows linearly with the text.

ILIKE folds the text and the pattern in the same way, character by character, and then does what LIKE does.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from tidegate.errors import LimitExceeded
from tidegate.subscribe.query.query_work import SOUGHT, RowWork

_TOKEN: Final = re.compile(r"\\(?P<taken>.)|(?P<any>%)|(?P<one>_)|(?P<plain>[^\\%_]+|\\$)", re.DOTALL)
#: The most characters of a pattern: as long as a statement. A column may be a pattern too.
MOST_CHARACTERS: Final = 65_536
#: The most runs, and the most characters, of a piece with several runs that is searched for: wherever one of
#: its runs stands, all of them may be compared.
MOST_RUNS: Final = 16
MOST_PIECE: Final = 1_000
#: In a piece with several runs, only this many first characters of a run are searched for: at each call
#: `str.find` first goes through the whole text that it searches for.
_SOUGHT: Final = 64
_PATTERNS_KEPT: Final = 128
#: Longer patterns are read again for each row: a pattern that is kept may take twenty times its own bytes.
_KEPT_CHARACTERS: Final = 1_000
#: Each time that a piece was compared at this many places of a text, the steps are counted.
_LOOKS: Final = 1_000

#: Characters that are equal without regard to case, beside those that ``lower`` makes equal. All of a group
#: are replaced by its first. Source: CPython's ``Lib/re/_casefix.py``, which IGNORECASE follows.
_ALSO_EQUAL: Final = (
    "i\u0131", "s\u017f", "\xb5\u03bc", "\u0345\u03b9\u1fbe", "\u0390\u1fd3", "\u03b0\u1fe3",
    "\u03b2\u03d0", "\u03b5\u03f5", "\u03b8\u03d1", "\u03ba\u03f0", "\u03c0\u03d6", "\u03c1\u03f1",
    "\u03c2\u03c3", "\u03c6\u03d5", "\u0432\u1c80", "\u0434\u1c81", "\u043e\u1c82", "\u0441\u1c83",
    "\u0442\u1c84\u1c85", "\u044a\u1c86", "\u0463\u1c87", "\u1c88\ua64b", "\u1e61\u1e9b", "\ufb05\ufb06",
)  # fmt: skip
_FIRST_OF_EQUAL: Final = {ord(each): equal[0] for equal in _ALSO_EQUAL for each in equal[1:]}
#: The only character whose small letter has two characters.
_DOTTED: Final = "\u0130"


class _Piece(NamedTuple):
    """The part of a pattern between two ``%``: its length in characters, and its runs with their offsets in
    it."""

    length: int
    runs: tuple[tuple[int, str], ...]

    def stands(self, text: str, at: int) -> bool:
        """Whether the text has the piece at ``at``. The text is long enough for the whole piece there."""
        return all(text.startswith(run, at + offset) for offset, run in self.runs)

    def end_in(self, text: str, at: int, work: RowWork) -> int:
        """Return where the piece ends in the text, at its first place from ``at`` on; -1 if it has none.

        Raises ``LimitExceeded`` for a piece of many runs, and if ``work`` raises it.
        """
        if not self.runs:
            return at + self.length if at + self.length <= len(text) else -1
        offset, run = max(self.runs, key=lambda each: len(each[1]))
        sought = run if len(self.runs) == 1 else self._begin_of(run)
        last = len(text) - self.length
        found = text.find(sought, at + offset, last + offset + len(sought))
        looks, steps = 0, 1 + len(self.runs) // 4
        while found >= 0 and not self.stands(text, found - offset):
            found = text.find(sought, found + 1, last + offset + len(sought))
            looks += 1
            if looks == _LOOKS:
                work.spend(_LOOKS * steps)
                looks = 0
        work.spend(1 + looks * steps)
        return -1 if found < 0 else found - offset + self.length

    def _begin_of(self, run: str) -> str:
        if len(self.runs) > MOST_RUNS or self.length > MOST_PIECE:
            raise LimitExceeded(
                f"a part of a pattern of LIKE between two % has up to {MOST_RUNS} texts with _ between them, "
                f"and {MOST_PIECE:,} characters: this one has {len(self.runs):,} and {self.length:,}"
            )
        return run[:_SOUGHT]


def is_like(text: str, pattern: str, *, fold: bool = False, work: RowWork | None = None) -> bool:
    """Whether the whole text matches the pattern; with ``fold`` case does not matter.

    Raises ``LimitExceeded`` for a pattern that takes too long, alone or with all other ``work``.
    """
    work = work or RowWork()
    if len(pattern) > MOST_CHARACTERS:
        raise LimitExceeded(
            f"a pattern of LIKE has up to {MOST_CHARACTERS:,} characters, and this one has {len(pattern):,}"
        )
    if fold:
        work.change_letters(text)
        text = _folded(text)
    is_kept = len(pattern) <= _KEPT_CHARACTERS
    work.spend(1 + len(text) // SOUGHT + (0 if is_kept else len(pattern)))
    read = _kept_pieces if is_kept else _pieces
    first, *between = read(pattern, fold)
    if not between:
        return len(text) == first.length and first.stands(text, 0)
    *between, last = between
    if len(text) < first.length or not first.stands(text, 0):
        return False
    at = first.length
    for piece in between:
        at = piece.end_in(text, at, work)
        if at < 0:
            return False
    begin = len(text) - last.length
    return begin >= at and last.stands(text, begin)


def _folded(text: str) -> str:
    """Return a text with the same number of characters, equal for two texts that differ only in case."""
    if text.isascii():
        return text.lower()
    return text.replace(_DOTTED, "i").lower().translate(_FIRST_OF_EQUAL)


def _pieces(pattern: str, fold: bool) -> tuple[_Piece, ...]:
    pieces: list[_Piece] = []
    runs: list[tuple[int, list[str]]] = []
    length, run_ends = 0, -1
    for token in _TOKEN.finditer(_folded(pattern) if fold else pattern):
        match token.lastgroup:
            case "any":
                pieces.append(_piece(length, runs))
                runs, length, run_ends = [], 0, -1
            case "one":
                length += 1
            case kind:
                plain = token[kind or 0]
                if run_ends != length:
                    runs.append((length, []))
                runs[-1][1].append(plain)
                length += len(plain)
                run_ends = length
    return (*pieces, _piece(length, runs))


def _piece(length: int, runs: list[tuple[int, list[str]]]) -> _Piece:
    return _Piece(length, tuple([(offset, "".join(texts)) for offset, texts in runs]))


_kept_pieces: Final = lru_cache(_PATTERNS_KEPT)(_pieces)
