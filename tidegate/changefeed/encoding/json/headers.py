"""Kafka headers from a JSONB column: ``headers_json_column_name``.

Each member of the column's object is a header: the contents of a string, or the text of a number or of a
boolean. A member that is null, an array or an object gives no header. A row whose column is not an object has
no headers, and neither has a deletion. Source: CockroachDB ``pkg/ccl/changefeedccl/event_processing.go``,
``makeRowHeaders``, which logs what it leaves out. There, as here, the feed goes on.

librdkafka takes a header's name as a C string. A name with a NUL would be cut there, so it gives no header. A
name that was not UTF-8 would crash the process, so its invalid bytes are replaced as in JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.columns import named_column
from tidegate.changefeed.encoding.record_encoder import Headers
from tidegate.changefeed.text.json_text import decimal_text, utf8
from tidegate.errors import UnsupportedTable
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Json, JsonValue, Kind

_OPTION = "headers_json_column_name"


def compile_headers(table: TableDescriptor, options: FeedOptions) -> Headers | None:
    """Return a function that makes a row's headers; ``None`` for a feed without headers.

    Raises ``UnsupportedTable`` for a table without the column, or with a column of another type.
    """
    if not options.headers_json_column_name:
        return None
    position, column = named_column(table, options.headers_json_column_name, _OPTION)
    if column.type.kind is not Kind.JSONB:
        raise UnsupportedTable(
            f"table {table.name}, column {column.name}: {_OPTION} needs a column of type JSONB, "
            f"not {column.type.kind.value}"
        )

    def headers(row: Row) -> list[tuple[str, bytes]]:
        datum = None if row.values is None else row.values[position]
        return list(_headers(datum.value)) if isinstance(datum, Json) else []

    return headers


def _headers(value: JsonValue) -> Iterator[tuple[str, bytes]]:
    if not isinstance(value, dict):
        return
    for name in sorted(value):
        text = _text(value[name])
        if text is not None and "\0" not in name:
            yield utf8(name).decode(), utf8(text)


def _text(value: JsonValue) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case Decimal():
            return decimal_text(value)
        case _:
            return None
