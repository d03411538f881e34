r"""JSON text as CockroachDB prints it, byte for byte.

Members are separated by ``", "``, names from values by ``": "``, names are sorted bytewise, and only
``"``, ``\`` and control characters are escaped. Numbers go through an arbitrary-precision decimal, so
FLOAT 100 prints as ``1E+2``. Sources: CockroachDB ``pkg/util/json/json.go``, ``pkg/sql/sem/tree`` AsJSON,
and apd's ``format.go`` for numbers.

Text that was not UTF-8 reaches this module as lone surrogates (Python's ``surrogateescape``): every
invalid byte becomes the six characters ``\ufffd`` when the text is turned into bytes by ``utf8``.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from decimal import Context, Decimal
from functools import cache
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias

from tidegate.changefeed.text import datum_text
from tidegate.changefeed.text.geojson_text import geojson_text
from tidegate.changefeed.text.row_bytes import array_texts
from tidegate.changefeed.text.search_text import tsquery_text, tsvector_text
from tidegate.errors import RowError, UnsupportedTable
from tidegate.rows.types import Json, JsonValue, Kind, SqlType

#: Prints a datum that is not NULL. The argument's type follows from the SQL type.
TextEncoder: TypeAlias = Callable[[Any], str]

_SHORT_ESCAPES: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPES: Final = str.maketrans({chr(code): f"\\u{code:04x}" for code in range(0x20)} | _SHORT_ESCAPES)
_INVALID_UTF8: Final = "tidegate.invalid-utf8"
_FLOAT_DIGITS: Final = Context(prec=20)
_LOWEST_PLAIN_ZERO: Final = -2000


def _replace_invalid(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "\\ufffd" * (error.end - error.start), error.end


codecs.register_error(_INVALID_UTF8, _replace_invalid)


def utf8(text: str) -> bytes:
    """Return the bytes of JSON text. A byte that was not UTF-8 becomes the JSON escape of U+FFFD."""
    return text.encode("utf-8", _INVALID_UTF8)


def json_string(text: str) -> str:
    """Return a JSON string literal."""
    quoted = encode_basestring(text)
    # The C function writes \b and \f where CockroachDB writes \u0008 and \u000c.
    if "\\" in quoted and ("\b" in text or "\f" in text):
        return f'"{text.translate(_ESCAPES)}"'
    return quoted


def decimal_text(value: Decimal) -> str:
    """Return a number, in scientific form only when needed. NaN and the infinities become strings.

    Zeros are plain down to 2,000 places (``0.0000000``, not ``0E-7``), as PostgreSQL prints them.
    """
    if not value.is_finite():
        return f'"{value}"'
    text = str(value)
    if "E-" in text and not value:
        return _small_zero_text(value, text)
    return text


def _small_zero_text(value: Decimal, text: str) -> str:
    exponent = value.as_tuple().exponent
    return f"{value:f}" if isinstance(exponent, int) and exponent >= _LOWEST_PLAIN_ZERO else text


def float_text(value: float) -> str:
    """Return a FLOAT: its shortest digits, printed as a decimal without trailing zeros."""
    text = repr(value)
    if "e" in text or text.endswith((".0", "n", "f")):
        return decimal_text(_FLOAT_DIGITS.normalize(Decimal(text)))
    return text


def json_value(value: JsonValue) -> str:
    """Return a JSONB value. Raises ``RowError`` when it is nested deeper than this process can follow."""
    try:
        return _nested(value)
    except RecursionError:
        raise RowError("a JSONB value is nested too deeply to be printed; the feed fails") from None


def _nested(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return json_string(value)
        case Decimal():
            return decimal_text(value)
        case list():
            return f"[{', '.join([_nested(item) for item in value])}]"
        case dict():
            members = [f"{json_string(name)}: {_nested(value[name])}" for name in sorted(value)]
            return f"{{{', '.join(members)}}}"


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _json_datum_text(datum: Json) -> str:
    return json_value(datum.value)


def _quoted(text: Callable[[Any], str]) -> TextEncoder:
    """Return a printer for text forms in which nothing has to be escaped."""
    return lambda datum: f'"{text(datum)}"'


_BY_KIND: Final[dict[Kind, TextEncoder]] = {
    Kind.BOOL: _bool_text,
    Kind.INT: str,
    Kind.FLOAT: float_text,
    Kind.DECIMAL: decimal_text,
    Kind.STRING: json_string,
    Kind.COLLATED_STRING: json_string,
    Kind.ENUM: json_string,
    Kind.BYTES: lambda datum: f'"\\\\x{datum.hex()}"',
    Kind.UUID: _quoted(str),
    Kind.INET: _quoted(datum_text.inet_text),
    Kind.DATE: _quoted(datum_text.date_text),
    Kind.TIME: _quoted(datum_text.time_text),
    Kind.TIMETZ: _quoted(datum_text.sql_timetz_text),
    Kind.TIMESTAMP: _quoted(datum_text.timestamp_text),
    Kind.TIMESTAMPTZ: _quoted(datum_text.timestamptz_text),
    Kind.INTERVAL: _quoted(datum_text.interval_text),
    Kind.BIT: _quoted(str),
    Kind.OID: _quoted(str),
    Kind.JSONB: _json_datum_text,
    Kind.PG_LSN: _quoted(datum_text.lsn_text),
    Kind.BOX2D: _quoted(datum_text.box2d_text),
    Kind.GEOMETRY: geojson_text,
    Kind.GEOGRAPHY: geojson_text,
    Kind.TSVECTOR: lambda datum: json_string(tsvector_text(datum)),
    Kind.TSQUERY: lambda datum: json_string(tsquery_text(datum)),
    Kind.VECTOR: _quoted(datum_text.vector_text),
}


def text_encoder(sql_type: SqlType) -> TextEncoder:
    """Return the printer for datums of this type that are not NULL.

    Raises ``UnsupportedTable`` for a type that has no JSON form here.
    """
    if sql_type.kind is Kind.ARRAY and sql_type.element is not None:
        return _array_encoder(text_encoder(sql_type.element))
    try:
        return _BY_KIND[sql_type.kind]
    except KeyError:
        raise UnsupportedTable(f"columns of type {sql_type.kind.value} cannot be printed as JSON") from None


@cache  # so that the printers of equal types are the same object
def _array_encoder(element: TextEncoder) -> TextEncoder:
    def encode(datum: tuple[Any, ...]) -> str:
        return f"[{', '.join(array_texts(datum, element, 'null'))}]"

    return encode
