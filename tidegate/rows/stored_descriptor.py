"""The stored form of a table descriptor: a version byte, then protobuf (descriptor.proto).

The same bytes stand in the log's DescriptorUpdate and in worker state.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError

from tidegate.errors import EncodingError
from tidegate.hlc import Timestamp
from tidegate.rows import descriptor_pb2 as pb
from tidegate.rows.descriptor import Column, Family, KeyPart, TableDescriptor
from tidegate.rows.types import EnumMember, Kind, SqlType

FORMAT_VERSION: Final = 1


def encode_descriptor(descriptor: TableDescriptor) -> bytes:
    """The stored form; equal descriptors give equal bytes."""
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


def decode_descriptor(stored: bytes) -> TableDescriptor:
    """Inverse of `encode_descriptor`; `EncodingError` for a newer format version or damaged bytes."""
    if not stored:
        raise EncodingError("a stored table descriptor is empty")
    if stored[0] != FORMAT_VERSION:
        raise EncodingError(
            f"a stored table descriptor has format {stored[0]}, this version reads {FORMAT_VERSION}: "
            "use the version of tidegate that wrote it, or a newer one"
        )
    message = pb.TableDescriptor()
    try:
        message.ParseFromString(stored[1:])
    except DecodeError as error:
        raise EncodingError(f"a stored table descriptor is damaged: {error}") from None
    return _from_message(message)


def _from_message(message: pb.TableDescriptor) -> TableDescriptor:
    return TableDescriptor(
        id=message.id,
        name=message.name,
        version=message.version,
        modified=Timestamp(message.modified_wall, message.modified_logical),
        columns=tuple(map(_column_from_message, message.columns)),
        primary_key=tuple(KeyPart(part.column_id, part.descending) for part in message.primary_key),
        families=tuple(map(_family_from_message, message.families)),
        primary_index_id=message.primary_index_id,
        database=message.database,
        schema=message.schema,
        dropped=message.dropped,
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
    return Column(
        id=message.id,
        name=message.name,
        type=_type_from_message(message.type),
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
    try:
        kind = Kind(message.kind)
    except ValueError:
        raise EncodingError(f"a stored table descriptor has the unknown type {message.kind!r}") from None
    return SqlType(
        kind=kind,
        width=message.width,
        scale=message.scale,
        varying=message.varying,
        locale=message.locale,
        name=message.name,
        members=tuple(EnumMember(m.physical, m.label) for m in message.members),
        element=_type_from_message(message.element) if message.HasField("element") else None,
    )
