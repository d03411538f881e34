"""Entries of a range that its partition has passed and the range has not applied (docs/ranges.md).

A cache of the log: what is lost with the process is read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeAlias

from tidegate.hlc import ZERO, ZERO_CLOSED, ClosedTimestamp
from tidegate.raftlog.entry import Command, Entry, Generation, Offset, RangeEnd, RangeId, Snapshot
from tidegate.ranges.handoff import Claim
from tidegate.ranges.scan import RangeScan
from tidegate.spans import Span


class RawEntry(NamedTuple):
    """A record of the log as it came; ``timestamp`` is its record time in milliseconds."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


class EntryQueue(Protocol):
    """First in, first out; ``close`` gives back what it holds."""

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
        """Add an entry behind all others."""
        self._entries.append(entry)

    def first(self) -> RawEntry:
        """The oldest entry, which stays."""
        return self._entries[0]

    def popleft(self) -> RawEntry:
        """Take the oldest entry out."""
        return self._entries.popleft()

    def __len__(self) -> int:
        return len(self._entries)

    def close(self) -> None:
        """Forget everything."""
        self._entries.clear()


#: Makes the queue of a range that falls behind.
QueueFactory: TypeAlias = Callable[[RangeId], EntryQueue]


class Backlog:
    """A range that is behind. It waits for hand-offs, then for a scan; then it is applied bit by bit.

    It was parked at the snapshot that begins with ``head``, for the ``missing`` claims or for ``scan``;
    ``since_ms`` is when, and ``asked_ms`` when it claimed last, by elapsed log time. ``moved_at`` is where
    the range last changed its span, or ended: what it scans for before that nobody can answer. ``heard_ms``
    is when the partition last read an entry of the range, by elapsed log time; an entry that it reads again
    after a restart does not count. ``span`` is what the range has behind the last entry, and ``generation``
    that of the last snapshot before it; ``closed`` is the highest that its entries close.
    """

    __slots__ = (
        "_kept",
        "_spans",
        "_told",
        "asked_ms",
        "closed",
        "generation",
        "head",
        "heard_ms",
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

    def __init__(self, queue: EntryQueue) -> None:
        self.queue = queue
        self.missing: frozenset[Claim] = frozenset()
        self.scan: RangeScan | None = None
        self.since_ms = self.asked_ms = self.heard_ms = 0
        self.waits_at: Offset | None = None
        self.moved_at: Offset | None = None
        self.span: Span | None = None
        #: Claims that snapshots told of which were left out, and are still to be sent.
        self.skipped: list[Claim] = []
        self._told: list[tuple[Offset, Claim]] = []
        #: Where generations begin, and with which spans.
        self._spans: list[tuple[Offset, Span]] = []
        self.generation = Generation(0)
        self.closed: ClosedTimestamp = ZERO_CLOSED
        #: The highest GC threshold that a snapshot has told, and where.
        self._kept = ZERO, Offset(0)

    def wait_for(self, head: Snapshot, offset: Offset, since_ms: int, missing: frozenset[Claim]) -> None:
        """Wait before the snapshot that begins with ``head`` at ``offset``."""
        self.head, self.waits_at, self.since_ms, self.missing = head, offset, since_ms, missing
        self.generation = max(self.generation, head.generation)
        self.closed = max(self.closed, head.closed)
        self.span = self.span or head.span
        self._spans = [(at, span) for at, span in self._spans if at > offset]

    def clear(self) -> None:
        """Wait for nothing more."""
        self.missing, self.scan, self.waits_at = frozenset(), None, None

    def append(self, raw: RawEntry, entry: Entry | None) -> None:
        """Add an entry, which is ``None`` where it could not be read."""
        self.queue.append(raw)
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
            if entry.gc_threshold > self._kept[0]:
                self._kept = entry.gc_threshold, Offset(raw.offset)

    def skip_to_move(self) -> list[Span]:
        """Leave out what is before the last snapshot that the scan does not fit, when there is one.

        Returns the spans that the range had in what is left out; none when nothing is.
        """
        move = self._move()
        if move is None or self.waits_at is None or move <= self.waits_at:
            return []
        left_out = self.spans(before=move)
        while self.queue.first().offset < move:
            self.queue.popleft()
        self.skipped += (claim for at, claim in self._told if self.waits_at < at < move)
        self._told = [(at, claim) for at, claim in self._told if at >= move]
        self.clear()
        return left_out

    def spans(self, before: Offset | None = None) -> list[Span]:
        """The spans that the range, which is parked, has in it, or in what is ``before`` an offset."""
        return [self.head.span, *(span for at, span in self._spans if before is None or at < before)]

    def note_claims(self, offset: Offset, claims: Iterable[Claim]) -> None:
        """The snapshot at ``offset`` tells of these claims; they are ``skipped`` if it is left out."""
        self._told += ((offset, claim) for claim in claims)

    def _move(self) -> Offset | None:
        """Where the span changed, or where the store had removed what is scanned for."""
        kept, told_at = self._kept
        removed = told_at if self.scan is not None and kept > self.scan.after else None
        return max((offset for offset in (self.moved_at, removed) if offset is not None), default=None)

    @property
    def told(self) -> frozenset[Claim]:
        """The claims that snapshots in it name."""
        return frozenset(claim for _, claim in self._told)

    @property
    def parked(self) -> bool:
        """Whether it waits for something."""
        return self.waits_at is not None

    @property
    def start(self) -> Offset:
        """Where in the log it begins."""
        return Offset(self.queue.first().offset)
