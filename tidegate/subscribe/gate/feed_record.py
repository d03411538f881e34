"""Records of output topics as the gate takes them, and the row versions that they become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from tidegate.changefeed.encoding.record import Headers, RowRecord
from tidegate.hlc import Timestamp

#: The identity of a version: its timestamp, topic and key.
VersionIdentity: TypeAlias = tuple[Timestamp, str, bytes]


class FeedPartition(NamedTuple):
    """One partition of one output topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class FeedRecord(NamedTuple):
    """A record as Kafka has it; one without a key is a marker."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RecordColumns(NamedTuple):
    """Records of one partition as columns, in the order of their offsets. The i-th element of each column
    belongs to the i-th record.

    ``headers_of`` returns the headers of the record at a position: only few records are asked for theirs.
    """

    offsets: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers_of: Callable[[int], Headers]

    @classmethod
    def of(cls, records: Sequence[FeedRecord]) -> RecordColumns:
        """Make the columns of some records."""
        return cls(
            [record.offset for record in records],
            [record.key for record in records],
            [record.value for record in records],
            lambda at: records[at].headers,
        )

    def record(self, at: int) -> FeedRecord:
        """Return one record."""
        return FeedRecord(self.offsets[at], self.keys[at], self.values[at], self.headers_of(at))

    def part(self, begin: int, end: int) -> RecordColumns:
        """Return the records from one position up to another."""
        if begin == 0 and end == len(self.offsets):
            return self
        return RecordColumns(
            self.offsets[begin:end],
            self.keys[begin:end],
            self.values[begin:end],
            lambda at: self.headers_of(begin + at),
        )

    def by_markers(self, begin: int = 0) -> Iterator[tuple[RecordColumns, FeedRecord | None]]:
        """Yield the records from ``begin`` on in parts: the rows before each marker, with the marker.

        The last part has the records after the last marker, and ``None``; it may be empty.
        """
        for _ in range(self.keys[begin:].count(None)):
            marker = self.keys.index(None, begin)
            yield self.part(begin, marker), self.record(marker)
            begin = marker + 1
        yield self.part(begin, len(self.offsets)), None


class RowVersion(NamedTuple):
    """A row at one timestamp. Versions sort by timestamp, topic and key.

    ``digest`` is a hash of the value: copies of one version have the same digest.
    """

    updated: Timestamp
    topic: str
    key: bytes
    partition: int
    offset: int
    digest: int
    record: RowRecord

    @property
    def identity(self) -> VersionIdentity:
        """The identity that it shares with its exact copies, and with no other version."""
        return self[:3]

    @property
    def place(self) -> str:
        """The place of its record, for errors."""
        return f"offset {self.offset} of {self.topic}[{self.partition}]"
