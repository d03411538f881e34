"""Byte strings in keys: a marker, the bytes with each zero escaped, a terminator.

Ascending: 0x12, every 00 as 00 ff, then 00 01. So ``61 00`` becomes ``12 61 00 ff 00 01``. Descending: 0x13,
then the complement of all that follows. Source: CockroachDB pkg/util/encoding/encoding.go.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.take import marker_at

ASC: Final = 0x12
DESC: Final = 0x13

_ESCAPE: Final = b"\x00"
_ESCAPED_ZERO: Final = b"\x00\xff"
_TERMINATOR: Final = b"\x00\x01"
COMPLEMENT: Final = bytes(range(255, -1, -1))  # a table for bytes.translate
_DESC_ESCAPE: Final = _ESCAPE.translate(COMPLEMENT)
_DESC_ESCAPED_ZERO: Final = _ESCAPED_ZERO.translate(COMPLEMENT)
_DESC_TERMINATOR: Final = _TERMINATOR.translate(COMPLEMENT)


def encode_bytes_asc(data: bytes) -> bytes:
    """Encode a byte string so that it sorts in the order of its bytes."""
    return b"\x12" + data.replace(_ESCAPE, _ESCAPED_ZERO) + _TERMINATOR


def encode_bytes_desc(data: bytes) -> bytes:
    """Encode a byte string so that it sorts in the reverse order of its bytes."""
    escaped = data.replace(_ESCAPE, _ESCAPED_ZERO) + _TERMINATOR
    return b"\x13" + escaped.translate(COMPLEMENT)


def decode_bytes_asc(buffer: bytes, position: int) -> tuple[bytes, int]:
    """Undo `encode_bytes_asc`. Raises `EncodingError` for a wrong marker, escape, or missing terminator."""
    _expect(ASC, buffer, position)
    start = position + 1
    zero = buffer.find(_ESCAPE, start)
    if buffer[zero : zero + 2] == _TERMINATOR:
        return buffer[start:zero], zero + 2
    return _unescape(buffer, start)


def decode_bytes_desc(buffer: bytes, position: int) -> tuple[bytes, int]:
    """Undo `encode_bytes_desc`. Raises as `decode_bytes_asc`."""
    _expect(DESC, buffer, position)
    data, end = _split_escapes(buffer, position + 1, _DESC_ESCAPE, _DESC_ESCAPED_ZERO, _DESC_TERMINATOR)
    return data.translate(COMPLEMENT), end


def encode_string_asc(text: str) -> bytes:
    """Encode a string so that it sorts in the order of its UTF-8 bytes."""
    return encode_bytes_asc(text.encode())


def encode_string_desc(text: str) -> bytes:
    """Encode a string so that it sorts in the reverse order of its UTF-8 bytes."""
    return encode_bytes_desc(text.encode())


def decode_string_asc(buffer: bytes, position: int) -> tuple[str, int]:
    """Undo `encode_string_asc`. Raises as `decode_bytes_asc`, and also for bytes that are not UTF-8."""
    data, end = decode_bytes_asc(buffer, position)
    return utf8(data, position), end


def decode_string_desc(buffer: bytes, position: int) -> tuple[str, int]:
    """Undo `encode_string_desc`. Raises as `decode_string_asc`."""
    data, end = decode_bytes_desc(buffer, position)
    return utf8(data, position), end


def utf8(data: bytes, position: int) -> str:
    """Return the text of ``data``. Raises `EncodingError`, which names ``position``, when it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise EncodingError(f"the string at offset {position} is not UTF-8: {error.reason}") from None


def _expect(marker: int, buffer: bytes, position: int) -> None:
    found = marker_at(buffer, position)
    if found != marker:
        raise EncodingError(
            f"byte 0x{found:02x} at offset {position} does not begin a byte string (expected 0x{marker:02x})"
        )


def _unescape(buffer: bytes, start: int) -> tuple[bytes, int]:
    """Return the bytes up to the terminator, without escapes, and the position after the terminator."""
    return _split_escapes(buffer, start, _ESCAPE, _ESCAPED_ZERO, _TERMINATOR)


def _split_escapes(
    buffer: bytes, start: int, escape: bytes, escaped_zero: bytes, terminator: bytes
) -> tuple[bytes, int]:
    parts: list[bytes] = []
    while True:
        at = buffer.find(escape, start)
        if at < 0:
            raise EncodingError("a byte string has no terminator")
        parts.append(buffer[start:at])
        found = buffer[at : at + 2]
        if found == terminator:
            return b"".join(parts), at + 2
        if found != escaped_zero:
            raise EncodingError(f"a byte string holds an unknown or cut escape ({found.hex()})")
        parts.append(escape)
        start = at + 2
