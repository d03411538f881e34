"""LIKE and ILIKE: ``%`` is any text, ``_`` any character, a backslash takes what follows as it is.

The pieces between ``%`` are found one after the other. One regular expression for all of them would take a
power of the text's length. A piece with ``_``, and each piece of ILIKE, takes time in proportion to the text
times the piece.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r"\\(?P<taken>.)|(?P<any>%)|(?P<one>_)|(?P<plain>[^\\%_]+|\\$)", re.DOTALL)
_PATTERNS_KEPT: Final = 128


class _Piece(NamedTuple):
    """What stands between two ``%``: as many characters as it is long.

    ``plain`` is its text, if it has no ``_`` and case counts: Python finds that in linear time.
    """

    form: re.Pattern[str]
    length: int
    plain: str | None

    def end_in(self, text: str, at: int) -> int:
        """Return where it ends in the text, where it stands first from ``at`` on; -1 if it does not."""
        if self.plain is not None:
            found = text.find(self.plain, at)
            return -1 if found < 0 else found + self.length
        match = self.form.search(text, at)
        return -1 if match is None else match.end()


def is_like(text: str, pattern: str, *, fold: bool = False) -> bool:
    """Whether the whole text is as the pattern says; ``fold`` passes over case."""
    first, *between = _pieces(pattern, fold)
    if not between:
        return first.form.fullmatch(text) is not None
    *between, last = between
    if first.form.match(text) is None:
        return False
    at = first.length
    for piece in between:
        at = piece.end_in(text, at)
        if at < 0:
            return False
    begin = len(text) - last.length
    return begin >= at and last.form.match(text, begin) is not None


@lru_cache(_PATTERNS_KEPT)
def _pieces(pattern: str, fold: bool) -> tuple[_Piece, ...]:
    texts, lengths = [""], [0]
    plains: list[str | None] = [None if fold else ""]
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "any":
                texts.append("")
                lengths.append(0)
                plains.append(None if fold else "")
            case "one":
                texts[-1] += "."
                lengths[-1] += 1
                plains[-1] = None
            case kind:
                plain = token[kind or 0]
                texts[-1] += re.escape(plain)
                lengths[-1] += len(plain)
                before = plains[-1]
                plains[-1] = None if before is None else before + plain
    flags = re.DOTALL | (re.IGNORECASE if fold else re.NOFLAG)
    parts = zip(texts, lengths, plains, strict=True)
    return tuple(_Piece(re.compile(text, flags), length, plain) for text, length, plain in parts)
