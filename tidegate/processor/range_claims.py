"""Which range has which keys, by what ranges say in their checkpoints; and where several have them at once.

A split or merge gives the keys that it moves a higher generation: both sides of a split have one more than
their parent, a merged range one more than the higher of its two (docs/log-contract.md). So of the ranges that
ever reported a key, generations tell in which order they had it, and a frontier may take the maximum of what
they say; unless two of them have the key *now*: rows of the slower one are then still to come below what the
faster one says. Such claims are told from the history of a key by two rules:

* Two ranges claim a key in the same generation. They cannot have had it one after the other.
* A range goes on after another of a higher generation has taken the key. What it resolved while it had the
  key was closed by then, so it is at or below the log's time at which the other's checkpoint was made,
  however late it is reported. A range that comes above that has it still.

An overlap ends when all of its ranges but one have ended. Higher generations do not end it, of its own ranges
or of others: keys of the slower one move as well, by splits and merges, and its rows are still to come. So a
range that takes the keys meanwhile joins, and one that has them no more, but has not ended, may have given
them to a range that is still to be heard of: until a claim comes that can be its claim, they are held too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

from tidegate.hlc import NANOS_PER_MS, ResolvedTimestamp
from tidegate.processor.checkpoint import PartitionReport
from tidegate.raftlog.entry import Generation, RangeId
from tidegate.sorted_keys import SortedKeys
from tidegate.spans import Span

#: How far a closed timestamp may be above the log's time of another partition. It is at most 2 s above its
#: record's (docs/log-contract.md), and clocks differ by half a second at most; the rest is to spare.
AHEAD_MS: Final = 3_000
_NO_LIMIT: Final = 1 << 63


class Claim(NamedTuple):
    """A range says that it has the keys of ``span``.

    ``taken_by`` is a wall time in nanoseconds: ranges that had the keys in lower generations resolved nothing
    above it.
    """

    range_id: RangeId
    generation: Generation
    span: Span
    taken_by: int


class Overlap(NamedTuple):
    """Keys that several ranges have at once, and those ranges in the order of their ids."""

    span: Span
    claims: tuple[Claim, ...]

    @property
    def range_ids(self) -> tuple[RangeId, ...]:
        """The ranges."""
        return tuple(claim.range_id for claim in self.claims)


class _Stake(NamedTuple):
    """A claim on a part of its keys; what it resolves up to ``limit`` (wall nanoseconds) may be history."""

    claim: Claim
    limit: int


@dataclass(slots=True)
class _Part:
    """Keys up to ``end`` that the same ranges claim; those in ``contested`` have them at once.

    ``awaited``: who had them went on without, and who has them now is in this generation or a higher one.
    """

    end: bytes
    stakes: tuple[_Stake, ...]
    contested: frozenset[RangeId] = frozenset()
    awaited: Generation | None = None

    @property
    def owner(self) -> _Stake:
        """The stake of the highest generation."""
        return max(self.stakes, key=_generation)

    def of(self, range_id: RangeId) -> _Stake | None:
        """The stake of a range."""
        return next((stake for stake in self.stakes if stake.claim.range_id == range_id), None)

    def like(self, other: _Part) -> bool:
        """Whether nothing but the keys differs."""
        return replace(self, end=other.end) == other


class RangeClaims:
    """The claims of all ranges whose checkpoints come to one place.

    Checkpoints of one log partition must come in their order, those of several may in any. Of a range that
    claims what it claimed before, and has no rival, nothing is looked at but that.
    """

    def __init__(self) -> None:
        self._claims: dict[RangeId, Claim] = {}
        #: The claims of ranges that have the highest generation on all of their keys.
        self._settled: dict[RangeId, tuple[Generation, bytes, bytes]] = {}
        self._parts: dict[bytes, _Part] = {}  # by their starts
        self._starts = SortedKeys()
        self._contested: set[bytes] = set()  # starts of parts
        self._moved = False  # what is contested, since ``overlaps`` were put together
        #: The keys that are held, in order.
        self.overlaps: tuple[Overlap, ...] = ()

    def count(self, reports: Iterable[PartitionReport]) -> list[PartitionReport]:
        """The reports, without what they say of keys that overlap when they come, or behind them."""
        taken = [report if self._is_settled(report) else self._taken(report) for report in reports]
        if self._moved:
            self.overlaps, self._moved = tuple(self._put_together()), False
        return [self._kept(report) for report in taken] if self._contested else taken

    def _is_settled(self, report: PartitionReport) -> bool:
        known = list(map(self._settled.get, report.range_ids))
        claims = list(zip(report.generations, report.starts, report.ends, strict=True))
        return not report.ended and known == claims

    def _taken(self, report: PartitionReport) -> PartitionReport:
        """The report, without what overlaps by now; an end that stands behind it may free these keys."""
        self._take(report)
        return self._without_contested(report) if self._contested else report

    def _kept(self, report: PartitionReport) -> PartitionReport:
        return report if report.range_ids and self._is_settled(report) else self._without_contested(report)

    def _take(self, report: PartitionReport) -> None:
        claims = zip(report.generations, report.starts, report.ends, strict=True)
        for range_id, claim, resolved in zip(report.range_ids, claims, report.resolved, strict=True):
            generation, start, end = claim
            if self._settled.get(range_id) != claim and start < end:
                self._claim(range_id, generation, Span(start, end), resolved, report.log_time_ms)
        for range_id in report.ended:  # behind the claims: keys of these ranges may be among them
            self._end(range_id)

    def _claim(
        self,
        range_id: RangeId,
        generation: Generation,
        span: Span,
        resolved: ResolvedTimestamp,
        log_time_ms: int,
    ) -> None:
        known = self._claims.get(range_id)
        if known is not None and generation < known.generation:
            return  # late, and said by itself
        if known is None or (generation, span) != known[1:3]:
            closed_by = (log_time_ms + AHEAD_MS) * NANOS_PER_MS if log_time_ms else _NO_LIMIT
            self._enter(Claim(range_id, generation, span, max(closed_by, resolved.wall)), known)
        self._look_at(range_id, span, resolved)

    # ---- claims that come, change and go

    def _enter(self, new: Claim, old: Claim | None) -> None:
        self._claims[new.range_id] = new
        if old is None and not self._reaches(new.span):
            self._track(*new.span, new)
            self._settle([new.range_id])
            return
        touched = {new.range_id}
        if old is not None:
            self._settled.pop(new.range_id, None)
            left = Span(old.span.start, min(old.span.end, new.span.start))
            touched |= self._leave(new.range_id, left, new.generation)
            left = Span(max(old.span.start, new.span.end), old.span.end)
            touched |= self._leave(new.range_id, left, new.generation)
        position = new.span.start
        for start in self._cut(new.span):
            self._track(position, start, new)
            part = self._parts[start]
            touched.update(stake.claim.range_id for stake in part.stakes)
            self._change(start, _claimed(part, new))
            position = part.end
        self._track(position, new.span.end, new)
        self._unite(new.span)
        self._settle(touched)

    def _end(self, range_id: RangeId) -> None:
        claim = self._claims.pop(range_id, None)
        if claim is not None:
            self._settled.pop(range_id, None)
            self._settle(self._leave(range_id, claim.span, None))

    def _leave(self, range_id: RangeId, span: Span, generation: Generation | None) -> set[RangeId]:
        """The range has these keys no more, since it has ended or is in another ``generation``.

        Returns the others that claim some of them.
        """
        touched: set[RangeId] = set()
        for start in self._cut(span):
            part = self._parts[start]
            rest = _left(part, range_id, generation)
            touched.update(stake.claim.range_id for stake in rest.stakes)
            self._change(start, rest)
        self._unite(span)
        return touched

    def _look_at(self, range_id: RangeId, span: Span, resolved: ResolvedTimestamp) -> None:
        """See whether the range is further than it could be where others have taken its keys."""
        touched: set[RangeId] = set()
        for start in self._within(span):
            part = self._parts[start]
            stake = part.of(range_id)
            if stake is not None and resolved.wall > stake.limit and range_id not in part.contested:
                rivals = {range_id, part.owner.claim.range_id}
                self._change(start, replace(part, contested=part.contested | rivals))
                touched |= rivals
        self._settle(touched)

    def _settle(self, range_ids: Iterable[RangeId]) -> None:
        """Work out whose claims need no look."""
        for range_id in range_ids:
            claim = self._claims.get(range_id)
            if claim is None:
                continue
            parts = (self._parts[start] for start in self._within(claim.span))
            if all(_is_undisputed(part, range_id) for part in parts):
                self._settled[range_id] = (claim.generation, *claim.span)
            else:
                self._settled.pop(range_id, None)

    # ---- parts

    def _within(self, span: Span) -> list[bytes]:
        """The starts of the parts of a span at whose ends others end."""
        return [start for start in self._starts.around(span.start, span.end) if start >= span.start]

    def _reaches(self, span: Span) -> bool:
        """Whether anybody claims keys of it."""
        starts = self._starts.around(span.start, span.end)
        return any(self._parts[start].end > span.start for start in starts)

    def _cut(self, span: Span) -> list[bytes]:
        """The same, once no part reaches over an end of ``span``; nothing for one without keys."""
        if span.start >= span.end:
            return []
        for at in span:
            for start in self._starts.around(at, at):
                part = self._parts[start]
                if at < part.end:
                    self._put(at, replace(part))
                    part.end = at
        return self._within(span)

    def _track(self, start: bytes, end: bytes, claim: Claim) -> None:
        """Keys that nobody has claimed so far."""
        if start < end:
            self._put(start, _Part(end, (_Stake(claim, _NO_LIMIT),)))

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
        if not part.stakes:
            self._drop(start)

    def _unite(self, span: Span) -> None:
        """One part of those at and in ``span`` that touch and say the same."""
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

    def _without_contested(self, report: PartitionReport) -> PartitionReport:
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
        if position < span.end or span.start >= span.end:  # frontiers refuse what is inverted
            yield Span(position, span.end)


def _claimed(part: _Part, new: Claim) -> _Part:
    """The part, which a range claims newly or in another generation."""
    old = part.of(new.range_id)
    others = tuple(stake for stake in part.stakes if stake is not old)
    highest = max((stake.claim.generation for stake in others), default=None)
    open_ended = replace(part, stakes=(*others, _Stake(new, _NO_LIMIT)))
    if highest is None or new.range_id in part.contested:
        return open_ended
    if part.awaited is not None and new.generation >= part.awaited:
        rivals = part.contested | {new.range_id}
        return replace(_taken(part, others, new), contested=_if_several(rivals), awaited=None)
    if new.generation > highest and not part.contested:
        return _taken(part, others, new)
    if new.generation >= highest:
        tops = [each.claim.range_id for each in others if each.claim.generation == highest]
        return replace(open_ended, contested=part.contested | {new.range_id, *tops})
    limit = min(each.claim.taken_by for each in others if each.claim.generation == highest)
    stake = _Stake(new, limit if old is None else min(limit, old.limit))
    return replace(part, stakes=(*others, stake))


def _taken(part: _Part, others: Iterable[_Stake], new: Claim) -> _Part:
    """The part, whose other ranges have resolved nothing as its owners that is above ``new.taken_by``."""
    limited = (_Stake(each.claim, min(each.limit, new.taken_by)) for each in others)
    return replace(part, stakes=(*limited, _Stake(new, _NO_LIMIT)))


def _left(part: _Part, range_id: RangeId, generation: Generation | None) -> _Part:
    """The part, which a range has no more: it has ended, or is in another ``generation``."""
    stakes = tuple(stake for stake in part.stakes if stake.claim.range_id != range_id)
    rest = replace(part, stakes=stakes, contested=part.contested - {range_id})
    if not stakes:
        return replace(rest, contested=frozenset())
    is_last_rival = range_id in part.contested and len(rest.contested) < 2
    if generation is not None:
        was_owner = not part.contested and part.owner.claim.range_id == range_id
        return replace(rest, awaited=generation) if is_last_rival or was_owner else rest
    if part.awaited is not None or (part.contested and not is_last_rival):
        return rest
    top = max(stakes, key=_generation)
    alone = rest.of(next(iter(rest.contested), top.claim.range_id))
    freed = (_Stake(each.claim, _NO_LIMIT) if each is alone else each for each in stakes)
    return replace(rest, stakes=tuple(freed), contested=frozenset())


def _if_several(rivals: frozenset[RangeId]) -> frozenset[RangeId]:
    return rivals if len(rivals) > 1 else frozenset()


def _is_undisputed(part: _Part, range_id: RangeId) -> bool:
    stake = part.of(range_id)
    return stake is not None and stake.limit == _NO_LIMIT and not part.contested


def _generation(stake: _Stake) -> Generation:
    return stake.claim.generation
