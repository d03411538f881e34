"""Writes values as JSON that a reader in JavaScript can read without loss.

| value | JSON |
|---|---|
| `mz_timestamp`, a DECIMAL | a string: a double has 53 bits |
| an integer beyond ±(2^53 - 1) | a string |
| NaN and the infinities | ``"NaN"``, ``"Infinity"``, ``"-Infinity"``: JSON has no numbers for them |
| bytes | a string, ``\\x`` and hexadecimal digits |
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from tidegate.hlc import Timestamp
from tidegate.subscribe.text.nested_text import nested_text, quoted_text
from tidegate.subscribe.text.number_text import not_finite_name, number_text

#: The greatest integer up to which a double holds all integers exactly: ``Number.MAX_SAFE_INTEGER``.
MOST_EXACT: Final = 2**53 - 1
_PLAIN: Final = frozenset({str, bool, type(None)})
_NESTED: Final = frozenset({list, tuple, dict})
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def rows_text(rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as JSON: an array of arrays. Values may be nested to any depth."""
    if any(type(value) in _NESTED for row in rows for value in row):
        return nested_text(rows, scalar_text)
    return _ENCODER.encode([[json_value(value) for value in row] for row in rows])  # three times as fast


def json_value(value: Any) -> Any:
    """Return a value in a type that ``json`` writes as the table above says.

    The value must not be a list, a tuple or a dict.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if -MOST_EXACT <= value <= MOST_EXACT else str(value)
    if kind is Timestamp:
        return value.decimal()
    if kind is float:
        return value if math.isfinite(value) else not_finite_name(value)
    if kind is bytes:
        return "\\x" + value.hex()
    if kind is Decimal:
        return number_text(value)
    return str(value)


def scalar_text(value: Any) -> str:
    """Return a value as JSON. The value must not be a list, a tuple or a dict."""
    plain = json_value(value)
    kind = type(plain)
    if kind is str:
        return quoted_text(plain)
    if plain is None:
        return "null"
    if kind is bool:
        return "true" if plain else "false"
    return repr(plain)
