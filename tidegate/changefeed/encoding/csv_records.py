"""``format='csv'``: a row's columns in table order, separated by commas, without a header or a line's end.

The key is empty, so all rows of a table go to one partition. A field is quoted if it holds a comma, a quote
or a line's end, if it begins with a space, and if it is ``\\.``. NULL is the text ``NULL``, and so is a
string of these letters, as in CockroachDB. Arrays are SQL expressions (``export_arrays``). Bytes of a string
that were not UTF-8 become U+FFFD. Only an initial scan can be written like this, since a deletion has no CSV
form.

Source: CockroachDB ``pkg/ccl/changefeedccl/encoder_csv.go``, ``pkg/util/encoding/csv``, and the datums'
``Format`` with ``FmtExport`` in ``pkg/sql/sem/tree/datum.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.columns import public_columns, shown_columns
from tidegate.changefeed.encoding.csv_line import csv_fields
from tidegate.changefeed.encoding.quoted import quoted_error, quoted_record
from tidegate.changefeed.encoding.record import Headers, RowRecord
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.text import datum_text
from tidegate.changefeed.text.export_arrays import array_text
from tidegate.changefeed.text.json_text import decimal_text, json_value
from tidegate.changefeed.text.search_text import tsquery_text, tsvector_text
from tidegate.changefeed.text.surrogates import LONE_SURROGATE
from tidegate.errors import MalformedRecord, RowError, UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.float_text import general_text
from tidegate.rows.row import Row
from tidegate.rows.sql_type import sql_type_text
from tidegate.rows.types import Json, Kind

_Text: TypeAlias = Callable[[Any], str]

NULL: Final = "NULL"
KEY: Final = b""
_QUOTED: Final = frozenset('",\r\n')
#: The characters that are spaces for Go's ``unicode.IsSpace``.
_SPACES: Final = frozenset(
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
#: A line of this text ends PostgreSQL's COPY.
_TERMINATOR: Final = "\\."
#: Whole numbers below it are printed with a decimal point.
_SMALL_FLOAT: Final = 1_000_000


def compile_csv(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    """Return the encoder for a table version.

    Raises ``UnsupportedTable`` for a column that has no CSV form.
    """
    positions = {column.id: at for at, column in enumerate(public_columns(table))}
    fields = [(positions.get(column.id), _text_of(table, column)) for column in shown_columns(table, options)]

    def encode(row: Row, _: Timestamp) -> tuple[bytes, bytes | None]:
        values = row.values
        if values is None:
            raise RowError(
                f"table {table.name}: cannot encode deleted rows into CSV format; the feed fails. Create it "
                "again with format=json"
            )
        texts = [
            NULL if at is None or (datum := values[at]) is None else csv_field(text(datum))
            for at, text in fields
        ]
        return KEY, _utf8(",".join(texts))

    return RecordEncoder(encode)


def csv_field(text: str) -> str:
    """Return a field's text, in quotes if it needs them."""
    plain = _QUOTED.isdisjoint(text) and text[:1] not in _SPACES and text != _TERMINATOR
    return text if plain or not text else '"{}"'.format(text.replace('"', '""'))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return LONE_SURROGATE.sub("\ufffd", text).encode()


def _text_of(table: TableDescriptor, column: Column) -> _Text:
    element = column.type.element
    try:
        if column.type.kind is Kind.ARRAY and element is not None:
            return array_text(element, _BY_KIND[element.kind])
        return _BY_KIND[column.type.kind]
    except KeyError:
        raise UnsupportedTable(
            f"table {table.name}, column {column.name}: type {sql_type_text(column.type)} not yet supported "
            "with csv; use format=json"
        ) from None


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _decimal_text(value: Decimal) -> str:
    return decimal_text(value) if value.is_finite() else str(value)


def _float_text(value: float) -> str:
    return f"{value:.1f}" if value.is_integer() and abs(value) < _SMALL_FLOAT else general_text(value)


def _bytes_text(value: bytes) -> str:
    return f"\\x{value.hex()}"


def _json_text(value: Json) -> str:
    return json_value(value.value)


def _same(value: str) -> str:
    return value


_BY_KIND: Final[dict[Kind, _Text]] = {
    Kind.BIT: _same,
    Kind.BOOL: _bool_text,
    Kind.BOX2D: datum_text.box2d_text,
    Kind.BYTES: _bytes_text,
    Kind.COLLATED_STRING: _same,
    Kind.DATE: datum_text.date_text,
    Kind.DECIMAL: _decimal_text,
    Kind.ENUM: _same,
    Kind.FLOAT: _float_text,
    Kind.GEOGRAPHY: datum_text.shape_text,
    Kind.GEOMETRY: datum_text.shape_text,
    Kind.INET: datum_text.inet_text,
    Kind.INT: str,
    Kind.INTERVAL: datum_text.interval_text,
    Kind.JSONB: _json_text,
    Kind.OID: str,
    Kind.PG_LSN: datum_text.lsn_text,
    Kind.STRING: _same,
    Kind.TIME: datum_text.time_text,
    Kind.TIMESTAMP: datum_text.sql_timestamp_text,
    Kind.TIMESTAMPTZ: datum_text.sql_timestamptz_text,
    Kind.TIMETZ: datum_text.sql_timetz_text,
    Kind.TSQUERY: tsquery_text,
    Kind.TSVECTOR: tsvector_text,
    Kind.UUID: str,
    Kind.VECTOR: datum_text.vector_text,
}


@dataclass(frozen=True, slots=True)
class CsvDecoder:
    """Reads CSV records. It names columns by their numbers from 1, since a record does not name them."""

    tombstones: bool = False

    def decode(self, key: bytes | None, value: bytes | None, _: Headers = ()) -> RowRecord:
        """Read one record. Raises ``MalformedRecord`` for bytes that no CSV feed can have written."""
        if key != KEY or value is None:
            raise MalformedRecord(
                f"not a CSV record, with an empty key and a value: {quoted_record(key, value)}"
            )
        try:
            fields = csv_fields(value.decode())
        except ValueError as error:
            raise MalformedRecord(
                f"not a CSV record ({quoted_error(error)}): {quoted_record(key, value)}"
            ) from None
        return RowRecord(
            (), {str(number): text for number, text in enumerate(fields, start=1)}, deleted=False
        )
