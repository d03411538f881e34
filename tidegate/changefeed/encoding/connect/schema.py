"""Kafka Connect's schemas, independent of the format that carries them.

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
    ``name`` says what the value means, with ``version`` and ``parameters``; for a struct it is the struct's
    own name. ``items`` is the schema of an array's items, which may be null. ``fields`` are those of a
    struct.
    """

    type: str
    name: str = ""
    version: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)
    items: Schema | None = None
    fields: tuple[Field, ...] = ()


def struct(name: str, *fields: Field) -> Schema:
    """Return a struct with these fields."""
    return Schema("struct", name, fields=fields)


def semantic(of: str, name: str, **parameters: str) -> Schema:
    """Return the schema of a value whose meaning has a name in Connect's own converters or in Debezium."""
    return Schema(of, name, 1, parameters)
