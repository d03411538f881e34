"""Writes values as JSON, to any depth: nothing here recurses.

A decoder takes JSON that is nested about a thousand deep. A writer that calls itself for each level could
fail at a smaller depth, which depends on its caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from json.encoder import encode_basestring
from typing import Any

from tidegate.hlc import Timestamp


def is_nested(value: Any) -> bool:
    """Whether the value has members: a list, a tuple or a dict, and no timestamp, which is a tuple too."""
    return isinstance(value, (list, dict)) or (isinstance(value, tuple) and type(value) is not Timestamp)


def quoted_text(text: str) -> str:
    """Return a text as a string of JSON, with letters beyond ASCII as they are."""
    return encode_basestring(text)


def nested_text(value: Any, scalar_text: Callable[[Any], str]) -> str:
    """Return a value that has members as JSON, however deep it is nested.

    ``scalar_text`` writes the values without members.

    Example: ``nested_text({"a": [1, None]}, json.dumps)`` is ``{"a": [1, null]}``.
    """
    texts: list[str] = []
    # The values that are open: the members that each still has, with the text before each, and its end.
    opened = [_members(value)]
    while opened:
        members, end = opened[-1]
        for before, member in members:
            texts.append(before)
            if is_nested(member):
                opened.append(_members(member))
                break
            texts.append(scalar_text(member))
        else:
            texts.append(end)
            opened.pop()
    return "".join(texts)


def _members(value: Any) -> tuple[Iterator[tuple[str, Any]], str]:
    if not value:
        return iter(()), "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, dict):
        return _named(value), "}"
    return _listed(value), "]"


def _listed(values: list[Any] | tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    before = "["
    for value in values:
        yield before, value
        before = ", "


def _named(members: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    before = "{"
    for name, member in members.items():
        yield f"{before}{encode_basestring(str(name))}: ", member
        before = ", "
