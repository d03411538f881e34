"""JSON files with a check sum: a file whose content is not what was written is refused.

The member ``check`` is a hash of all other members, in the one form in which they are stored. Files of
version 1 have none, and are accepted without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final, TypeVar

from tidegate.errors import StateError, brief

_VERSION: Final = 2
_UNCHECKED: Final = 1
_CHECK_BYTES: Final = 16

_T = TypeVar("_T")


def dump(body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file. ``body`` has no members named ``version`` and ``check``."""
    versioned = {"version": _VERSION, **body}
    return _canonical({**versioned, "check": _check(versioned)})


def load(stored: bytes, where: str, read: Callable[[dict[str, Any]], _T], advice: str) -> _T:
    """Return what ``read`` makes of the file's members.

    ``where`` names the file in errors; ``advice`` says what to do. Raises ``StateError`` for a file of a
    newer version, and for a file that is damaged or cannot be read.
    """
    try:
        body = json.loads(stored.decode())
        _require_whole(body, body.pop("check", None), where)
        return read(body)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise StateError(f"{where} is torn or damaged ({brief(repr(error))}). {advice}") from None


def _require_whole(body: Mapping[str, Any], check: object, where: str) -> None:
    if check is not None and check != _check(body):
        raise ValueError("its check sum does not fit")
    version = int(body["version"])
    if version > _VERSION:
        raise StateError(f"{where} was written by a newer version of tidegate: go on with that one.")
    if version < _UNCHECKED or (version > _UNCHECKED and check is None):
        raise ValueError("it lacks its check sum")


def _check(body: Mapping[str, Any]) -> str:
    return blake2b(_canonical(body), digest_size=_CHECK_BYTES).hexdigest()


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True).encode()
