r"""Reads SQL's quotes: ``'it''s'``, ``e'\n'``, ``b'\xff'``, ``x'00ff'``, ``B'010'``, and ``'{1,NULL}'``.

Source: CockroachDB ``pkg/sql/scanner`` and ``pkg/sql/sem/tree/parse_array.go``. The prefix's case counts:
``b`` is for bytes, ``B`` for bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_PLAIN: Final = r"'(?:[^']|'')*'"
_ESCAPING: Final = r"(?<=[beE])'(?:[^'\\]|\\.|'')*'"
_PREFIXED: Final = re.compile(rf"(?P<prefix>[bBxXeE]|)(?P<text>{_PLAIN}|{_ESCAPING})", re.DOTALL)
_TYPED: Final = re.compile(rf"[A-Za-z_][\w ]*(?:\([\d, ]+\))?\s*(?P<text>{_PLAIN})")
_ESCAPE: Final = re.compile(rb"\\(x[0-9A-Fa-f]{2}|[0-7]{1,3}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_NAMED: Final = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
#: BYTES written as text escape a backslash by another one, and any byte by three octal digits.
_BYTEA_ESCAPE: Final = re.compile(rb"\\(\\|[0-3][0-7]{2}|)")
_OPENING: Final = re.compile(r"(?<!\w)[beE]$")


def plain_name(name: str) -> str:
    """The name of a table or column, without its quotes."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def unquoted(text: str) -> str | bytes:
    """The text or bytes of a literal, with or without its type in front; anything else as it stands."""
    if (prefixed := _PREFIXED.fullmatch(text)) is not None:
        inside = prefixed["text"][1:-1]
        match prefixed["prefix"]:
            case "b":
                return _escaped(inside.replace("''", "'"))
            case "x" | "X":
                return bytes.fromhex(inside)
            case "e" | "E":
                return _escaped(inside.replace("''", "'")).decode()
        return inside.replace("''", "'")
    typed = _TYPED.fullmatch(text)
    return text if typed is None else typed["text"][1:-1].replace("''", "'")


def bytea(text: str) -> bytes:
    r"""BYTES written as text: ``\x00ff``, or text in which ``\001`` is a byte and ``\\`` a backslash."""
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])

    def byte(match: re.Match[bytes]) -> bytes:
        if not match[1]:
            raise ValueError(f"{text!r} has a backslash that escapes nothing")
        return b"\\" if match[1] == b"\\" else bytes([int(match[1], 8)])

    return _BYTEA_ESCAPE.sub(byte, text.encode())


def split_list(text: str) -> list[str]:
    """The items between commas outside quotes and brackets."""
    return [item.strip() for item in _items(text)]


def array_items(text: str) -> list[str | None]:
    """The elements of ``{1,NULL,"a,b"}`` as text. Raises ``ValueError`` for what is no such array."""
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"{text!r} is no array")
    if not text[1:-1].strip():
        return []
    items: list[str | None] = []
    position = 1
    while position < len(text):
        item, position = _array_item(text, position)
        items.append(item)
    return items


def _array_item(text: str, position: int) -> tuple[str | None, int]:
    """The element at a position, and where the next one begins."""
    while text[position].isspace():
        position += 1
    quoted = text[position] == '"'
    position += quoted
    found = ""
    while text[position] != '"' if quoted else text[position] not in ",}":
        position += text[position] == "\\"
        found += text[position]
        position += 1
    position += quoted
    while text[position].isspace():
        position += 1
    if text[position] != ("}" if position == len(text) - 1 else ","):
        raise ValueError(f"{text!r} is no array: see offset {position}")
    if quoted:
        return found, position + 1
    found = found.strip()
    if not found:
        raise ValueError(f"{text!r} is no array: an element is empty")
    return None if found.upper() == "NULL" else found, position + 1


def _escaped(text: str) -> bytes:
    def byte(match: re.Match[bytes]) -> bytes:
        escape = match[1]
        if escape[:1].isdigit():
            return bytes([int(escape, 8) & 0xFF])
        if len(escape) > 1:
            number = int(escape[1:], 16)
            return bytes([number]) if escape[:1] == b"x" else chr(number).encode()
        return _NAMED.get(escape, escape)

    return _ESCAPE.sub(byte, text.encode())


def _items(text: str) -> Iterator[str]:
    depth, start, position = 0, 0, 0
    while position < len(text):
        character = text[position]
        if character == "'":
            position = _closing_quote(text, position)
        elif character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
        else:
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(character, 0)
        position += 1
    yield text[start:]


def _closing_quote(text: str, opening: int) -> int:
    r"""Return where the literal ends; ``b'\''`` and ``e'\''`` escape quotes."""
    escapes = _OPENING.search(text, 0, opening) is not None
    position = opening + 1
    while position < len(text) and text[position] != "'":
        position += 2 if escapes and text[position] == "\\" else 1
    return position
