"""LIKE and ILIKE: ``%`` is any text, ``_`` any character, a backslash takes what follows as it is.

The pieces between ``%`` are found one after the other, so a pattern takes time in proportion to the text.
One regular expression for all of them would take a power of it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r"\\(?P<taken>.)|(?P<any>%)|(?P<one>_)|(?P<plain>[^\\%_]+|\\$)", re.DOTALL)
_PATTERNS_KEPT: Final = 128


class _Piece(NamedTuple):
    """What stands between two ``%``: as many characters as it is long."""

    form: re.Pattern[str]
    length: int


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
        found = piece.form.search(text, at)
        if found is None:
            return False
        at = found.end()
    begin = len(text) - last.length
    return begin >= at and last.form.match(text, begin) is not None


@lru_cache(_PATTERNS_KEPT)
def _pieces(pattern: str, fold: bool) -> tuple[_Piece, ...]:
    texts, lengths = [""], [0]
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "any":
                texts.append("")
                lengths.append(0)
            case "one":
                texts[-1] += "."
                lengths[-1] += 1
            case kind:
                plain = token[kind or 0]
                texts[-1] += re.escape(plain)
                lengths[-1] += len(plain)
    flags = re.DOTALL | (re.IGNORECASE if fold else re.NOFLAG)
    return tuple(_Piece(re.compile(text, flags), n) for text, n in zip(texts, lengths, strict=True))
