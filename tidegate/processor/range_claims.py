"""Finds keys that several ranges have at once, by what ranges say in their checkpoints: overlaps.

A split or merge gives the keys that it moves a higher generation: both sides of a split have one more than
their parent, a merged range one more than the higher of its two (docs/log-contract.md). So generations tell
in which order ranges had a key, and a frontier may take the highest timestamp that any of them has resolved.
That is wrong if two ranges have the key *now*: rows of the slower one are still to come below what the faster
one says. Two rules tell such an overlap from a key that had one range after the other:

* Two ranges claim a key in the same generation. They cannot have had it one after the other.
* A range goes on after another range, of a higher generation, has taken the key. What a range resolved while
  it had the key was closed by then. So it is at or below the log time of the other range's first checkpoint,
  however late it is reported. A range that resolves more than that still has the key.

An overlap ends when all of its ranges but one have ended. A higher generation does not end it: the slower
range's keys move too, by splits and merges, and its rows are still to come. So a range that takes the keys
meanwhile joins the overlap. A range that leaves the keys, and has not ended, may have given them to a range
that has not been heard of. So the keys are held for a while after only one range is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

from tidegate.hlc import NANOS_PER_MS, ResolvedTimestamp
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.raftlog.entry import Generation, RangeId
from tidegate.sorted_keys import SortedKeys
from tidegate.spans import Span

#: How far a closed timestamp may be above the log time of another partition. It is at most 2 s above its
#: record's time (docs/log-contract.md), and clocks differ by half a second at most; the rest is to spare.
AHEAD_MS: Final = 3_000
#: How long the keys of an overlap are held when one range is left, by the elapsed log time of its partition.
#: The other one may have given the keys to a range that is parked. That range waits until 600 s have elapsed
#: in its parents' partitions (docs/protocols/hand-off.md, steps G1 to G4); if it waits longer, that is a
#: known limit of V5.
HELD_MS: Final = 900_000
_NO_LIMIT: Final = 1 << 63


class SpanClaim(NamedTuple):
    """The word of a range that it has the keys of ``span``.

    ``taken_by`` is a wall time in nanoseconds at which it had them at the latest. Ranges that had the keys in
    lower generations resolved nothing above it.
    """

    range_id: RangeId
    generation: Generation
    span: Span
    taken_by: int


class Overlap(NamedTuple):
    """Keys that several ranges have at once, and the claims of these ranges in the order of their ids."""

    span: Span
    claims: tuple[SpanClaim, ...]

    @property
    def range_ids(self) -> tuple[RangeId, ...]:
        """The ids of the ranges."""
        return tuple(claim.range_id for claim in self.claims)


@dataclass(slots=True)
class _Part:
    """Keys up to ``end`` that the same ranges claim. The ranges in ``contested`` have them at once.

    ``taken`` has the generations, above that of a present claim, in which other ranges claimed the keys
    before, each with the wall time in nanoseconds by which they had them. If ``contested`` has only one
    range, the keys are held until ``until_ms`` of the elapsed log time of its partition. That is set at its
    next checkpoint.
    """

    end: bytes
    claims: tuple[SpanClaim, ...]
    taken: tuple[tuple[Generation, int], ...] = ()
    contested: frozenset[RangeId] = frozenset()
    until_ms: int | None = None

    def of(self, range_id: RangeId) -> SpanClaim | None:
        """Return the claim of a range on these keys, if it has one."""
        return next((claim for claim in self.claims if claim.range_id == range_id), None)

    def limit(self, generation: Generation) -> int:
        """Return the highest wall time, in nanoseconds, that an owner in a generation may have resolved."""
        claimed = [(claim.generation, claim.taken_by) for claim in self.claims]
        return min((at for higher, at in (*self.taken, *claimed) if higher > generation), default=_NO_LIMIT)

    def like(self, other: _Part) -> bool:
        """Whether two parts differ only in their keys."""
        return replace(self, end=other.end) == other


class RangeClaims:
    """The claims of all ranges whose checkpoints come to one place.

    Checkpoints of one log partition must come in their order; those of different ones may come in any order.
    A range that claims what it claimed before, and has no rival, costs one comparison.
    """

    def __init__(self) -> None:
        self._claims: dict[RangeId, SpanClaim] = {}
        #: The claims that need no look: no range of a higher generation claims, or claimed, their keys, and
        #: these are in no overlap.
        self._settled: dict[RangeId, tuple[Generation, bytes, bytes]] = {}
        self._parts: dict[bytes, _Part] = {}  # each under its start
        self._starts = SortedKeys()
        self._contested: set[bytes] = set()  # the starts of parts that are in an overlap
        self._moved = False  # whether contested keys have changed since ``overlaps`` was put together
        #: The overlaps, in the order of their keys. Frontiers do not move on there.
        self.overlaps: tuple[Overlap, ...] = ()

    def count(self, reports: Iterable[PartitionProgress]) -> list[PartitionProgress]:
        """Count the reports. Returns them without keys in overlaps.

        A key is left out if it overlaps when its report is counted, or once all reports are counted.
        """
        taken = [report if self._is_settled(report) else self._taken(report) for report in reports]
        if self._moved:
            self.overlaps, self._moved = tuple(self._put_together()), False
        return [self._kept(report) for report in taken] if self._contested else taken

    def _is_settled(self, report: PartitionProgress) -> bool:
        known = list(map(self._settled.get, report.range_ids))
        claims = list(zip(report.generations, report.starts, report.ends, strict=True))
        return not report.ended and known == claims

    def _taken(self, report: PartitionProgress) -> PartitionProgress:
        """Count one report. Returns it without keys that overlap now: a later report may end the overlap."""
        self._take(report)
        return self._without_contested(report) if self._contested else report

    def _kept(self, report: PartitionProgress) -> PartitionProgress:
        return report if report.range_ids and self._is_settled(report) else self._without_contested(report)

    def _take(self, report: PartitionProgress) -> None:
        claims = zip(report.generations, report.starts, report.ends, strict=True)
        for range_id, claim, resolved in zip(report.range_ids, claims, report.resolved, strict=True):
            generation, start, end = claim
            if self._settled.get(range_id) != claim and start < end:
                self._claim(range_id, generation, Span(start, end), resolved, report)
        for range_id in report.ended:  # after the claims: those may be of keys that these ranges had
            self._end(range_id)

    def _claim(
        self,
        range_id: RangeId,
        generation: Generation,
        span: Span,
        resolved: ResolvedTimestamp,
        report: PartitionProgress,
    ) -> None:
        known = self._claims.get(range_id)
        if known is not None and generation < known.generation:
            return  # a late report of a generation that is over
        if known is None or (generation, span) != known[1:3]:
            now_ms = report.log_time_ms
            closed_by = (now_ms + AHEAD_MS) * NANOS_PER_MS if now_ms else _NO_LIMIT
            self._enter(SpanClaim(range_id, generation, span, max(closed_by, resolved.wall)), known)
        self._look_at(self._claims[range_id], resolved, report.elapsed_ms or report.log_time_ms)

    # ---- claims that come, change and go

    def _enter(self, new: SpanClaim, old: SpanClaim | None) -> None:
        self._claims[new.range_id] = new
        if old is None and not self._reaches(new.span):
            self._track(*new.span, new)
            self._settle([new.range_id])
            return
        touched = {new.range_id}
        if old is not None:
            self._settled.pop(new.range_id, None)
            left = Span(old.span.start, min(old.span.end, new.span.start))
            touched |= self._leave(new.range_id, left)
            left = Span(max(old.span.start, new.span.end), old.span.end)
            touched |= self._leave(new.range_id, left)
        position = new.span.start
        for start in self._cut(new.span):
            self._track(position, start, new)
            part = self._parts[start]
            touched.update(claim.range_id for claim in part.claims)
            self._change(start, _claimed(part, new))
            position = part.end
        self._track(position, new.span.end, new)
        self._unite(new.span)
        self._settle(touched)

    def _end(self, range_id: RangeId) -> None:
        claim = self._claims.pop(range_id, None)
        if claim is not None:
            self._settled.pop(range_id, None)
            self._settle(self._leave(range_id, claim.span, ended=True))

    def _leave(self, range_id: RangeId, span: Span, *, ended: bool = False) -> set[RangeId]:
        """Take a range out of the keys that it has left, or that it had when it ``ended``.

        Returns the other ranges that claim some of these keys.
        """
        touched: set[RangeId] = set()
        for start in self._cut(span):
            part = self._parts[start]
            rest = _ended(part, range_id) if ended else _left(part, range_id)
            touched.update(claim.range_id for claim in rest.claims)
            self._change(start, rest)
        self._unite(span)
        return touched

    def _look_at(self, claim: SpanClaim, resolved: ResolvedTimestamp, now_ms: int) -> None:
        """Find out whether a range has resolved more than it can have if others have taken its keys.

        If so it overlaps with them. ``now_ms`` is the elapsed log time of its partition.
        """
        touched: set[RangeId] = set()
        for start in self._within(claim.span):
            part = self._parts[start]
            if part.contested == {claim.range_id}:
                if part.until_ms is None:
                    self._change(start, replace(part, until_ms=now_ms + HELD_MS))
                elif now_ms > part.until_ms:
                    self._change(start, _freed(part))
            elif claim.range_id not in part.contested and resolved.wall > part.limit(claim.generation):
                rivals = part.contested or frozenset((max(part.claims, key=_generation).range_id,))
                self._change(start, replace(part, contested=rivals | {claim.range_id}, until_ms=None))
            touched.update(each.range_id for each in part.claims if part is not self._parts[start])
        self._settle(touched)

    def _settle(self, range_ids: Iterable[RangeId]) -> None:
        """Note for each of these ranges whether the same claim needs no check when it comes again."""
        for range_id in range_ids:
            claim = self._claims.get(range_id)
            if claim is None:
                continue
            parts = (self._parts[start] for start in self._within(claim.span))
            if all(not part.contested and part.limit(claim.generation) == _NO_LIMIT for part in parts):
                self._settled[range_id] = (claim.generation, *claim.span)
            else:
                self._settled.pop(range_id, None)

    # ---- parts

    def _within(self, span: Span) -> list[bytes]:
        """Return the starts of the parts in a span. No part may reach over its ends."""
        starts = self._starts.around(span.start, span.end)
        return starts[1:] if starts and starts[0] < span.start else starts

    def _reaches(self, span: Span) -> bool:
        """Whether any range claims keys of a span."""
        starts = self._starts.around(span.start, span.end)
        return any(self._parts[start].end > span.start for start in starts)

    def _cut(self, span: Span) -> list[bytes]:
        """Cut parts at the ends of ``span``, and return the starts of those in it; none for an empty span."""
        if span.start >= span.end:
            return []
        for at in span:
            for start in self._starts.around(at, at):
                part = self._parts[start]
                if at < part.end:
                    self._put(at, replace(part))
                    part.end = at
        return self._within(span)

    def _track(self, start: bytes, end: bytes, claim: SpanClaim) -> None:
        """Add the claim of a range on keys that no range has claimed so far."""
        if start < end:
            self._put(start, _Part(end, (claim,)))

    def _put(self, start: bytes, part: _Part) -> None:
        self._parts[start] = part
        self._starts.add(start)
        if part.contested:
            self._contested.add(start)

    def _drop(self, start: bytes) -> None:
        del self._parts[start]
        self._starts.remove(start)
        self._contested.discard(start)

    def _change(self, start: bytes, part: _Part) -> None:
        self._moved |= bool(part.contested or self._parts[start].contested)
        self._parts[start] = part
        if part.contested:
            self._contested.add(start)
        else:
            self._contested.discard(start)
        if not part.claims:
            self._drop(start)

    def _unite(self, span: Span) -> None:
        """Join the parts in and beside ``span`` that touch and differ only in their keys."""
        if span.start >= span.end:
            return
        before = self._starts.below(span.start)
        inside = self._within(Span(span.start, span.end + b"\x00"))
        inside = inside if before is None else [before, *inside]
        for left, right in reversed(list(pairwise(inside))):
            part, behind = self._parts[left], self._parts[right]
            if part.end == right and part.like(behind):
                part.end = behind.end
                self._drop(right)

    # ---- what is held

    def _put_together(self) -> Iterator[Overlap]:
        held: Overlap | None = None
        for start in sorted(self._contested):
            part = self._parts[start]
            claims = tuple(self._claims[range_id] for range_id in sorted(part.contested))
            if held is not None and held.span.end == start and held.claims == claims:
                held = Overlap(Span(held.span.start, part.end), claims)
                continue
            if held is not None:
                yield held
            held = Overlap(Span(start, part.end), claims)
        if held is not None:
            yield held

    def _without_contested(self, report: PartitionProgress) -> PartitionProgress:
        starts: list[bytes] = []
        ends: list[bytes] = []
        resolved: list[ResolvedTimestamp] = []
        for start, end, at in zip(report.starts, report.ends, report.resolved, strict=True):
            for span in self._uncontested(Span(start, end)):
                starts.append(span.start)
                ends.append(span.end)
                resolved.append(at)
        return replace(report, range_ids=(), generations=(), starts=starts, ends=ends, resolved=resolved)

    def _uncontested(self, span: Span) -> Iterator[Span]:
        position = span.start
        for start in self._starts.around(span.start, span.end):
            held = Span(start, self._parts[start].end).intersect(span)
            if held is not None and start in self._contested:
                if position < held.start:
                    yield Span(position, held.start)
                position = held.end
        if position < span.end or span.start >= span.end:  # an inverted span stays: frontiers refuse it
            yield Span(position, span.end)


def _claimed(part: _Part, new: SpanClaim) -> _Part:
    """Return the part with a new claim of a range, or a claim in another generation."""
    others = tuple(claim for claim in part.claims if claim.range_id != new.range_id)
    rivals = {claim.range_id for claim in others if claim.generation == new.generation}
    known = [claim.generation for claim in others if claim.range_id in part.contested]
    if rivals or (known and new.generation >= min(known)):
        rivals.add(new.range_id)
    gone = _without(part, new.range_id)
    return replace(gone, claims=(*others, new), contested=part.contested.union(rivals))


def _left(part: _Part, range_id: RangeId) -> _Part:
    """Return the part without a range that has left its keys and has not ended."""
    rest = _without(part, range_id)
    if rest.contested == part.contested or len(rest.contested) > 1:
        return rest
    return replace(rest, until_ms=None) if rest.contested else _freed(rest)


def _ended(part: _Part, range_id: RangeId) -> _Part:
    """Return the part without a range that has ended."""
    rest = replace(_without(part, range_id), taken=part.taken)
    return _freed(rest) if range_id in part.contested and len(rest.contested) < 2 else rest


def _freed(part: _Part) -> _Part:
    """Return the part with its overlap ended, and its past forgotten."""
    return replace(part, taken=(), contested=frozenset(), until_ms=None)


def _without(part: _Part, range_id: RangeId) -> _Part:
    """Return the part without a range's claim. That claim still limits claims of lower generations."""
    claims = tuple(claim for claim in part.claims if claim.range_id != range_id)
    lowest = min((claim.generation for claim in claims), default=_NO_LIMIT)
    taken = dict(part.taken)
    for claim in part.claims:
        if claim.range_id == range_id:
            taken[claim.generation] = min(claim.taken_by, taken.get(claim.generation, claim.taken_by))
    limiting = tuple(sorted(each for each in taken.items() if each[0] > lowest))
    return replace(part, claims=claims, taken=limiting, contested=part.contested - {range_id})


def _generation(claim: SpanClaim) -> Generation:
    return claim.generation
