"""Avro binary as the JSON text that the cases show, read by a schema's text alone.

A reader of its own, and not the library that the bytes were written with: what one of the two misunderstands
the other does not. A union's value is an object with the branch's name, or ``null``; a branch with a logical
type is named after both (``bytes.decimal``); bytes are text of U+0000 to U+00FF. Source: the Avro
specification, and the JSON form of the goavro library, which the cases were printed with.
"""

from __future__ import annotations

import json
import struct
from typing import Any, TypeAlias

_Schema: TypeAlias = Any


def avro_text(schema_text: str, body: bytes) -> str:
    """The JSON text with member names sorted. Raises ``ValueError`` for bytes of another schema."""
    return canonical(avro_value(schema_text, body))


def avro_value(schema_text: str, body: bytes) -> Any:
    """The same as an object."""
    reader = _Reader(body)
    value = reader.read(json.loads(schema_text))
    if reader.position != len(body):
        raise ValueError(f"{len(body) - reader.position} bytes are left over behind the Avro record")
    return value


def canonical(value: Any) -> str:
    """Compact JSON with member names sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class _Reader:
    def __init__(self, body: bytes) -> None:
        self.position = 0
        self._body = body
        self._named: dict[str, Any] = {}

    def read(self, schema: _Schema) -> Any:
        if isinstance(schema, list):
            return self._union(schema)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind == "array":
            return self._array(schema["items"])
        if kind == "record":
            self._named[schema["name"]] = schema
            return {field["name"]: self.read(field["type"]) for field in schema["fields"]}
        if kind in self._named:
            return self.read(self._named[kind])
        return self._primitive(kind)

    def _primitive(self, kind: str) -> Any:
        match kind:
            case "null":
                return None
            case "boolean":
                return bool(self._read_bytes(1)[0])
            case "int" | "long":
                return self._long()
            case "float":
                return struct.unpack("<f", self._read_bytes(4))[0]
            case "double":
                return struct.unpack("<d", self._read_bytes(8))[0]
            case "bytes":
                return self._read_bytes(self._long()).decode("latin-1")
            case "string":
                return self._read_bytes(self._long()).decode()
            case _:
                raise ValueError(f"the cases' reader knows no Avro type {kind!r}")

    def _union(self, branches: list[_Schema]) -> Any:
        index = self._long()
        if not 0 <= index < len(branches):
            raise ValueError(f"branch {index} of a union of {len(branches)}")
        branch = branches[index]
        value = self.read(branch)
        return None if branch == "null" else {_branch_name(branch): value}

    def _array(self, items: _Schema) -> list[Any]:
        found: list[Any] = []
        while size := self._long():
            if size < 0:  # then the block's length in bytes follows
                self._long()
            found += [self.read(items) for _ in range(abs(size))]
        return found

    def _long(self) -> int:
        shift, number = 0, 0
        while True:
            byte = self._read_bytes(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)

    def _read_bytes(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self._body):
            raise ValueError(f"the Avro record ends before byte {end}")
        taken = self._body[self.position : end]
        self.position = end
        return taken


def _branch_name(schema: _Schema) -> str:
    if not isinstance(schema, dict):
        return str(schema)
    if schema["type"] in ("record", "enum", "fixed"):
        return ".".join(filter(None, (schema.get("namespace"), schema["name"])))
    return ".".join(filter(None, (schema["type"], schema.get("logicalType"))))
