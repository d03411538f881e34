"""Reads JSON payloads back by the schema that stands beside them, as Connect's own converter does.

In a payload, bytes are base64, and so are the digits of decimals. Most other values are as JSON has them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeVar

from tidegate.changefeed.encoding.connect.types import DECIMAL_NAME, SCALE

_SCALE: Final = re.compile(r"[0-9]{1,10}")

_T = TypeVar("_T")


def read_payload(framed: Mapping[str, Any]) -> Any:
    """Return the payload of ``{"payload": ..., "schema": ...}``.

    The schema says which values are ``bytes``, ``Decimal`` or ``float``. Raises ``KeyError``, ``TypeError``
    or ``ValueError`` for a payload that does not fit the schema.
    """
    return _value(framed["payload"], framed["schema"])


def _value(value: Any, schema: Mapping[str, Any]) -> Any:
    if value is None:
        if not schema["optional"]:
            raise ValueError(f"null in place of {schema.get('field', 'a payload')}")
        return None
    match schema["type"]:
        case "struct":
            return _struct(value, {field["field"]: field for field in schema["fields"]})
        case "array":
            return [_value(item, schema["items"]) for item in _of(list, value)]
        case "boolean":
            return _of(bool, value)
        case "int16" | "int32" | "int64" as kind:
            return _integer(value, int(kind.removeprefix("int")))
        case "string":
            return _of(str, value)
        case "float" | "double":
            return _number(value)
        case "bytes":
            return _bytes(base64.b64decode(_of(str, value), validate=True), schema)
        case unknown:
            raise ValueError(f"a schema of type {unknown!r}")


def _struct(value: Any, fields: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    members = _of(dict, value)
    if members.keys() != fields.keys():
        raise ValueError(f"the members {', '.join(members)} for the fields {', '.join(fields)}")
    return {name: _value(members[name], field) for name, field in fields.items()}


def _of(kind: type[_T], value: Any) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, not {value!r}")
    return value


def _integer(value: Any, bits: int) -> int:
    if type(value) is not int or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"expected an integer of {bits} bits, not {value!r}")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        raise TypeError(f"expected a number, not {value!r}")
    return float(value)


def _bytes(data: bytes, schema: Mapping[str, Any]) -> bytes | Decimal:
    if schema.get("name") != DECIMAL_NAME:
        return data
    unscaled = int.from_bytes(data, "big", signed=True)
    return Decimal(f"{unscaled}E-{_scale(schema['parameters'][SCALE])}")


def _scale(stored: Any) -> int:
    """Return the scale from a parameter, which is a text.

    A number is refused: it may have any exponent, and ``1e999999999`` would become as many digits.
    """
    if not isinstance(stored, str) or _SCALE.fullmatch(stored) is None:
        raise ValueError(f"{stored!r:.40} is no scale")
    return int(stored)
