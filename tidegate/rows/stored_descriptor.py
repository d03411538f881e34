"""Reads and writes the stored form of a table descriptor: a version byte, then protobuf (descriptor.proto).

The same bytes stand in the log's DescriptorUpdate and in worker state.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from tidegate.errors import EncodingError
from tidegate.hlc import Timestamp
from tidegate.rows import descriptor_pb2 as pb
from tidegate.rows.descriptor import Column, Family, KeyPart, TableDescriptor
from tidegate.rows.types import EnumMember, Kind, SqlType

FORMAT_VERSION: Final = 1
#: The page that specifies these bytes for those who write a log.
_SPECIFIED: Final = "docs/log-contract.md#table-descriptors"
#: The first byte of a message without the format byte: the tag of its field 1, a varint.
_BARE_MESSAGE: Final = 0x08
_SHOWN: Final = 40  # characters of a name, so that an error does not grow with what a source writes
#: The most columns of a descriptor. Each column takes some 200 bytes once it is decoded, and 14 before.
COLUMNS_MAX: Final = 10_000
#: The most columns, parts of the primary key, families, their column ids, elements and enum members together.
PARTS_MAX: Final = 50_000
_KINDS: Final = ", ".join(kind.value for kind in Kind)


def encode_descriptor(descriptor: TableDescriptor) -> bytes:
    """Return the stored form; equal descriptors give equal bytes."""
    message = pb.TableDescriptor(
        id=descriptor.id,
        name=descriptor.name,
        version=descriptor.version,
        modified_wall=descriptor.modified.wall,
        modified_logical=descriptor.modified.logical,
        columns=map(_column_to_message, descriptor.columns),
        primary_key=[
            pb.KeyPart(column_id=p.column_id, descending=p.descending) for p in descriptor.primary_key
        ],
        families=map(_family_to_message, descriptor.families),
        primary_index_id=descriptor.primary_index_id,
        database=descriptor.database,
        schema=descriptor.schema,
        dropped=descriptor.dropped,
    )
    return bytes((FORMAT_VERSION,)) + message.SerializeToString(deterministic=True)


class DescriptorHead(NamedTuple):
    """The part of a table version that can be read without its columns. ``stored`` has the whole version."""

    id: int
    version: int
    modified: Timestamp
    primary_index_id: int
    database: str
    schema: str
    name: str
    dropped: bool
    stored: bytes


def decode_descriptor(stored: bytes, *, is_bounded: bool = True) -> TableDescriptor:
    """Undo `encode_descriptor`. Raises `EncodingError`, which names the byte or the field at fault.

    The error's sentence is for the writer of the bytes: the source of a log. If ``is_bounded`` is false, the
    descriptor comes from state that an earlier version has written. Then it may have any number of columns,
    and several columns of one name. `TableCodec` refuses a descriptor with several columns of one name.
    """
    message = _message(stored)
    if is_bounded:
        _require_bounded(message)
    descriptor = _from_message(message)
    if is_bounded:
        _require_names(descriptor)
    return descriptor


def decode_head(stored: bytes) -> DescriptorHead:
    """Return the head of a stored descriptor. Raises `EncodingError` as `decode_descriptor` does.

    The columns are not checked.
    """
    message = _message(stored)
    modified = Timestamp(message.modified_wall, message.modified_logical)
    names = message.database, message.schema, message.name
    index = message.primary_index_id or 1
    return DescriptorHead(message.id, message.version, modified, index, *names, message.dropped, stored)


def head_of(descriptor: TableDescriptor) -> DescriptorHead:
    """Return the head of a descriptor, with its stored form."""
    return DescriptorHead(
        descriptor.id,
        descriptor.version,
        descriptor.modified,
        descriptor.primary_index_id,
        descriptor.database,
        descriptor.schema,
        descriptor.name,
        descriptor.dropped,
        encode_descriptor(descriptor),
    )


def _message(stored: bytes) -> pb.TableDescriptor:
    if not stored:
        raise EncodingError(
            f"the descriptor has no bytes: it needs the format byte {FORMAT_VERSION} and a message "
            f"({_SPECIFIED})"
        )
    if stored[0] != FORMAT_VERSION:
        hint = "; the format byte in front of the message seems to be missing"
        raise EncodingError(
            f"byte 0 of the descriptor is {stored[0]:#04x}, where the format byte {FORMAT_VERSION:#04x} is "
            f"expected{hint if stored[0] == _BARE_MESSAGE else ''} ({_SPECIFIED})"
        )
    message = pb.TableDescriptor()
    try:
        message.ParseFromString(stored[1:])
    except DecodeError as error:
        raise EncodingError(
            f"the {len(stored) - 1} bytes after the descriptor's format byte are no message "
            f"tidegate.rows.TableDescriptor: {error} ({_SPECIFIED})"
        ) from None
    return message


def _require_bounded(message: pb.TableDescriptor) -> None:
    """Refuse a descriptor for which a partition has not enough memory, before objects are made of it."""
    columns = len(message.columns)
    if columns > COLUMNS_MAX:
        raise EncodingError(
            f"the descriptor has {columns} columns, and may have {COLUMNS_MAX} ({_SPECIFIED})"
        )
    parts = columns + len(message.primary_key)
    parts += sum(1 + len(family.column_ids) for family in message.families)
    parts += sum(_type_parts(column.type) for column in message.columns)
    if parts > PARTS_MAX:
        raise EncodingError(
            f"the descriptor has {parts} columns, key parts, families with their column ids, and members of "
            f"enums, and may have {PARTS_MAX} together ({_SPECIFIED})"
        )


def _type_parts(message: pb.SqlType) -> int:
    parts = len(message.members)
    while message.HasField("element"):
        message = message.element
        parts += 1 + len(message.members)
    return parts


def _from_message(message: pb.TableDescriptor) -> TableDescriptor:
    _require_distinct("columns", [column.id for column in message.columns])
    _require_distinct("primary_key", [part.column_id for part in message.primary_key])
    return TableDescriptor(
        id=message.id,
        name=message.name,
        version=message.version,
        modified=Timestamp(message.modified_wall, message.modified_logical),
        columns=tuple(map(_column_from_message, message.columns)),
        primary_key=tuple(KeyPart(part.column_id, part.descending) for part in message.primary_key),
        families=tuple(map(_family_from_message, message.families)),
        # No index has the id 0: that is the value of an absent field.
        primary_index_id=message.primary_index_id or 1,
        database=message.database,
        schema=message.schema,
        dropped=message.dropped,
    )


def _require_distinct(field: str, column_ids: list[int]) -> None:
    """Refuse two columns with one id. A row is read by column ids, so a datum of that id would belong to both
    columns.
    """
    twice = next((each for each, count in Counter(column_ids).items() if count > 1), None)
    if twice is not None:
        raise EncodingError(f"{field} of the descriptor has column id {twice} twice ({_SPECIFIED})")


def _require_names(descriptor: TableDescriptor) -> None:
    """Refuse two columns with one name, since records name columns."""
    twice = descriptor.repeated_name
    if twice is not None:
        raise EncodingError(
            f"the descriptor has several columns named {twice[:_SHOWN]!r} that are public or in the primary "
            f"key, and records name columns ({_SPECIFIED})"
        )


def _column_to_message(column: Column) -> pb.Column:
    return pb.Column(
        id=column.id,
        name=column.name,
        type=_type_to_message(column.type),
        nullable=column.nullable,
        hidden=column.hidden,
        public=column.public,
        virtual=column.virtual,
    )


def _column_from_message(message: pb.Column) -> Column:
    try:
        type_ = _type_from_message(message.type)
    except ValueError:
        raise EncodingError(
            f"the type of column {message.id} ({message.name[:_SHOWN]!r}) has an unknown kind: "
            f"{message.type.kind[:_SHOWN]!r}, or its element's, is none of {_KINDS} ({_SPECIFIED})"
        ) from None
    return Column(
        id=message.id,
        name=message.name,
        type=type_,
        nullable=message.nullable,
        hidden=message.hidden,
        public=message.public,
        virtual=message.virtual,
    )


def _family_to_message(family: Family) -> pb.Family:
    return pb.Family(
        id=family.id,
        name=family.name,
        column_ids=family.column_ids,
        default_column_id=family.default_column_id,
    )


def _family_from_message(message: pb.Family) -> Family:
    return Family(message.id, message.name, tuple(message.column_ids), message.default_column_id)


def _type_to_message(sql_type: SqlType) -> pb.SqlType:
    return pb.SqlType(
        kind=sql_type.kind.value,
        width=sql_type.width,
        scale=sql_type.scale,
        varying=sql_type.varying,
        locale=sql_type.locale,
        name=sql_type.name,
        members=[pb.EnumMember(physical=m.physical, label=m.label) for m in sql_type.members],
        element=_type_to_message(sql_type.element) if sql_type.element is not None else None,
    )


def _type_from_message(message: pb.SqlType) -> SqlType:
    """Return the type that a message has. Raises ``ValueError`` for an unknown kind."""
    return SqlType(
        kind=Kind(message.kind),
        width=message.width,
        scale=message.scale,
        varying=message.varying,
        locale=message.locale,
        name=message.name,
        members=tuple(EnumMember(m.physical, m.label) for m in message.members),
        element=_type_from_message(message.element) if message.HasField("element") else None,
    )
