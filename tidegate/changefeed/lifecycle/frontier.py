"""Decides markers: the minimum of the ranges' checkpoints over all target spans of a feed.

A checkpoint of a range says up to where the rows of its span are complete and acknowledged. The feed is
complete up to the minimum over its target spans. A part of these spans that no range has reported holds the
minimum back. The minimum is the feed's high-water: it is persisted first, then written as a marker to every
partition of every output topic (docs/protocols/markers.md).

A feed that begins with a scan has to write rows at its start, so its spans begin at zero. A checkpoint names
the feed only while the partition has no gap for it. So the scan is done once the spans have reached the start
(docs/protocols/initial-scans.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.span_progress import AHEAD_NS, SpanProgress, spans_ahead
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp
from tidegate.spans import Span, SpanFrontier


class FeedFrontier:
    """The progress of one epoch of one feed.

    ``resolved_interval_ns`` is the minimum distance between two markers in HLC time (0: every advance);
    ``None`` for a feed without markers. ``start`` is exclusive: nothing at or below it belongs to the feed,
    except the rows of its initial ``scan``. ``high_water`` and ``ahead`` are what an earlier owner of the
    same epoch has persisted; ``ahead`` may be incomplete. No marker is written at or below ``silent_to``: an
    earlier epoch may have written markers up to there, and markers never fall.

    Feeds with the same ``targets`` may share their ``spans`` (`share`).
    """

    __slots__ = (
        "_interval_ns",
        "_marked",
        "_positions",
        "_scan",
        "_seen",
        "_silent_to",
        "_start",
        "begin",
        "spans",
        "targets",
    )

    def __init__(
        self,
        spans: Iterable[Span],
        start: Timestamp,
        resolved_interval_ns: int | None,
        high_water: Timestamp | None = None,
        ahead: Iterable[SpanProgress] = (),
        scan: InitialScan = InitialScan.NO,
        silent_to: Timestamp | None = None,
    ) -> None:
        self._start = start
        #: No marker is at or below it.
        self._silent_to = start if silent_to is None else max(start, silent_to)
        self._scan = scan
        #: The high-water before any progress.
        self.begin = start if scan is InitialScan.NO else ZERO
        self._interval_ns = resolved_interval_ns
        self._marked = high_water if high_water is not None and high_water > self._silent_to else None
        self.targets = frozenset(spans)
        known = self.begin if high_water is None else max(self.begin, high_water)
        self.spans = SpanFrontier(self.targets, known)
        self.spans.forward_all(ahead)
        self._seen = self.spans.minimum
        self._positions: dict[int, int] = {}

    @property
    def high_water(self) -> Timestamp:
        """The timestamp at or below which every row of the feed was acknowledged.

        Before any progress it is ``begin``: the feed's start, or zero while its initial scan is not done. For
        a feed that is a scan only, it does not rise above the start.
        """
        lowest = self.spans.minimum
        if lowest < self._start:
            return self.begin
        return self._start if self._scan is InitialScan.ONLY else lowest

    @property
    def scanned(self) -> bool:
        """Whether every row at the start was acknowledged. Always true for a feed without an initial scan."""
        return self.high_water >= self._start

    @property
    def positions(self) -> Mapping[int, int]:
        """For each log partition, the offset up to which rows were acknowledged when it last reported."""
        return self._positions

    def apply_columns(
        self,
        partition: int,
        offset: int,
        starts: Sequence[bytes],
        ends: Sequence[bytes],
        resolved: Sequence[ResolvedTimestamp],
    ) -> bool:
        """Take a partition's checkpoint, with its spans in columns of equal length.

        A late or repeated checkpoint does no harm. Returns whether the minimum has risen since the last call
        for this feed.
        """
        self.spans.forward_columns(starts, ends, resolved)
        return self._note(partition, offset)

    def _note(self, partition: int, offset: int) -> bool:
        if offset > self._positions.get(partition, -1):
            self._positions[partition] = offset
        seen, self._seen = self._seen, self.spans.minimum
        return self._seen > seen

    def due_marker(self) -> ResolvedTimestamp | None:
        """Return the marker that is due: the high-water, if it is far enough above the last marker.

        Return ``None`` if no marker is due.
        """
        high_water = self.high_water
        if self._interval_ns is None or high_water <= self._silent_to:
            return None
        if self._marked is not None and (
            high_water <= self._marked or high_water.wall - self._marked.wall < self._interval_ns
        ):
            return None
        return ResolvedTimestamp(high_water)

    @property
    def marker(self) -> Timestamp | None:
        """The last marker that is known to be written, maybe by an earlier owner; ``None`` before the
        first.
        """
        return self._marked

    def marked(self, marker: ResolvedTimestamp) -> None:
        """Note that ``marker`` was written to every output partition."""
        self._marked = marker

    def ahead(self) -> tuple[SpanProgress, ...]:
        """Return the spans that are so far above the high-water that they are worth storing for a restart."""
        high_water = self.high_water
        if self.spans.maximum.wall - high_water.wall < AHEAD_NS:
            return ()
        return spans_ahead(self.spans.entries(), high_water)

    def laggard(self) -> Span | None:
        """Return the span that holds the high-water back; of several, that with the lowest start key.

        Return ``None`` if the feed has no spans.
        """
        lowest = self.spans.lowest_entry()
        return None if lowest is None else lowest[0]


def share(frontiers: Iterable[FeedFrontier]) -> None:
    """Let feeds whose spans are in the same state share one object for them, so that a report is applied
    once.

    From then on a report may be applied to one of these feeds only if it holds for all of them.
    """
    distinct: dict[frozenset[Span], list[FeedFrontier]] = {}
    for frontier in frontiers:
        alike = distinct.setdefault(frontier.targets, [])
        for other in alike:
            if frontier.spans is other.spans or frontier.spans.same_as(other.spans):
                frontier.spans = other.spans
                break
        else:
            alike.append(frontier)


def unshare(frontiers: Iterable[FeedFrontier], others: Iterable[FeedFrontier]) -> None:
    """Copy spans where needed, so that no frontier of ``frontiers`` shares its spans with one of ``others``.

    Frontiers of ``frontiers`` may still share spans with each other.
    """
    shared = {id(other.spans) for other in others}
    copies: dict[int, SpanFrontier] = {}
    for frontier in frontiers:
        known = id(frontier.spans)
        if known in shared:
            if known not in copies:
                copies[known] = frontier.spans.copy()
            frontier.spans = copies[known]
