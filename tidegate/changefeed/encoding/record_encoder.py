"""What an encoder of one table version and one feed offers, whatever its format and envelope."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tidegate.changefeed.definition.oversize import RowLimit
from tidegate.changefeed.encoding.confluent import RecordSchemas, SubjectSchema
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.rows.row import Row

Encode: TypeAlias = Callable[[Row, Timestamp], tuple[bytes, bytes | None]]
Headers: TypeAlias = Callable[[Row], list[tuple[str, bytes]]]


class RecordEncoder(NamedTuple):
    """Encodes the rows of one table version for one feed.

    ``encode(row, timestamp)`` gives (key, value) for a version's timestamp; it raises ``RowError`` for a row
    that has no form in this format. With ``schemas`` both are bodies that must still be framed with the
    schemas' ids; an empty or absent value is never framed. ``headers(row)`` gives the record's headers. With
    ``tombstones`` a deletion's record is followed by one of the same key without a value. Where there is a
    ``limit``, what it makes of value and headers is written.
    """

    encode: Encode
    schemas: RecordSchemas | None = None
    headers: Headers | None = None
    tombstones: bool = False
    limit: RowLimit | None = None


class MarkerEncoder(NamedTuple):
    """Encodes a feed's markers for the topic of one table; with ``schema`` the value must still be framed."""

    encode: Callable[[ResolvedTimestamp], bytes]
    schema: SubjectSchema | None = None
