"""A record of an output topic as the auditor takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


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
