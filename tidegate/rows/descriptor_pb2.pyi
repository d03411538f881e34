from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TableDescriptor(_message.Message):
    __slots__ = ("id", "name", "version", "modified_wall", "modified_logical", "columns", "primary_key", "families", "primary_index_id", "database", "schema", "dropped")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_WALL_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_KEY_FIELD_NUMBER: _ClassVar[int]
    FAMILIES_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_INDEX_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    version: int
    modified_wall: int
    modified_logical: int
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    primary_key: _containers.RepeatedCompositeFieldContainer[KeyPart]
    families: _containers.RepeatedCompositeFieldContainer[Family]
    primary_index_id: int
    database: str
    schema: str
    dropped: bool
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., modified_wall: _Optional[int] = ..., modified_logical: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ..., primary_key: _Optional[_Iterable[_Union[KeyPart, _Mapping]]] = ..., families: _Optional[_Iterable[_Union[Family, _Mapping]]] = ..., primary_index_id: _Optional[int] = ..., database: _Optional[str] = ..., schema: _Optional[str] = ..., dropped: _Optional[bool] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("id", "name", "type", "nullable", "hidden", "public", "virtual")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NULLABLE_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    type: SqlType
    nullable: bool
    hidden: bool
    public: bool
    virtual: bool
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., type: _Optional[_Union[SqlType, _Mapping]] = ..., nullable: _Optional[bool] = ..., hidden: _Optional[bool] = ..., public: _Optional[bool] = ..., virtual: _Optional[bool] = ...) -> None: ...

class KeyPart(_message.Message):
    __slots__ = ("column_id", "descending")
    COLUMN_ID_FIELD_NUMBER: _ClassVar[int]
    DESCENDING_FIELD_NUMBER: _ClassVar[int]
    column_id: int
    descending: bool
    def __init__(self, column_id: _Optional[int] = ..., descending: _Optional[bool] = ...) -> None: ...

class Family(_message.Message):
    __slots__ = ("id", "name", "column_ids", "default_column_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COLUMN_IDS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_COLUMN_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    column_ids: _containers.RepeatedScalarFieldContainer[int]
    default_column_id: int
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., column_ids: _Optional[_Iterable[int]] = ..., default_column_id: _Optional[int] = ...) -> None: ...

class SqlType(_message.Message):
    __slots__ = ("kind", "width", "scale", "varying", "locale", "name", "members", "element")
    KIND_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    VARYING_FIELD_NUMBER: _ClassVar[int]
    LOCALE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    width: int
    scale: int
    varying: bool
    locale: str
    name: str
    members: _containers.RepeatedCompositeFieldContainer[EnumMember]
    element: SqlType
    def __init__(self, kind: _Optional[str] = ..., width: _Optional[int] = ..., scale: _Optional[int] = ..., varying: _Optional[bool] = ..., locale: _Optional[str] = ..., name: _Optional[str] = ..., members: _Optional[_Iterable[_Union[EnumMember, _Mapping]]] = ..., element: _Optional[_Union[SqlType, _Mapping]] = ...) -> None: ...

class EnumMember(_message.Message):
    __slots__ = ("physical", "label")
    PHYSICAL_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    physical: bytes
    label: str
    def __init__(self, physical: _Optional[bytes] = ..., label: _Optional[str] = ...) -> None: ...
