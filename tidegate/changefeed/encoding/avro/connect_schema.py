"""Kafka Connect's schemas in Avro, in the form in which Connect's own Avro converter writes them.

What Avro has no word for stands beside the type: ``connect.name``, ``connect.version``,
``connect.parameters`` and, for a 16-bit integer, ``connect.type``. Only a decimal has a ``logicalType``: for
the other types the converter would derive a name from the ``logicalType``. That name differs from Debezium's,
and the converter refuses two names. Source: ``AvroData`` of Confluent's and Apicurio's converters.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

from tidegate.changefeed.definition.names import avro_name
from tidegate.changefeed.encoding.avro.schema_text import require_distinct
from tidegate.changefeed.encoding.connect.schema import Field, Schema
from tidegate.changefeed.encoding.connect.types import DECIMAL_NAME, PRECISION, SCALE

_AvroType: TypeAlias = Any

_PRIMITIVES: Final = {
    "boolean": "boolean",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "string": "string",
    "bytes": "bytes",
}


def schema_text(schema: Schema) -> str:
    """Return a struct's Avro schema as the registry gets it.

    Raises ``UnsupportedTable`` if two columns have the same Avro name.
    """
    return json.dumps(_record(schema, set()), separators=(",", ":"))


def branch_of(schema: Schema) -> str:
    """Return the name by which fastavro distinguishes this type from the other branches of a union."""
    return schema.name if schema.type == "struct" else _PRIMITIVES.get(schema.type, schema.type)


def _record(schema: Schema, defined: set[str]) -> _AvroType:
    if schema.name in defined:
        return schema.name
    defined.add(schema.name)
    namespace, _, name = schema.name.rpartition(".")
    require_distinct(field.name for field in schema.fields)
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [_field(field, defined) for field in schema.fields],
        "connect.name": schema.name,
    }


def _field(field: Field, defined: set[str]) -> dict[str, _AvroType]:
    avro_type = _type(field.schema, defined)
    name = avro_name(field.name)
    if field.optional:
        return {"name": name, "type": ["null", avro_type], "default": None}
    return {"name": name, "type": avro_type}


def _type(schema: Schema, defined: set[str]) -> _AvroType:
    if schema.type == "struct":
        return _record(schema, defined)
    if schema.type == "array":
        assert schema.items is not None
        return {"type": "array", "items": ["null", _type(schema.items, defined)]}
    described = _described(schema)
    return {"type": _PRIMITIVES[schema.type], **described} if described else _PRIMITIVES[schema.type]


def _described(schema: Schema) -> dict[str, Any]:
    """Return the members that stand beside a primitive type."""
    described: dict[str, Any] = {}
    if schema.type == "int16":
        described["connect.type"] = "int16"
    if schema.version:
        described["connect.version"] = schema.version
    if schema.parameters:
        described["connect.parameters"] = dict(schema.parameters)
    if schema.name:
        described["connect.name"] = schema.name
    if schema.name == DECIMAL_NAME:
        described["logicalType"] = "decimal"
        described["precision"] = int(schema.parameters[PRECISION])
        described["scale"] = int(schema.parameters[SCALE])
    return described
