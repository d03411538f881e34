"""Kafka Connect's schemas, whatever the format that carries them.

Source: Apache Kafka ``org.apache.kafka.connect.data.ConnectSchema``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Field(NamedTuple):
    """A field of a struct. A field that is not ``optional`` is never null."""

    name: str
    schema: Schema
    optional: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of a value.

    ``type`` is Connect's own: boolean, int16, int32, int64, float32, float64, string, bytes, array, struct.
    ``name`` tells what the value means, with ``version`` and ``parameters``; it is a struct's own name.
    ``items`` is an array's, whose items may be null; ``fields`` are a struct's.
    """

    type: str
    name: str = ""
    version: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)
    items: Schema | None = None
    fields: tuple[Field, ...] = ()


def struct(name: str, *fields: Field) -> Schema:
    """A struct with these fields."""
    return Schema("struct", name, fields=fields)


def semantic(of: str, name: str, **parameters: str) -> Schema:
    """A value with a meaning that Connect's own converters or Debezium have a name for."""
    return Schema(of, name, 1, parameters)
