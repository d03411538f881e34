"""Records as cases list them, ``topic: key->value``: taken apart, and without what a case ignores."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from tests.conformance.avro_text import canonical
from tests.conformance.feed_run import Line

_DECODER: Final = json.JSONDecoder()
_ARROW: Final = "->"


def listed_record(text: str, *, avro: bool) -> Line:
    """A record of a case's list. Avro text is brought into the form of ours: compact, names sorted."""
    topic, separator, rest = text.partition(": ")
    _, end = _DECODER.raw_decode(rest)
    if not separator or not rest.startswith(_ARROW, end):
        raise ValueError(f"not a record of the form topic: key->value: {text}")
    key, value = rest[:end], rest[end + len(_ARROW) :]
    return Line(topic, 0, _canonical(key), _canonical(value)) if avro else Line(topic, 0, key, value)


def without_members(line: Line, ignored: Collection[str]) -> Line:
    """The record without these members of its value, at any level; every other byte stays."""
    if not ignored or not line.value.startswith("{"):
        return line
    return replace(line, value=_strip(line.value, ignored))


def has_member(line: Line, name: str) -> bool:
    """Whether the record's value has such a member."""
    return without_members(line, {name}) != line


def _canonical(text: str) -> str:
    return canonical(json.loads(text)) if text else ""


def _strip(text: str, ignored: Collection[str]) -> str:
    """An object's text without these members; separators stay as they are."""
    kept, position, separator = "", 1, ""
    while text[position] != "}":
        name, colon = _DECODER.raw_decode(text, position)
        start = _value_start(text, colon)
        _, end = _DECODER.raw_decode(text, start)
        if name not in ignored:
            value = text[start:end]
            member = text[position:start] + (_strip(value, ignored) if value.startswith("{") else value)
            kept += (separator if kept else "") + member
        position = end
        while text[position] in ", ":
            position += 1
        separator = text[end:position]
    return f"{{{kept}}}"


def _value_start(text: str, colon: int) -> int:
    position = colon
    while text[position] in ": ":
        position += 1
    return position
