"""One thing that holds a feed's resolved timestamp back, in a sentence that a person can act on."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.changefeed.definition.feed import FeedTarget
from tidegate.errors import EncodingError
from tidegate.rows.pretty import pretty_key
from tidegate.rows.table_key import table_id_of
from tidegate.spans import Span

#: The most things of one kind that a sentence names.
SEVERAL: Final = 3
_STEP: Final = 1024


class Cause(enum.Enum):
    """The kind of a finding. The values are for programs and never change."""

    NOTHING = "nothing"
    FEED = "feed"
    """The feed does not run: it is pending, succeeded, failed or dropped. Or the workers do not have it."""
    WORKERS = "workers"
    """No worker answers, or none of those that answer has the partition or frontier in question."""
    RESTORING = "restoring"
    HELD = "held"
    REGISTRY = "schema_registry"
    SINK = "sink"
    """Rows are not acknowledged, or the feed is detached, since rows were not acknowledged for too long."""
    READING = "reading"
    """The worker has not read its log partition up to the end."""
    UNCOVERED = "uncovered"
    OVERLAP = "overlap"
    QUARANTINED = "quarantined"
    HEALING = "healing"
    PARKED = "parked"
    CATCHING_UP = "catching_up"
    LAGGING = "lagging"
    """The feed misses versions, and is given them by scans."""
    SNAPSHOT = "snapshot"
    """A snapshot that has begun, or must follow, is not complete."""
    TRANSACTION = "transaction"
    CLOSED = "closed_timestamp"
    FRONTIER = "frontier"
    MARKERS = "markers"
    FOREIGN = "foreign_records"
    """Foreign records were passed over, and something may wait for a record that one of them replaced."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause and its sentence. ``facts`` are the figures of the sentence, for programs."""

    cause: Cause
    sentence: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the form for ``--format json``."""
        return {"cause": self.cause.value, "sentence": self.sentence, **self.facts}


class Keys:
    """Prints keys for people, with the names of the feed's tables."""

    def __init__(self, targets: tuple[FeedTarget, ...]) -> None:
        self._names = {target.table_id: target.table.name for target in targets}

    def key(self, key: bytes) -> str:
        """Return ``accounts/1/17/0`` for a key of the feed's tables, ``/Table/104/1/17/0`` for any other."""
        text = pretty_key(key)
        try:
            table_id = table_id_of(key)
        except EncodingError:
            return text
        head = f"/Table/{table_id}"
        name = self._names.get(table_id)
        return text if name is None or not text.startswith(head) else f"{name}{text.removeprefix(head)}"

    def span(self, span: Span) -> str:
        """Return ``from accounts/1/17 to accounts/1/21``; the upper key does not belong to the span."""
        return f"from {self.key(span.start)} to {self.key(span.end)}"


def duration(ms: int) -> str:
    """Return ``480 ms``, ``12.3 s``, ``14 min`` or ``5.2 h``."""
    if abs(ms) < 1_000:
        return f"{ms} ms"
    if abs(ms) < 120_000:
        return f"{ms / 1_000:.1f} s"
    return f"{ms / 60_000:.0f} min" if abs(ms) < 7_200_000 else f"{ms / 3_600_000:.1f} h"


def behind_present(ms: int) -> str:
    """Return ``12.3 s behind the present``; for a time that lies ahead, ``212 ms ahead of this machine's
    clock``.
    """
    return f"{duration(ms)} behind the present" if ms >= 0 else _ahead(ms)


def age(ms: int) -> str:
    """Return ``12.3 s old``; for a time that lies ahead, ``212 ms ahead of this machine's clock``."""
    return f"{duration(ms)} old" if ms >= 0 else _ahead(ms)


def _ahead(ms: int) -> str:
    return f"{duration(-ms)} ahead of this machine's clock"


def elapsed(ms: int) -> str:
    """Return the text of a duration between two times of the log. A negative duration counts as 0.

    It may be negative because the two times are from two answers. For example, a worker's answer about its
    partition can be older than its answer about a range.
    """
    return duration(max(ms, 0))


def counted(count: int, what: str) -> str:
    """Return ``1 range`` or ``2 ranges``, for example."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def size(count: int) -> str:
    """Return a number of bytes as ``1 byte``, ``900 bytes``, ``12.0 KiB`` or ``1.5 GiB``."""
    if count < _STEP:
        return counted(count, "byte")
    amount = count / _STEP
    for unit in ("KiB", "MiB"):
        if amount < _STEP:
            return f"{amount:.1f} {unit}"
        amount /= _STEP
    return f"{amount:.1f} GiB"
