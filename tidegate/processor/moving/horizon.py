"""Refuses timestamps that are too far in the future to be true (docs/log-contract.md#record-time).

Such a timestamp does harm when it is applied. A feed that is created later starts above the highest timestamp
that was applied, so it would have no changes until that time. A range that closes it resolves everything up
to it, so the range would not move on until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.errors import MalformedEntry
from tidegate.hlc import MAX, NANOS_PER_MS, Timestamp
from tidegate.processor.batch import LogRecord
from tidegate.processor.log_clock import LogClock
from tidegate.raftlog.entry import Command, Entry, Heartbeat, ScanChunk, Snapshot, Trigger
from tidegate.ranges.version import Version

#: How far a timestamp may be above the later one of its record's time and log time: a day. The clocks of a
#: store differ by half a second. The rest is for record times that are wrong.
AHEAD_MAX_MS: Final = 86_400_000
_CLOSES: Final = "what it closes"
#: A tuple, since `isinstance` with a union would build that anew for every record.
_CLOSING: Final = (Command, Heartbeat)


class Horizon:
    """The check of one log partition's timestamps against its ``clock`` and the times of their records.

    Since log time counts too, a record time that is far behind does no harm. ``believed`` is a wall time in
    nanoseconds since 1970: a timestamp at or below it needs no check.
    """

    def __init__(self, clock: LogClock) -> None:
        self._clock = clock
        self.believed = 0

    def fault(self, entry: Entry, record: LogRecord) -> MalformedEntry | None:
        """Return why an entry is not believed: a timestamp of it is too far ahead. Return ``None`` if it is.

        The timestamps of its ops are not looked at here: see ``require_versions``.
        """
        if type(entry) is Command and entry.trigger is Trigger.NONE:  # as most are
            closed = entry.closed
            if closed is None or closed[0] <= self.believed:
                return None
        try:
            if type(entry) is Heartbeat:
                self.require(entry.closed, _CLOSES, record)
            else:
                self.require_entry(entry, record)
        except MalformedEntry as fault:
            return fault
        return None

    def require_entry(self, entry: Entry, record: LogRecord) -> None:
        """Raise ``MalformedEntry`` where a timestamp of the entry, its ops aside, is too far ahead."""
        if isinstance(entry, _CLOSING) and entry.closed is not None:
            self.require(entry.closed, _CLOSES, record)
        if isinstance(entry, Command) and entry.write_timestamp is not None:
            self.require(entry.write_timestamp, "its write timestamp", record)
        if isinstance(entry, Snapshot):
            self._require_snapshot(entry, record)

    def require_versions(self, versions: Sequence[Version], record_ms: int) -> None:
        """Raise ``MalformedEntry`` where a version of a command is too far ahead.

        ``record_ms`` is the time of the command's record. At least one version must be given.
        """
        self._require(max(version.timestamp for version in versions), "the time of a version", record_ms)

    def require_chunk(self, chunk: ScanChunk, record: LogRecord) -> None:
        """Raise ``MalformedEntry`` where the timestamp of a version in the chunk is too far ahead."""
        for row in chunk.rows:
            if row.timestamp[0] > self.believed:
                self.require(row.timestamp, "a version of a ScanChunk", record)

    def require(self, timestamp: Timestamp, what: str, record: LogRecord) -> None:
        """Raise ``MalformedEntry`` if ``timestamp``, which is ``what`` in the record, is too far ahead."""
        self._require(timestamp, what, record.timestamp)

    def _require(self, timestamp: Timestamp, what: str, record_ms: int) -> None:
        self.believed = min((self._clock.time_ms + AHEAD_MAX_MS) * NANOS_PER_MS, MAX.wall)
        known_ms = max(record_ms, self._clock.time_ms)
        if timestamp.wall > (known_ms + AHEAD_MAX_MS) * NANOS_PER_MS:
            ahead_s = timestamp.wall // NANOS_PER_MS // 1000 - known_ms // 1000
            raise MalformedEntry(
                f"{what} is {timestamp}, {ahead_s} s ahead of its record's time and of the log's: "
                f"{AHEAD_MAX_MS // 1000} s are believed"
            )

    def _require_snapshot(self, chunk: Snapshot, record: LogRecord) -> None:
        self.require(chunk.closed, "what a Snapshot closes", record)
        self.require(chunk.high, "the highest timestamp of a Snapshot", record)
        self.require(chunk.gc_threshold, "the GC threshold of a Snapshot", record)
        if chunk.last_mutation is not None:
            self.require(chunk.last_mutation.time, "the last mutation of a Snapshot", record)
