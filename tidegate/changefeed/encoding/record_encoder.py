"""The encoder of one table version and one feed, whatever its format and envelope."""

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

    ``encode(row, timestamp)`` returns (key, value) for a version's timestamp. It raises ``RowError`` for a
    row that has no form in this format. With ``schemas``, key and value are bodies that must still be framed
    with the schemas' ids; an empty or absent value is never framed. ``headers(row)`` returns the record's
    headers.
    With ``tombstones`` a record of the same key without a value follows a deletion's record. With a
    ``limit``, the limit decides what is written for value and headers.
    """

    encode: Encode
    schemas: RecordSchemas | None = None
    headers: Headers | None = None
    tombstones: bool = False
    limit: RowLimit | None = None


class MarkerEncoder(NamedTuple):
    """Encodes a feed's markers for the topic of one table. With ``schema`` the value must still be framed."""

    encode: Callable[[ResolvedTimestamp], bytes]
    schema: SubjectSchema | None = None
