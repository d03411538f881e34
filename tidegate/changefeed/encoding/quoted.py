"""Shows records of output topics that cannot be read, in short sentences: there may be a million of them."""

from __future__ import annotations

from typing import Final

from tidegate.errors import brief

_KEY_BYTES: Final = 60
_VALUE_BYTES: Final = 120
_ERROR_CHARACTERS: Final = 300
_SCHEMA_CHARACTERS: Final = 600


def quoted_record(key: bytes | None, value: bytes | None) -> str:
    """Return ``key b'..', value b'..'``, each up to a bound. The caller adds where the record stands."""
    return f"key {_quoted(key, _KEY_BYTES)}, value {_quoted(value, _VALUE_BYTES)}"


def quoted_schema(text: str) -> str:
    """Return the beginning of a schema's text."""
    return (
        text
        if len(text) <= _SCHEMA_CHARACTERS
        else f"{text[:_SCHEMA_CHARACTERS]}... ({len(text)} characters)"
    )


def quoted_error(error: Exception) -> str:
    """Return what Python shows of an error, up to a bound: some errors quote all of their input."""
    return brief(repr(error), _ERROR_CHARACTERS)


def _quoted(data: bytes | None, most: int) -> str:
    if data is None or len(data) <= most:
        return repr(data)
    return f"{data[:most]!r}... ({len(data)} bytes)"
