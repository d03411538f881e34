from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class SpatialObject(_message.Message):
    __slots__ = ("type", "ewkb", "srid", "shape_type")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    EWKB_FIELD_NUMBER: _ClassVar[int]
    SRID_FIELD_NUMBER: _ClassVar[int]
    SHAPE_TYPE_FIELD_NUMBER: _ClassVar[int]
    type: int
    ewkb: bytes
    srid: int
    shape_type: int
    def __init__(self, type: _Optional[int] = ..., ewkb: _Optional[bytes] = ..., srid: _Optional[int] = ..., shape_type: _Optional[int] = ...) -> None: ...
