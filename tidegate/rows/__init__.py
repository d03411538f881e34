"""Table descriptors, and the encodings of keys and values: they turn a key-value pair into a row and back."""

from tidegate.rows.catalog import Catalog
from tidegate.rows.descriptor import Column, Family, KeyPart, TableDescriptor
from tidegate.rows.row import Row, Unreadable
from tidegate.rows.sql_type import parse_sql_type, sql_type_text
from tidegate.rows.stored_descriptor import decode_descriptor, encode_descriptor
from tidegate.rows.table_codec import TableCodec
from tidegate.rows.table_key import table_id_of
from tidegate.rows.types import (
    Box2D,
    Datum,
    EnumMember,
    Interval,
    Json,
    JsonValue,
    Kind,
    SqlType,
    TimeTz,
    TsOperand,
    TsOperation,
    TsOperator,
    TsPosition,
    TsQuery,
    TsTerm,
    TsVector,
)

__all__ = [
    "Box2D",
    "Catalog",
    "Column",
    "Datum",
    "EnumMember",
    "Family",
    "Interval",
    "Json",
    "JsonValue",
    "KeyPart",
    "Kind",
    "Row",
    "SqlType",
    "TableCodec",
    "TableDescriptor",
    "TimeTz",
    "TsOperand",
    "TsOperation",
    "TsOperator",
    "TsPosition",
    "TsQuery",
    "TsTerm",
    "TsVector",
    "Unreadable",
    "decode_descriptor",
    "encode_descriptor",
    "parse_sql_type",
    "sql_type_text",
    "table_id_of",
]
