"""Bounds how large a row may become (docs/security.md#bounds).

Few bytes of a row can become many bytes of a record: a NULL in an array is one bit and prints as ``null``, a
member of an enum is two bytes and prints as its label, the number ``0E-1999`` is six bytes and prints 2,001
digits. So the text is counted while it is made. A row that is too large fails its feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tidegate.errors import RowError

#: The most bytes of a row's value, and of one array in it: as many as a command of CockroachDB may have.
ROW_BYTES_MAX: Final = 64 << 20
#: Arrays with at most so many elements are not counted, since each element is bounded elsewhere.
_FEW: Final = 16


def array_texts(items: Sequence[Any], text: Callable[[Any], str], null: str) -> list[str]:
    """Return the texts of an array's elements, ``null`` for NULL. Raises ``RowError`` for too many bytes."""
    if len(items) <= _FEW:
        return [null if item is None else text(item) for item in items]
    return counted(null if item is None else text(item) for item in items)


def counted(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list.

    Raises ``RowError`` as soon as they have more than ``ROW_BYTES_MAX`` characters together. The texts after
    that are not made. Characters are counted and not bytes, so texts beyond ASCII may have more bytes.
    """
    room = ROW_BYTES_MAX
    kept: list[str] = []
    for text in texts:
        room -= len(text)
        if room < 0:
            raise too_large("an array of it")
        kept.append(text)
    return kept


def too_large(what: str) -> RowError:
    """Return the error of a row that has more bytes than a row may have."""
    return RowError(f"the row is too large: {what} becomes more than {ROW_BYTES_MAX} bytes; the feed fails")
