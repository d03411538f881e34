"""Records of output topics as the gate takes them, and the row versions that they become."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tidegate.changefeed.encoding.record import Headers, RowRecord
from tidegate.hlc import Timestamp

#: What makes a version: its timestamp, topic and key.
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


class RowVersion(NamedTuple):
    """A row at one timestamp. Versions sort by timestamp, topic and key.

    ``digest`` tells values apart: records with equal ones are exact copies.
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
        """What it shares with its exact copies, and with no other version."""
        return self[:3]

    @property
    def place(self) -> str:
        """Where its record stands, for errors."""
        return f"offset {self.offset} of {self.topic}[{self.partition}]"
