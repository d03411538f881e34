"""Finds overlaps: keys that several ranges have at the same time, by what their checkpoints say.

A split or merge gives the keys that it moves a higher generation: both sides of a split have one more than
their parent, and a merged range has one more than the higher of its two parents (docs/log-contract.md). So
generations tell in which order ranges had a key, and a frontier may take the highest timestamp that any of
them has resolved. That is wrong if two ranges have the key *now*: rows of the slower one are still to come
below what the faster one says. Two rules tell such an overlap from a key that had one range after the other:

* Two ranges claim a key in the same generation. They cannot have had it one after the other.
* A range goes on after another range, of a higher generation, has taken the key. What a range resolved while
  it had the key was closed by then. So it is at or below the log time of the other range's first checkpoint,
  however late it is reported. A range that resolves more than that still has the key.

An overlap ends when all of its ranges but one have ended. A higher generation does not end it: the slower
range's keys move too, by splits and merges, and its rows are still to come. So a range that takes the keys
meanwhile joins the overlap. A range that leaves the keys, and has not ended, may have given them to a range
that has not been heard of. So the keys are held for a while after only one range remains.

Claims are compared only where few ranges claim a key. Keys that more ranges claim are a crowd: they are held
until their claims are few again (``crowd.py``). So the cost of a checkpoint does not grow with the ranges
that claim its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Final, NamedTuple

from tidegate.hlc import NANOS_PER_MS, ResolvedTimestamp
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.processor.claimed_part import (
    HELD_MS,
    NO_LIMIT,
    ClaimedPart,
    PastClaim,
    SpanClaim,
    claimed,
    ended,
    fewer,
    left,
    limiting_of,
    looked_at,
    settled_alone,
    with_taken,
)
from tidegate.processor.crowd import SHOWN_MAX, Crowd, pieces_of
from tidegate.raftlog.entry import Generation, RangeId
from tidegate.sorted_keys import SortedKeys
from tidegate.spans import Span

__all__ = [
    "AHEAD_MS",
    "HELD_MS",
    "OVERLAPS_MAX",
    "SHOWN_MAX",
    "ClaimBounds",
    "Overlap",
    "RangeClaims",
    "SpanClaim",
]

#: How far a closed timestamp may be above the log time of another partition. It is at most 2 s above its
#: record's time (docs/log-contract.md), and clocks differ by half a second at most; the rest is a reserve.
AHEAD_MS: Final = 3_000
#: The most overlaps that are told. If there are more, those of the lowest keys are told.
OVERLAPS_MAX: Final = 100
#: The most pieces of held keys that are looked at to find these overlaps.
_HELD_SHOWN: Final = 1_000
#: A range that claims more parts than this is looked at when it reports, and not when one of its parts
#: changes.
_PARTS_OF_OTHERS: Final = 16


@dataclass(frozen=True, slots=True)
class ClaimBounds:
    """The bounds of the comparison. Keys beyond them are a crowd, or their past is kept in less detail.

    At most ``claims`` ranges claim a key, a range claims at most ``parts`` parts that have different claims,
    and at most ``taken`` ended claims are kept for a key.
    """

    claims: int = 16
    parts: int = 256
    taken: int = 16


class Overlap(NamedTuple):
    """Keys that several ranges have at the same time, and the claims of these ranges, by range id.

    At most `SHOWN_MAX` ranges are named. ``others`` is the number of the ranges that are not named.
    """

    span: Span
    claims: tuple[SpanClaim, ...]
    others: int = 0

    @property
    def range_ids(self) -> tuple[RangeId, ...]:
        """The ids of the ranges."""
        return tuple(claim.range_id for claim in self.claims)


class RangeClaims:
    """The claims of all ranges whose checkpoints are counted here.

    Checkpoints of one log partition must come in their order; those of different ones may come in any order.
    A range that claims what it claimed before, and has no rival, costs one comparison.
    """

    def __init__(self, bounds: ClaimBounds = ClaimBounds()) -> None:
        self._bounds = bounds
        self._claims: dict[RangeId, SpanClaim] = {}
        #: The claims that need no look: no range of a higher generation claims, or claimed, their keys, and
        #: these are in no overlap.
        self._settled: dict[RangeId, tuple[Generation, bytes, bytes]] = {}
        self._parts: dict[bytes, ClaimedPart] = {}  # each under its start
        self._starts = SortedKeys()
        self._crowds: dict[bytes, Crowd] = {}  # the same; no part has keys of a crowd
        self._crowd_starts = SortedKeys()
        self._touched: set[bytes] = set()  # the starts of crowds whose ranges have been heard of since
        self._held = SortedKeys()  # the starts of crowds, and of parts that are in an overlap
        self._moved = False  # whether held keys have changed since ``overlaps`` was put together
        #: The overlaps, in the order of their keys. Frontiers do not move on there. If there are more than
        #: `OVERLAPS_MAX`, only the first ones are told.
        self.overlaps: tuple[Overlap, ...] = ()

    def count(self, reports: Iterable[PartitionProgress]) -> list[PartitionProgress]:
        """Count the reports. Returns them without keys in overlaps.

        A key is left out if it overlaps when its report is counted, or once all reports are counted.
        """
        taken = [report if self._is_settled(report) else self._taken(report) for report in reports]
        self._disperse_some()
        if self._moved:
            self.overlaps, self._moved = tuple(islice(self._put_together(), OVERLAPS_MAX)), False
        return [self._kept(report) for report in taken] if self._held else taken

    def _is_settled(self, report: PartitionProgress) -> bool:
        known = list(map(self._settled.get, report.range_ids))
        claims = list(zip(report.generations, report.starts, report.ends, strict=True))
        return not report.ended and known == claims

    def _taken(self, report: PartitionProgress) -> PartitionProgress:
        """Count one report. Returns it without keys that overlap now: a later report may end the overlap."""
        self._apply_report(report)
        return self._without_contested(report) if self._held else report

    def _kept(self, report: PartitionProgress) -> PartitionProgress:
        return report if report.range_ids and self._is_settled(report) else self._without_contested(report)

    def _apply_report(self, report: PartitionProgress) -> None:
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
            closed_by = (now_ms + AHEAD_MS) * NANOS_PER_MS if now_ms else NO_LIMIT
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
            touched |= self._leave(new.range_id, Span(old.span.start, min(old.span.end, new.span.start)))
            touched |= self._leave(new.range_id, Span(max(old.span.start, new.span.end), old.span.end))
            self._move_in_crowds(old, new)
        for crowd in self._crowds_in(new.span):
            self._moved |= new.range_id not in crowd.ranges
            crowd.join([new.range_id])
        for span in [*self._outside_crowds(new.span)]:
            touched |= self._claim_keys(span, new)
        for range_id in touched:
            self._gather_if_wide(self._claims[range_id])
        self._settle(touched)

    def _claim_keys(self, span: Span, new: SpanClaim) -> set[RangeId]:
        """Take in a claim on keys that are in no crowd. Returns the ranges that claim some of these keys."""
        touched: set[RangeId] = set()
        crowded: list[Span] = []
        position = span.start
        for start in self._cut(span):
            self._track(position, start, new)
            part = self._parts[start]
            touched.update(claim.range_id for claim in part.claims)
            found = claimed(part, new, self._bounds.taken)
            self._change(start, found)
            if len(found.claims) > self._bounds.claims:
                crowded.append(Span(start, found.end))
            position = part.end
        self._track(position, span.end, new)
        for each in crowded:
            self._gather(each)
        self._unite(span)
        return touched

    def _end(self, range_id: RangeId) -> None:
        claim = self._claims.pop(range_id, None)
        if claim is not None:
            self._settled.pop(range_id, None)
            for crowd in self._crowds_in(claim.span):
                self._leave_crowd(crowd, range_id)
            self._settle(self._leave(range_id, claim.span, by_end=True))

    def _leave(self, range_id: RangeId, span: Span, *, by_end: bool = False) -> set[RangeId]:
        """Take a range out of the keys that it has left, or that it had at its end. Crowds stay as they are.

        Returns the other ranges that claim some of these keys.
        """
        touched: set[RangeId] = set()
        for free in [*self._outside_crowds(span)]:
            for start in self._cut(free):
                leaving = ended if by_end else left
                rest = leaving(self._parts[start], range_id, self._bounds.taken)
                touched.update(claim.range_id for claim in rest.claims)
                self._change(start, rest)
            self._unite(free)
        return touched

    def _look_at(self, claim: SpanClaim, resolved: ResolvedTimestamp, now_ms: int) -> None:
        """Find out whether a range has resolved more than it could after others took its keys.

        If it has, it overlaps with them. ``now_ms`` is the elapsed log time of its partition.
        """
        self._gather_if_wide(claim)  # parts out of a crowd may be many together with those beside it
        for crowd in self._crowds_in(claim.span):
            crowd.credit += 1
            self._touched.add(crowd.start)
        touched = {claim.range_id}
        for start in self._within(claim.span):
            part = self._parts[start]
            found = looked_at(part, claim, resolved.wall, now_ms)
            if found is not part:
                self._change(start, found)
                touched.update(each.range_id for each in part.claims)
        self._settle(touched, claim.range_id)

    def _settle(self, range_ids: Iterable[RangeId], reporting: RangeId | None = None) -> None:
        """Note for each of these ranges whether the same claim needs no check when it comes again.

        A range with very many parts needs the check each time, unless it is the one that is ``reporting``:
        then all of its parts were looked at anyway.
        """
        for range_id in range_ids:
            claim = self._claims.get(range_id)
            if claim is None:
                continue
            most = self._bounds.parts if range_id == reporting else _PARTS_OF_OTHERS
            if self._is_clear(claim, most):
                self._settled[range_id] = (claim.generation, *claim.span)
            else:
                self._settled.pop(range_id, None)

    def _is_clear(self, claim: SpanClaim, most: int) -> bool:
        if self._crowds_in(claim.span):
            return False
        starts = self._within(claim.span)
        parts = (self._parts[start] for start in starts)
        return len(starts) <= most and all(
            not part.contested and part.limit(claim.generation) == NO_LIMIT for part in parts
        )

    # ---- crowds

    def _crowds_in(self, span: Span) -> list[Crowd]:
        if not self._crowds:
            return []
        crowds = (self._crowds[start] for start in self._crowd_starts.around(span.start, span.end))
        return [crowd for crowd in crowds if crowd.end > span.start]

    def _outside_crowds(self, span: Span) -> Iterator[Span]:
        position = span.start
        for crowd in self._crowds_in(span):
            if position < crowd.start:
                yield Span(position, crowd.start)
            position = crowd.end
        if position < span.end:
            yield Span(position, span.end)

    def _move_in_crowds(self, old: SpanClaim, new: SpanClaim) -> None:
        """Note for each crowd of a range that the range's claim has changed: the range may have left keys."""
        for crowd in self._crowds_in(old.span):
            had = old.span.intersect(crowd.span)
            has = new.span.intersect(crowd.span)
            stale = bool(limiting_of(crowd.taken, old.generation))
            crowd.taken = fewer(with_taken(crowd.taken, old), self._bounds.taken)
            if had is not None and (has is None or has.intersect(had) != had):
                crowd.left = True
            crowd.left |= stale
            if has is None:
                self._leave_crowd(crowd, new.range_id)
            crowd.gone = True
            self._touched.add(crowd.start)
            self._moved |= new.generation != old.generation

    def _leave_crowd(self, crowd: Crowd, range_id: RangeId) -> None:
        crowd.leave(range_id)
        self._touched.add(crowd.start)
        self._moved = True

    def _gather(self, span: Span) -> None:
        """Make one crowd of the keys of ``span``, and of the crowds that it touches."""
        around = Span(span.start, span.end + b"\x00")
        near = self._crowd_starts.around(*around)
        crowds = [self._crowds[start] for start in near if self._crowds[start].end >= span.start]
        parts = [start for free in [*self._outside_crowds(span)] for start in self._within(free)]
        crowd = max(crowds, key=_size, default=Crowd(span.start, span.end))
        # Parts that differ only in their past become one when the crowd is looked at.
        found = [self._parts[start] for start in parts]
        crowd.gone |= any(set(part.claims) == set(other.claims) for part, other in pairwise(found))
        for each in crowds:
            self._drop_crowd(each)
            if each is not crowd:
                self._absorb(crowd, each.ranges, each.taken, since_left=each.left)
                crowd.credit, crowd.gone = crowd.credit + each.credit, crowd.gone or each.gone
        for start in parts:
            part = self._parts[start]
            ids = [claim.range_id for claim in part.claims]
            self._absorb(crowd, ids, part.taken, since_left=part.left or len(part.contested) == 1)
            for range_id in ids:
                self._settled.pop(range_id, None)
            self._drop(start)
        crowd.start = min([span.start, *(each.start for each in crowds)])
        crowd.end = max([span.end, *(each.end for each in crowds)])
        self._put_crowd(crowd)

    def _gather_if_wide(self, claim: SpanClaim) -> None:
        """Make one crowd of all keys of a range that claims more parts than are compared."""
        if len(self._within(claim.span)) + len(self._crowds_in(claim.span)) > self._bounds.parts:
            self._gather(claim.span)

    def _absorb(
        self, crowd: Crowd, range_ids: Iterable[RangeId], taken: tuple[PastClaim, ...], *, since_left: bool
    ) -> None:
        crowd.join(range_ids)
        crowd.taken = fewer({*crowd.taken, *taken}, self._bounds.taken) if taken else crowd.taken
        crowd.left |= since_left

    def _disperse_some(self) -> None:
        """Look at the crowds whose ranges have reported or gone, if their credit pays for the look."""
        touched, self._touched = self._touched, set()
        for start in touched:
            crowd = self._crowds.get(start)  # another crowd may have taken it in since
            if crowd is not None and crowd.is_due:
                self._disperse(crowd)

    def _disperse(self, crowd: Crowd) -> None:
        """Make parts of those keys of a crowd that only a few ranges claim now."""
        crowd.credit, crowd.gone = 0, False
        claims = [self._claims[range_id] for range_id in crowd.ranges]
        pieces = pieces_of(crowd.span, claims, self._bounds.claims, self._bounds.parts)
        if [piece.claims for piece in pieces] == [None] and pieces[0][:2] == crowd.span:
            return
        self._drop_crowd(crowd)
        for start, end, few in pieces:
            if few is None:
                self._put_crowd(Crowd(start, end, taken=crowd.taken, left=crowd.left))
            else:
                self._put(start, _dispersed(end, few, crowd))
        for claim in claims:
            for smaller in self._crowds_in(claim.span):
                smaller.join([claim.range_id])
        self._unite(crowd.span)
        for claim in claims:
            self._gather_if_wide(claim)
        self._settle(crowd.ranges)

    def _put_crowd(self, crowd: Crowd) -> None:
        self._crowds[crowd.start] = crowd
        self._crowd_starts.add(crowd.start)
        self._held.add(crowd.start)
        self._moved = True

    def _drop_crowd(self, crowd: Crowd) -> None:
        del self._crowds[crowd.start]
        self._crowd_starts.remove(crowd.start)
        self._held.remove(crowd.start)
        self._touched.discard(crowd.start)
        self._moved = True

    # ---- parts

    def _within(self, span: Span) -> list[bytes]:
        """Return the starts of the parts in a span. No part may reach beyond the ends of the span."""
        starts = self._starts.around(span.start, span.end)
        return starts[1:] if starts and starts[0] < span.start else starts

    def _reaches(self, span: Span) -> bool:
        """Whether any range claims keys of a span."""
        starts = self._starts.around(span.start, span.end)
        return any(self._parts[start].end > span.start for start in starts) or bool(self._crowds_in(span))

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
            self._put(start, ClaimedPart(end, (claim,)))

    def _put(self, start: bytes, part: ClaimedPart) -> None:
        self._parts[start] = part
        self._starts.add(start)
        if part.contested:
            self._held.add(start)

    def _drop(self, start: bytes) -> None:
        if self._parts.pop(start).contested:
            self._held.remove(start)
        self._starts.remove(start)

    def _change(self, start: bytes, part: ClaimedPart) -> None:
        was = self._parts[start].contested
        self._moved |= bool(part.contested or was)
        self._parts[start] = part
        if part.contested and not was:
            self._held.add(start)
        elif was and not part.contested:
            self._held.remove(start)
        if not part.claims:
            self._drop(start)

    def _unite(self, span: Span) -> None:
        """Join the parts in and beside ``span`` that touch and differ only in their keys."""
        if span.start >= span.end:
            return
        before = self._starts.below(span.start)
        inside = self._within(Span(span.start, span.end + b"\x00"))
        inside = inside if before is None else [before, *inside]
        for left_start, right in reversed(list(pairwise(inside))):
            part, behind = self._parts[left_start], self._parts[right]
            if part.end == right and part.like(behind):
                part.end = behind.end
                self._drop(right)

    # ---- what is held

    def _put_together(self) -> Iterator[Overlap]:
        found: Overlap | None = None
        for start in islice(self._held, _HELD_SHOWN):
            part = self._parts.get(start) or self._crowds[start]
            shown = part.shown() if isinstance(part, Crowd) else sorted(part.contested)
            others = len(part.ranges) - len(shown) if isinstance(part, Crowd) else 0
            claims = tuple(self._claims[range_id] for range_id in shown)
            if found is not None and found.span.end == start and found[1:] == (claims, others):
                found = found._replace(span=Span(found.span.start, part.end))
                continue
            if found is not None:
                yield found
            found = Overlap(Span(start, part.end), claims, others)
        if found is not None:
            yield found

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
        for start in self._held.around(span.start, span.end):
            held = Span(start, (self._parts.get(start) or self._crowds[start]).end).intersect(span)
            if held is not None:
                if position < held.start:
                    yield Span(position, held.start)
                position = held.end
        if position < span.end or span.start >= span.end:  # an inverted span stays: frontiers refuse it
            yield Span(position, span.end)


def _dispersed(end: bytes, claims: tuple[SpanClaim, ...], crowd: Crowd) -> ClaimedPart:
    """Return a part for keys of a crowd that only a few ranges claim now: all of these have the keys."""
    lowest = min(claim.generation for claim in claims)
    taken = limiting_of(crowd.taken, lowest)
    contested = frozenset(claim.range_id for claim in claims)
    part = ClaimedPart(end, claims, taken, contested, rough=True, left=crowd.left)
    return settled_alone(part) if len(claims) == 1 else part


def _size(crowd: Crowd) -> int:
    return len(crowd.ranges)
