"""Values as JSON, so that a reader in JavaScript loses nothing of them.

| value | JSON |
|---|---|
| `mz_timestamp`, a DECIMAL | a string: a double has 53 bits |
| an integer beyond ±(2^53 - 1) | a string |
| NaN and the infinities | ``"NaN"``, ``"Infinity"``, ``"-Infinity"``: JSON has no numbers for them |
| bytes | a string, ``\\x`` and hexadecimal digits |
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, Final

from tidegate.hlc import Timestamp
from tidegate.subscribe.outputs.number_text import not_finite_name, number_text

#: The integers that a double holds exactly: ``Number.MAX_SAFE_INTEGER``.
MOST_EXACT: Final = 2**53 - 1
_PLAIN: Final = frozenset({str, bool, type(None)})


def json_value(value: Any) -> Any:
    """Return the value in types that ``json`` writes as the table says."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if -MOST_EXACT <= value <= MOST_EXACT else str(value)
    if kind is Timestamp:
        return value.decimal()
    if kind is float:
        return value if math.isfinite(value) else not_finite_name(value)
    if kind is dict:
        return {name: json_value(member) for name, member in value.items()}
    if kind is list or kind is tuple:
        return [json_value(member) for member in value]
    if kind is bytes:
        return "\\x" + value.hex()
    if kind is Decimal:
        return number_text(value)
    return str(value)
