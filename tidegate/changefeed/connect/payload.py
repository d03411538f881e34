"""JSON payloads read back by the schema that stands beside them, as Connect's own converter reads them.

Bytes are in base64 there, and so are the digits of decimals; most else is as JSON has it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tidegate.changefeed.connect.types import DECIMAL_NAME, SCALE


def read_payload(framed: Mapping[str, Any]) -> Any:
    """The payload of ``{"payload": ..., "schema": ...}``; ``bytes``, ``Decimal`` and ``float`` where the
    schema says so.

    Raises ``KeyError``, ``TypeError`` or ``ValueError`` for what does not fit the schema.
    """
    return _value(framed["payload"], framed["schema"])


def _value(value: Any, schema: Mapping[str, Any]) -> Any:
    if value is None:
        if not schema["optional"]:
            raise ValueError(f"null in place of {schema.get('field', 'a payload')}")
        return None
    match schema["type"]:
        case "struct":
            return {field["field"]: _value(value[field["field"]], field) for field in schema["fields"]}
        case "array":
            return [_value(item, schema["items"]) for item in value]
        case "float" | "double":
            return _number(value)
        case "bytes":
            return _bytes(base64.b64decode(value, validate=True), schema)
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | Decimal):
        raise TypeError(f"expected a number, not {value!r}")
    return float(value)


def _bytes(data: bytes, schema: Mapping[str, Any]) -> bytes | Decimal:
    if schema.get("name") != DECIMAL_NAME:
        return data
    unscaled = int.from_bytes(data, "big", signed=True)
    return Decimal(f"{unscaled}E-{int(schema['parameters'][SCALE])}")
