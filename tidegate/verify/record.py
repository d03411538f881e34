"""A record of an output topic as the auditor takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

#: A record's headers, without those in which copies of it may differ.
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

#: Headers in which copies of a row may differ: they say where in the log a copy was read.
PROVENANCE_HEADERS: Final = frozenset({"tidegate-source"})


class TopicPartition(NamedTuple):
    """One partition of one output topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class TopicRecord(NamedTuple):
    """A record as a consumer delivers it; ``timestamp_ms`` is its record time."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[str, bytes | None]] = ()


def lasting_headers(record: TopicRecord) -> Headers:
    """Return the headers that all copies of the row have."""
    return tuple(header for header in record.headers if header[0] not in PROVENANCE_HEADERS)
