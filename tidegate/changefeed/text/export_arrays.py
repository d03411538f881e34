"""Arrays in the text form of EXPORT: the SQL expression of the array, each element with its type.

``ARRAY['a':::STRING,NULL]``, ``ARRAY[1:::INT8,(-1):::INT8]``, ``ARRAY[]``. ``FmtExport`` prints strings bare,
but elements of arrays are printed by ``FmtParsable``, so that an array can be read back. Strings with a
character that is not printable ASCII are escape strings, ``e'\\u00E9'``. Booleans, bits, collated strings and
NULL need no annotation; everything else has one.

Source: CockroachDB ``DArray.Format``, the elements' ``Format`` and ``AmbiguousFormat`` in
``pkg/sql/sem/tree/datum.go``, ``FmtCtx.FormatNode`` in ``format.go``, ``pkg/sql/lexbase/encode.go`` and
``pkg/util/stringencoding``. One rule has no source: if the name of an ENUM has no schema, the log does not
tell the schema, and ``public`` is printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tidegate.changefeed.text.row_bytes import array_texts
from tidegate.rows.types import Kind, SqlType

_Text: TypeAlias = Callable[[Any], str]

_PLAIN: Final = re.compile(r"[ -&(-\[\]-~]*")  # printable ASCII without the quote and the backslash
_ESCAPES: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "'": "\\'"}
_REPLACEMENT: Final = "\ufffd"
_REPLACEMENT_BYTES: Final = 3
_ASCII: Final = 0x80
_TWO_BYTES: Final = 0x800
_NUMBERS: Final = {Kind.INT: "INT8", Kind.FLOAT: "FLOAT8", Kind.DECIMAL: "DECIMAL"}


def array_text(element: SqlType, text: _Text) -> _Text:
    """Return a printer of arrays of ``element``; ``text`` prints its datums outside arrays."""
    expression = _expression(element, text)

    def array(items: tuple[Any, ...]) -> str:
        return f"ARRAY[{','.join(array_texts(items, expression, 'NULL'))}]"

    return array


def sql_string(text: str) -> str:
    """Return a string literal of SQL: ``'a'``, ``e'it\\'s'``.

    Bytes that were not UTF-8 are escaped as bytes: ``\\xff``.
    """
    return f"'{text}'" if _PLAIN.fullmatch(text) else f"e'{_escaped(text)}'"


def _expression(element: SqlType, text: _Text) -> _Text:
    match element.kind:
        case Kind.BOOL:
            return text
        case Kind.BIT:
            return lambda datum: f"B'{text(datum)}'"
        case Kind.COLLATED_STRING:
            locale = element.locale.replace("-", "_")
            return lambda datum: f"{sql_string(text(datum))} COLLATE {locale}"
        case Kind.INT | Kind.FLOAT | Kind.DECIMAL:
            return lambda datum: f"{_number(text(datum))}:::{_NUMBERS[element.kind]}"
        case Kind.OID:
            return lambda datum: f"{text(datum)}:::OID"
        case Kind.STRING | Kind.JSONB | Kind.ENUM:
            annotation = _type_of_text(element)
            return lambda datum: f"{sql_string(text(datum))}:::{annotation}"
        case kind:
            return lambda datum: f"{_quoted(text(datum))}:::{kind.value}"


def _type_of_text(element: SqlType) -> str:
    match element.kind, element.name:
        case Kind.JSONB, _:
            return "JSONB"
        case Kind.ENUM, name:
            return name if "." in name else f"public.{name}"
        case _, "NAME":
            return "STRING:::NAME"  # a wrapped string, annotated by both
        case _, "REFCURSOR":
            return "REFCURSOR"
        case _:
            return "STRING"


def _number(text: str) -> str:
    """Return a number's text, ready for its annotation: ``1``, ``(-1)``, ``'NaN'``.

    Without the brackets the annotation would bind closer than the minus sign.
    """
    if not text.lstrip("+-")[0].isdigit():
        return f"'{text}'"
    return f"({text})" if text.startswith("-") else text


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _escaped(text: str) -> str:
    """Escape a text as CockroachDB does.

    At a byte that is not UTF-8, CockroachDB escapes three bytes: that byte and the next two.
    """
    data = text.encode("utf-8", "surrogateescape")
    parts: list[bytes] = []
    position = done = 0
    for character in text:
        at, size = position, len(character.encode("utf-8", "surrogateescape"))
        position += size
        if at < done or _PLAIN.fullmatch(character):
            continue
        parts.append(data[done:at])
        done = at + size
        if character == _REPLACEMENT or "\ud800" <= character <= "\udfff":
            done = at + _REPLACEMENT_BYTES
            parts.append("".join(f"\\x{byte:02x}" for byte in data[at:done]).encode())
        else:
            parts.append(_escape(character).encode())
    parts.append(data[done:])
    return b"".join(parts).decode("utf-8", "surrogateescape")


def _escape(character: str) -> str:
    code = ord(character)
    if code < _ASCII:
        return _ESCAPES.get(character, f"\\x{code:02x}")
    return f"\\u{code:04X}" if code < _TWO_BYTES else f"\\U{code:08X}"
