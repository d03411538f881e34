"""The options of a feed, as the rest of the program uses them.

``option_clauses`` turns a statement's WITH clauses into one of these.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


class Format(enum.Enum):
    """How keys and values are encoded."""

    JSON = "json"


class Envelope(enum.Enum):
    """What a record's value holds."""

    WRAPPED = "wrapped"
    """``{"after": {...}}`` with the asked-for timestamps beside it; a deletion has ``"after": null``."""
    ROW = "row"
    """The row itself, timestamps under ``__crdb__``; a deletion has an empty value."""
    KEY_ONLY = "key_only"
    """An empty value, always."""


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """What one feed emits. The defaults are CockroachDB's, but for scans, which do not exist yet.

    ``resolved_interval_ns`` is the least distance of two markers in HLC nanoseconds: 0 for a marker at
    every advance, ``None`` for no markers. ``topic_prefix`` stands before every topic's name.
    """

    format: Format = Format.JSON
    envelope: Envelope = Envelope.WRAPPED
    updated: bool = False
    mvcc_timestamp: bool = False
    resolved_interval_ns: int | None = None
    topic_prefix: str = ""

    def to_json(self) -> dict[str, Any]:
        """The stored form."""
        return {
            "format": self.format.value,
            "envelope": self.envelope.value,
            "updated": self.updated,
            "mvcc_timestamp": self.mvcc_timestamp,
            "resolved_interval_ns": self.resolved_interval_ns,
            "topic_prefix": self.topic_prefix,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> FeedOptions:
        """Read the stored form; ``KeyError`` or ``ValueError`` when it is none."""
        return cls(
            format=Format(stored["format"]),
            envelope=Envelope(stored["envelope"]),
            updated=stored["updated"],
            mvcc_timestamp=stored["mvcc_timestamp"],
            resolved_interval_ns=stored["resolved_interval_ns"],
            topic_prefix=stored["topic_prefix"],
        )


DEFAULT_OPTIONS: Final = FeedOptions()
