"""Backlogs: entries of a range that its partition has passed and the range has not applied
(docs/protocols/ranges.md).

A backlog is a cache of the log: after a restart its entries are read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidegate.hlc import ZERO, ZERO_CLOSED, ClosedTimestamp
from tidegate.raftlog.entry import Command, Entry, Generation, Offset, RangeEnd, RangeId, Snapshot
from tidegate.ranges.handoff import Claim
from tidegate.ranges.scan import RangeScan
from tidegate.spans import Span

_ENTRY_BYTES: Final = 200  # the bytes that an entry takes in memory besides its key and value
#: The bytes as which a claim is counted. It takes only about 200 bytes, but always in memory. Entries may be
#: on disk, where there is more room.
_CLAIM_BYTES: Final = 4_000


class RawEntry(NamedTuple):
    """A record of the log that is not decoded. ``timestamp`` is its record time in milliseconds."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int

    @property
    def held_bytes(self) -> int:
        """About how many bytes of memory the entry takes."""
        return _ENTRY_BYTES + len(self.key or b"") + len(self.value or b"")


class EntryQueue(Protocol):
    """A queue of entries, first in, first out. ``close`` frees its memory, or its place on disk."""

    def append(self, entry: RawEntry) -> None: ...
    def first(self) -> RawEntry: ...
    def popleft(self) -> RawEntry: ...
    def __len__(self) -> int: ...
    def close(self) -> None: ...


class MemoryQueue:
    """An ``EntryQueue`` without a limit."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: deque[RawEntry] = deque()

    def append(self, entry: RawEntry) -> None:
        """Add an entry after all others."""
        self._entries.append(entry)

    def first(self) -> RawEntry:
        """Return the oldest entry, which stays in the queue."""
        return self._entries[0]

    def popleft(self) -> RawEntry:
        """Take the oldest entry out, and return it."""
        return self._entries.popleft()

    def __len__(self) -> int:
        return len(self._entries)

    def close(self) -> None:
        """Forget all entries."""
        self._entries.clear()


#: Makes the queue for the backlog of a range.
QueueFactory: TypeAlias = Callable[[RangeId], EntryQueue]


class Backlog:
    """The backlog of a range, with the hand-offs and then the scan that the range waits for.

    When the range waits for nothing more, the backlog is applied, a part of it with each step. All times here
    are elapsed log times.

    * ``head`` is the first chunk of the snapshot at which the range was parked. ``since_ms`` is the time at
      which it was parked. The range waits for the answers to the ``missing`` claims, which it sent last at
      ``asked_ms``, or for ``scan``.
    * ``moved_at`` is the offset at which the range last changed its span, or ended. The store cannot answer a
      scan of the keys that the range had before.
    * ``heard_ms`` is the time at which the partition last read an entry of the range. Entries that are read
      again after a restart do not count.
    * ``held_bytes`` is the bytes that the entries take, in memory or on disk, and the bytes as which the
      claims in these entries are counted.
    * ``span`` and ``generation`` are those that the range has after the last entry, and ``closed`` is the
      highest timestamp that the entries close.
    """

    __slots__ = (
        "_kept",
        "_kept_at",
        "_spans",
        "_told",
        "asked_ms",
        "closed",
        "generation",
        "head",
        "heard_ms",
        "held_bytes",
        "missing",
        "moved_at",
        "queue",
        "scan",
        "since_ms",
        "skipped",
        "span",
        "waits_at",
    )

    head: Snapshot

    def __init__(self, queue: EntryQueue, first: RawEntry) -> None:
        self.queue = queue
        self.held_bytes = 0
        self._keep(first)
        self.missing: frozenset[Claim] = frozenset()
        self.scan: RangeScan | None = None
        self.since_ms = self.asked_ms = self.heard_ms = 0
        self.waits_at: Offset | None = None
        self.moved_at: Offset | None = None
        self.span: Span | None = None
        #: Claims of snapshots that were left out: they are still to be sent.
        self.skipped: list[Claim] = []
        self._told: deque[tuple[Offset, Claim]] = deque()
        #: The offset at which each generation begins, with its span.
        self._spans: list[tuple[Offset, Span]] = []
        self.generation = Generation(0)
        self.closed: ClosedTimestamp = ZERO_CLOSED
        #: The highest GC threshold that a snapshot has told, and the offset of that snapshot.
        self._kept = ZERO
        self._kept_at: Offset | None = None

    def wait_for(self, head: Snapshot, offset: Offset, since_ms: int, missing: frozenset[Claim]) -> None:
        """Wait before the snapshot that begins with ``head`` at ``offset``, for the ``missing`` claims."""
        self.head, self.waits_at, self.since_ms, self.missing = head, offset, since_ms, missing
        self.generation = max(self.generation, head.generation)
        self.closed = max(self.closed, head.closed)
        self.span = self.span or head.span
        self._spans = [(at, span) for at, span in self._spans if at > offset]

    def clear(self) -> None:
        """End the wait."""
        self.missing, self.scan, self.waits_at = frozenset(), None, None

    def append(self, raw: RawEntry, entry: Entry | None) -> None:
        """Add an entry. ``entry`` is ``None`` where the record could not be read."""
        self._keep(raw)
        match entry:
            case RangeEnd():
                self.moved_at = Offset(raw.offset)
            case Snapshot(chunk=0, generation=generation) if generation > self.generation:
                self.moved_at, self.generation = Offset(raw.offset), generation
                self._spans.append((self.moved_at, entry.span))
        if isinstance(entry, Command | Snapshot) and entry.closed is not None:
            self.closed = max(self.closed, entry.closed)
        if isinstance(entry, Snapshot) and entry.chunk == 0:
            self.span = entry.span
            if entry.gc_threshold > self._kept:
                self._kept, self._kept_at = entry.gc_threshold, Offset(raw.offset)

    def take_first(self) -> None:
        """Take the oldest entry out."""
        self.held_bytes -= self.queue.popleft().held_bytes

    def take_applied(self) -> RawEntry:
        """Take out the oldest entry, which the range has applied, and forget the claims that it tells of."""
        entry = self.queue.first()
        self.take_first()
        while self._told and self._told[0][0] <= entry.offset:
            self._told.popleft()
            self.held_bytes -= _CLAIM_BYTES
        return entry

    def skip_to_move(self) -> list[Span]:
        """Leave out all entries before the last place that makes the scan useless, if there is one, and end
        the wait.

        At such a place the span changed, or the store had removed versions that the scan asks for. Returns
        the spans that the range had in the entries that are left out. If there is no such place, nothing
        changes, and no span is returned.
        """
        move = self._move()
        if move is None or self.waits_at is None or move <= self.waits_at:
            return []
        left_out = self.spans(before=move)
        while self.queue.first().offset < move:
            self.take_first()
        self.skipped += (claim for at, claim in self._told if self.waits_at < at < move)
        told = deque((at, claim) for at, claim in self._told if at >= move)
        self.held_bytes -= _CLAIM_BYTES * (len(self._told) - len(told))
        self._told = told
        self.clear()
        return left_out

    def spans(self, before: Offset | None = None) -> list[Span]:
        """Return the spans that the parked range has in its backlog, or only those ``before`` an offset."""
        return [self.head.span, *(span for at, span in self._spans if before is None or at < before)]

    def note_claims(self, offset: Offset, claims: Iterable[Claim]) -> None:
        """Note the claims that the snapshot at ``offset`` tells of.

        If that snapshot is left out later, its claims go to ``skipped``.
        """
        told = [(offset, claim) for claim in claims]
        self.held_bytes += _CLAIM_BYTES * len(told)
        self._told += told

    def _keep(self, raw: RawEntry) -> None:
        self.queue.append(raw)
        self.held_bytes += raw.held_bytes

    def _move(self) -> Offset | None:
        """Return the offset of the last place that makes the scan useless; ``None`` if there is none.

        That is the place where the span last changed, or the one where the store had removed versions that
        the scan asks for: the later of the two.
        """
        removed = self._kept_at if self.scan is not None and self._kept > self.scan.after else None
        return max((offset for offset in (self.moved_at, removed) if offset is not None), default=None)

    @property
    def told(self) -> frozenset[Claim]:
        """The claims that snapshots in the backlog tell of."""
        return frozenset(claim for _, claim in self._told)

    @property
    def parked(self) -> bool:
        """Whether the range is parked: it waits for hand-offs or for a scan."""
        return self.waits_at is not None

    @property
    def start(self) -> Offset:
        """The offset at which the backlog begins."""
        return Offset(self.queue.first().offset)
