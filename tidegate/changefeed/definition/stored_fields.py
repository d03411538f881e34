"""Reads members of JSON that is stored or that a worker sends, and checks each one's type and bounds.

Each reader raises ``ValueError`` or ``LookupError`` that names the member and quotes nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from tidegate.hlc import Timestamp, parse_decimal

MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)
MAX_UINT64: Final = 2**64 - 1
MAX_INT32: Final = 2**31 - 1
#: The highest epoch: rows of state store it in 32 bits.
MAX_EPOCH: Final = 2**32 - 1
_FEED_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")

_T = TypeVar("_T")


def text(stored: Mapping[str, Any], name: str) -> str:
    """Return the member if it is a text that has a UTF-8 form: it holds no half of a surrogate pair."""
    return plain_text(stored[name], name)


def plain_text(value: object, name: str) -> str:
    """Return ``value`` if it is a text that has a UTF-8 form."""
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")  # noqa: TRY004 - one error for all wrong values
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} holds half of a surrogate pair") from None
    return value


def whole(stored: Mapping[str, Any], name: str, low: int = 0, high: int = MAX_INT64) -> int:
    """Return the member if it is a whole number from ``low`` to ``high``, both included."""
    return plain_whole(stored[name], name, low, high)


def plain_whole(value: object, name: str, low: int = 0, high: int = MAX_INT64) -> int:
    """Return ``value`` if it is a whole number from ``low`` to ``high``, both included."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} is no whole number from {low} to {high}")
    return value


def signed(stored: Mapping[str, Any], name: str) -> int:
    """Return the member if it is a whole number of 64 bits, which may be below zero."""
    return whole(stored, name, MIN_INT64)


def timestamp(stored: Mapping[str, Any], name: str) -> Timestamp:
    """Return the timestamp of which the member is the text form: ``1.0000000002``."""
    return parse_decimal(text(stored, name))


def hexadecimal(stored: Mapping[str, Any], name: str) -> bytes:
    """Return the bytes of which the member is the hexadecimal form."""
    return bytes.fromhex(text(stored, name))


def optional(read: Callable[[Mapping[str, Any], str], _T], stored: Mapping[str, Any], name: str) -> _T | None:
    """Return what ``read`` returns for the member; ``None`` if the member is null."""
    return None if stored[name] is None else read(stored, name)


def flag(stored: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    """Return the member if it is true or false; ``default`` if the member is missing."""
    value = stored.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(f"{name} is neither true nor false")  # noqa: TRY004 - as above
    return value


def items(stored: Mapping[str, Any], name: str) -> list[Any]:
    """Return the member if it is a list."""
    return plain_items(stored[name], name)


def plain_items(value: object, name: str) -> list[Any]:
    """Return ``value`` if it is a list."""
    if not isinstance(value, list):
        raise ValueError(f"{name} is no list")  # noqa: TRY004 - as above
    return value


def members(stored: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the member if it is an object."""
    return plain_members(stored[name], name)


def plain_members(value: object, name: str) -> dict[str, Any]:
    """Return ``value`` if it is an object."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no object")  # noqa: TRY004 - as above
    return value


def id_of_feed(stored: Mapping[str, Any], name: str) -> str:
    """Return the member if it is the id of a feed: 1 to 64 letters, digits, ``_`` and ``-``."""
    value = text(stored, name)
    if _FEED_ID.fullmatch(value) is None:
        raise ValueError(f"{name} is no feed id")
    return value


def number_of(name: str) -> int:
    """Return the number of the log partition that is the name of a member: 12 for ``"12"``."""
    if _NUMBER.fullmatch(name) is None or int(name) > MAX_INT32:
        raise ValueError("a log partition has no number")
    return int(name)
