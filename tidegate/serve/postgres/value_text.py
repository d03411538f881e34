"""Writes values as PostgreSQL's text, for rows and for COPY.

True -> t    1E+3 -> 1000    b"\\x01" -> \\x01    [1, null] -> [1, null]    (1, 2) -> 1.0000000002
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from tidegate.errors import RequestRefused
from tidegate.hlc import Timestamp
from tidegate.serve.json_values import json_value
from tidegate.subscribe.text.nested_text import nested_text, quoted_text
from tidegate.subscribe.text.number_text import number_text


def value_bytes(value: Any) -> bytes | None:
    """Return a value's text; ``None`` for NULL. Raises ``RequestRefused`` for a text without a UTF-8 form."""
    if value is None:
        return None
    kind = type(value)
    if kind is str:
        return _utf8(value)
    if kind is int:
        return b"%d" % value
    return _TEXTS[kind](value) if kind in _TEXTS else _utf8(str(value))


def row_values(row: Sequence[Any]) -> list[bytes | None]:
    """Return the texts of a row's values; ``None`` for NULL."""
    return [value_bytes(value) for value in row]


def copy_line(row: Sequence[Any]) -> bytes:
    """Return a row as a line of COPY's text form: tabs between values, ``\\N`` for NULL, a line feed at the
    end."""
    return (
        b"\t".join([b"\\N" if (text := value_bytes(value)) is None else _escaped(text) for value in row])
        + b"\n"
    )


def _escaped(text: bytes) -> bytes:
    if b"\\" in text:
        text = text.replace(b"\\", b"\\\\")
    if b"\t" in text or b"\n" in text or b"\r" in text:
        text = text.replace(b"\t", b"\\t").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    return text


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise RequestRefused(
            f"A text of a row has {error.object[error.start]!r}, half of a surrogate pair, which cannot be "
            "sent: the subscription ends. Leave that column out",
            "unsendable_value",
            "22P05",
        ) from None


def _number(value: float | Decimal) -> bytes:
    return number_text(value).encode()


def _json(value: Any) -> bytes:
    return _utf8(nested_text(value, _scalar_text))


def _scalar_text(value: Any) -> str:
    """Return a value without members as JSON, a number with all of its digits.

    Numbers in PostgreSQL's JSON may have any length.
    """
    match value:
        case bool() | None:
            return _WORDS[value]
        case int():
            return str(value)
        case Decimal() if value.is_finite():
            return number_text(value)
    plain = json_value(value)
    return repr(plain) if isinstance(plain, float) else quoted_text(plain)


_WORDS: Final = {None: "null", True: "true", False: "false"}
_TEXTS: Final[dict[type, Callable[[Any], bytes]]] = {
    Timestamp: lambda value: value.decimal().encode(),
    bool: lambda value: b"t" if value else b"f",
    Decimal: _number,
    float: _number,
    bytes: lambda value: b"\\x" + value.hex().encode(),
    list: _json,
    tuple: _json,
    dict: _json,
}
