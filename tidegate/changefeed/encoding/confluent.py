"""Schemas in a Confluent schema registry, and the framing of bytes that were written with one.

A framed key or value is a zero byte, the schema's id in the registry as 4 bytes big-endian, and the body. For
example, the frame of schema 258 is ``00 00 00 01 02``. Source: Confluent's "wire format" of the schema
registry serializers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from tidegate.errors import MalformedRecord

_MAGIC: Final = b"\x00"
_PREFIX_BYTES: Final = 5
#: Ids are signed 32-bit numbers in the registry, and not negative.
MAX_SCHEMA_ID: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SubjectSchema:
    """An Avro schema, as JSON ``text``, and the ``subject`` under which it is registered."""

    subject: str
    text: str


class RecordSchemas(NamedTuple):
    """The schemas of a record's key and value."""

    key: SubjectSchema
    value: SubjectSchema


class NewSubjects(NamedTuple):
    """Subjects under which nobody may have registered a schema before a feed begins.

    An earlier attempt to begin the feed may have registered schemas there. Those are ``own``.
    """

    names: tuple[str, ...] = ()
    own: tuple[SubjectSchema, ...] = ()


def frame_prefix(schema_id: int) -> bytes:
    """Return the bytes before a body of this schema. Raises ``ValueError`` for a number that is no id."""
    if not 0 <= schema_id <= MAX_SCHEMA_ID:
        raise ValueError(f"{schema_id} is not a schema id")
    return _MAGIC + schema_id.to_bytes(4, "big")


def unframe(data: bytes) -> tuple[int, bytes]:
    """Return the schema id and the body. Raises ``MalformedRecord`` for bytes without a frame."""
    if len(data) < _PREFIX_BYTES or data[:1] != _MAGIC:
        raise MalformedRecord(
            f"not framed by a schema registry's serializer (a zero byte and a schema id): {data[:16].hex()}"
        )
    return int.from_bytes(data[1:_PREFIX_BYTES], "big"), data[_PREFIX_BYTES:]
