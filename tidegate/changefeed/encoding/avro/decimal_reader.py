"""Reads Avro's decimals up to a bound of bytes.

fastavro makes a number of all bytes before it looks at the precision. That takes time that grows as n * n,
and no other thread runs meanwhile. So decimals are read by a logical type of our own, which looks at the
length first.
"""

from __future__ import annotations

from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, Final

from fastavro.read import LOGICAL_READERS

from tidegate.changefeed.text.unscaled import DIGITS_MAX

#: The most bytes of a decimal: as many as the longest number that is written has, its sign included.
BYTES_MAX: Final = (10**DIGITS_MAX).bit_length() // 8 + 1
_DECIMAL: Final = "decimal"
#: The logical type of this module. Schemas of others should not have this name. If one has it nevertheless,
#: the bound holds there too.
_BOUNDED: Final = "tidegate-bounded-decimal"


def with_bounded_decimals(schema: Any) -> Any:
    """Return the schema for ``parse_schema``, with the logical type of this module for its decimals.

    fastavro does not check precision and scale of that type, so the caller has to parse the given schema too.
    """
    match schema:
        case list():
            return [with_bounded_decimals(branch) for branch in schema]
        case {"type": "bytes" | "fixed", "logicalType": logical} if logical == _DECIMAL:
            return schema | {"logicalType": _BOUNDED}
        case dict():
            return {name: with_bounded_decimals(value) for name, value in schema.items()}
    return schema


def _read_decimal(data: bytes, writer_schema: Any, _: Any = None) -> Decimal:
    """Return the decimal that fastavro's own reader returns for these bytes.

    Raises ``ValueError`` for more than ``BYTES_MAX`` bytes.
    """
    if len(data) > BYTES_MAX:
        raise ValueError(
            f"a decimal has {len(data)} bytes; at most {BYTES_MAX} are read ({DIGITS_MAX} digits)"
        )
    precision = writer_schema["precision"]
    if not isinstance(precision, int):
        raise TypeError("a decimal whose precision is no number")
    context = _context(precision)
    unscaled = context.create_decimal(int.from_bytes(data, "big", signed=True))
    return unscaled.scaleb(-writer_schema.get("scale", 0), context)


@lru_cache(maxsize=256)
def _context(precision: int) -> Context:
    return Context(prec=precision)


LOGICAL_READERS.update(dict.fromkeys((f"bytes-{_BOUNDED}", f"fixed-{_BOUNDED}"), _read_decimal))
