"""Avro schemas as JSON text, byte for byte as CockroachDB writes them.

Members stand in the order of CockroachDB's structures, without spaces. The five characters that Go's encoder
escapes so that JSON can stand inside HTML are escaped: ``<``, ``>``, ``&``, U+2028 and U+2029. Other
characters beyond ASCII stay as they are.

Source: CockroachDB ``pkg/ccl/changefeedccl/avro/avro.go``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.names import avro_name, avro_namespace_fault
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.definition.table_topics import table_label
from tidegate.changefeed.encoding.avro.column_definition import column_definition
from tidegate.errors import UnsupportedTable
from tidegate.rows.descriptor import Column

#: A schema as JSON values: a name, a union (list), or an object.
AvroType: TypeAlias = Any
AvroField: TypeAlias = dict[str, Any]

_HTML_ESCAPES: Final = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})


def schema_text(schema: AvroType) -> str:
    """Return the text of a schema."""
    # The characters that are escaped can only stand in strings.
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":")).translate(_HTML_ESCAPES)


def record_schema(name: str, fields: Iterable[AvroField], namespace: str) -> AvroType:
    """Return a record's schema; ``name`` is an Avro name, ``namespace`` is empty for none."""
    record = {"type": "record", "name": name, "fields": list(fields)}
    return {**record, "namespace": namespace} if namespace else record


def nullable_field(name: str, branches: Iterable[AvroType]) -> AvroField:
    """Return a field that may be null, which is its default."""
    return {"type": ["null", *branches], "name": name, "default": None}


def column_field(column: Column, branches: Iterable[AvroType]) -> AvroField:
    """Return a column's field.

    It may be null even if the column may not. So a reader with an older or a newer schema can read it.
    """
    return {**nullable_field(avro_name(column.name), branches), "__crdb__": column_definition(column)}


def require_distinct(names: Iterable[str]) -> None:
    """Raise ``UnsupportedTable``, without the table's name, if two columns have one field name."""
    counts = Counter(map(avro_name, names))
    repeated = next((name for name, count in counts.items() if count > 1), None)
    if repeated is not None:
        raise UnsupportedTable(f"two columns have the Avro name {repeated}: rename one of them")


def full_name(name: str, namespace: str) -> str:
    """Return a record's name with its namespace."""
    return f"{namespace}.{name}" if namespace else name


def label_name(table: TableName, options: FeedOptions) -> str:
    """Return the name from which the names of a subject's records are made.

    It begins with the prefix, which is also the namespace. Records of rows have the table's name alone.
    """
    return avro_name(options.avro_schema_prefix + table_label(table, options))


def envelope_name(table: TableName, options: FeedOptions) -> str:
    """Return the name that records of values and of markers share: a subject holds schemas of one name."""
    return label_name(table, options) + "_envelope"


def namespace_of(table: TableName, options: FeedOptions) -> str:
    """Return the namespace of all records of a feed.

    Raises ``UnsupportedTable`` for a prefix that cannot be one.
    """
    namespace = options.avro_schema_prefix
    fault = avro_namespace_fault(namespace)
    if fault:
        raise UnsupportedTable(f"table {table.name}: {fault}")
    return namespace
