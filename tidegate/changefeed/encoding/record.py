"""The contents of an output record: the row or the marker that a reader finds in it.

A record without a key is a marker. A row's key and value are read by the feed's envelope, because the text
alone does not distinguish them (a table may have a column named ``after``). A record without a value is a
deletion in the upsert envelope, and a tombstone in the debezium envelope. If ``on_oversize`` leaves out a
value, a header says which row it was; such a record cannot be decoded without its headers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from tidegate.changefeed.definition.oversize import read_oversize
from tidegate.hlc import ResolvedTimestamp, Timestamp

#: A column's value as JSON has it. Numbers are ``int``, or ``Decimal`` if they have a point or an exponent.
Value: TypeAlias = Any
#: A record's headers, in their order.
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
#: Returns the text of the schema with this id. Raises ``MalformedRecord`` if the registry has none.
SchemaText: TypeAlias = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class RowRecord:
    """A row's record.

    ``key`` holds the key's values in the order of its text: an object's members, or an array's elements.

    ``row`` maps column names to values. It is ``None`` for a deletion, in the ``key_only`` envelope, and if
    the row was too large: then ``oversize_bytes`` is its size, which is not 0.

    ``deleted`` is ``None`` if the record does not say it: in the ``key_only`` envelope, and for a row of the
    ``bare`` envelope that may be a deletion. Such a row has values in no more columns than the key has. With
    ``key_column`` each row of the ``bare`` envelope may be a deletion.

    ``previous`` is the row before, ``None`` if there was none or the feed does not show it. The timestamps
    are ``None`` unless they are in the record. ``tombstone`` marks the record without a value that follows a
    deletion's record. It lets log compaction forget the key, repeats the deletion, and is no version of its
    own.
    """

    key: tuple[Value, ...]
    row: Mapping[str, Value] | None
    deleted: bool | None
    updated: Timestamp | None = None
    mvcc_timestamp: Timestamp | None = None
    previous: Mapping[str, Value] | None = None
    tombstone: bool = False
    oversize_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MarkerRecord:
    """A marker as it is read from a topic.

    If the marker is on the feed's ``resolved_topic``, ``offsets`` has an offset for each topic of rows. The
    rows that the marker covers stand below that offset, in the partition that has the number of the marker's
    partition. ``offsets`` is empty for a marker among rows, which covers the rows before it.
    """

    resolved: ResolvedTimestamp
    offsets: Mapping[str, int] = field(default_factory=dict)


Record: TypeAlias = RowRecord | MarkerRecord


class RecordDecoder(Protocol):
    """Reads the records of one feed's topics."""

    @property
    def tombstones(self) -> bool:
        """Whether a tombstone follows each deletion's record."""

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Record:
        """Read one record. Raises ``MalformedRecord`` for a record that this feed cannot have written."""


def oversize_record(key: tuple[Value, ...], headers: Headers) -> RowRecord:
    """Return a record whose value was left out. Raises ``ValueError`` if its headers do not say so."""
    left_out = read_oversize(headers)
    if left_out is None:
        raise ValueError("the value is empty, and no header says that the row was too large")
    return RowRecord(
        key,
        None,
        left_out.deleted,
        left_out.updated,
        left_out.mvcc_timestamp,
        oversize_bytes=left_out.size_bytes,
    )
