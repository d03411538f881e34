"""Parts: keys that the same ranges claim. Several of these ranges may have the keys at the same time.

``RangeClaims`` keeps such parts. The functions here work out what a claim, an end or a report changes in a
part, by the rules V1 to V6 of docs/protocols/overlaps.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

from tidegate.hlc import NANOS_PER_MS
from tidegate.raftlog.entry import Generation, RangeId
from tidegate.spans import Span

#: The time for which keys of an overlap are held when only one of its ranges remains, in elapsed log time of
#: that range's partition. The other range may have given the keys to a range that is parked. That range waits
#: until 600 s have elapsed in its parents' partitions (docs/protocols/hand-off.md, steps G1 to G4); if it
#: waits longer, that is a known limit of V5.
HELD_MS: Final = 900_000
NO_LIMIT: Final = 1 << 63
#: Past claims of one generation are kept as one, unless their times are farther from each other than this.
_APART_NS: Final = HELD_MS * NANOS_PER_MS


class SpanClaim(NamedTuple):
    """The statement of a range that it has the keys of ``span``.

    The range had taken the keys by the wall time ``taken_by`` (in nanoseconds), at the latest. Ranges that
    had the keys in lower generations resolved nothing above this time.
    """

    range_id: RangeId
    generation: Generation
    span: Span
    taken_by: int


class PastClaim(NamedTuple):
    """A claim that is over: in ``generation`` some range had the keys by the wall time ``first``.

    Several such claims may be kept as one, with their highest generation, and their first and last time.
    """

    generation: int
    first: int
    last: int


@dataclass(slots=True)
class ClaimedPart:
    """Keys up to ``end`` that the same ranges claim. The ranges in ``contested`` have them at the same time.

    ``taken`` has the past claims whose generation is above that of a present claim. If ``contested`` has only
    one range, the keys are held until ``until_ms`` of the elapsed log time of its partition. ``until_ms`` is
    set at the range's next checkpoint.

    A part is ``rough`` if ``taken`` may limit more than the true past claims did. Then the part can be
    contested though its keys are in no overlap. So all its ranges count as contested, and nothing in
    ``taken`` is forgotten before the range that remains has passed it. ``left`` says whether a range that has
    not ended may have left these keys.
    """

    end: bytes
    claims: tuple[SpanClaim, ...]
    taken: tuple[PastClaim, ...] = ()
    contested: frozenset[RangeId] = frozenset()
    until_ms: int | None = None
    rough: bool = False
    left: bool = False

    def limit(self, generation: Generation) -> int:
        """Return the highest wall time, in nanoseconds, that an owner in a generation may have resolved."""
        limit = NO_LIMIT
        for claim in self.claims:
            if claim.generation > generation and claim.taken_by < limit:
                limit = claim.taken_by
        for taken in self.taken:
            if taken.generation > generation and taken.first < limit:
                limit = taken.first
        return limit

    def like(self, other: ClaimedPart) -> bool:
        """Whether two parts differ only in their keys."""
        return self.claims == other.claims and replace(self, end=other.end) == other


def claimed(part: ClaimedPart, new: SpanClaim, taken_max: int) -> ClaimedPart:
    """Return the part with a new claim of a range, or a claim in another generation."""
    others = tuple(claim for claim in part.claims if claim.range_id != new.range_id)
    rivals = {claim.range_id for claim in others if claim.generation == new.generation}
    known = [claim.generation for claim in others if claim.range_id in part.contested]
    if rivals or (known and new.generation >= min(known)):
        rivals.add(new.range_id)
    gone = _without(part, new.range_id, taken_max)
    if gone.rough:
        gone = _rough_without(gone, part, new)
    return _all_of_rough(replace(gone, claims=(*others, new), contested=part.contested.union(rivals)))


def left(part: ClaimedPart, range_id: RangeId, taken_max: int) -> ClaimedPart:
    """Return the part without a range that has left its keys and has not ended."""
    rest = _all_of_rough(_without(part, range_id, taken_max))
    if rest.rough and rest.contested:
        return replace(rest, left=True, until_ms=None)
    if rest.contested == part.contested or len(rest.contested) > 1:
        return rest
    return replace(rest, until_ms=None) if rest.contested else freed(rest)


def ended(part: ClaimedPart, range_id: RangeId, taken_max: int) -> ClaimedPart:
    """Return the part without a range that has ended."""
    rest = replace(_without(part, range_id, taken_max), taken=part.taken, rough=part.rough, left=part.left)
    if range_id not in part.contested or len(rest.contested) > 1:
        return rest
    return settled_alone(rest) if rest.rough and rest.contested else freed(rest)


def settled_alone(part: ClaimedPart) -> ClaimedPart:
    """Return a rough part in which one range remains.

    The part is held if past claims limit that range, or if ``left`` is set. Otherwise it is free.
    """
    (claim,) = part.claims
    limiting = limiting_of(part.taken, claim.generation)
    if not limiting and not part.left:
        return ClaimedPart(part.end, part.claims)
    return replace(part, taken=limiting, until_ms=None)


def looked_at(part: ClaimedPart, claim: SpanClaim, resolved_wall: int, now_ms: int) -> ClaimedPart:
    """Return the part once a range in it has told how far it has resolved.

    If the range has resolved more than it could after others took the keys, it overlaps with them. ``now_ms``
    is the elapsed log time of the range's partition.
    """
    if part.contested == {claim.range_id}:
        if part.rough and len(part.claims) == 1:
            return _alone(part, claim, resolved_wall, now_ms)
        if part.until_ms is None:
            return replace(part, until_ms=now_ms + HELD_MS)
        return freed(part) if now_ms > part.until_ms else part
    if claim.range_id not in part.contested and resolved_wall > part.limit(claim.generation):
        rivals = part.contested or frozenset((max(part.claims, key=_generation).range_id,))
        found = replace(part, contested=rivals | {claim.range_id}, until_ms=None)
        return _passed(_all_of_rough(found), claim, resolved_wall)
    return part


def freed(part: ClaimedPart) -> ClaimedPart:
    """Return the part with its overlap ended. Its past claims are forgotten, unless the part is rough."""
    kept = part.taken if part.rough else ()
    return replace(part, taken=kept, contested=frozenset(), until_ms=None, rough=bool(kept), left=False)


def limiting_of(taken: Iterable[PastClaim], generation: int) -> tuple[PastClaim, ...]:
    """Return those of the claims that limit a claim in a generation."""
    return tuple(each for each in taken if each.generation > generation)


def fewer(taken: Iterable[PastClaim], most: int) -> tuple[PastClaim, ...]:
    """Return at most ``most`` claims, which limit at least as much: claims nearest in time become one."""
    kept = sorted(taken, key=_first)
    while len(kept) > most:
        gaps = [right.last - left.first for left, right in pairwise(kept)]
        at = gaps.index(min(gaps))
        one, other = kept[at : at + 2]
        both = PastClaim(max(one.generation, other.generation), one.first, max(one.last, other.last))
        kept[at : at + 2] = [both]
    return tuple(sorted(kept))


def _alone(part: ClaimedPart, claim: SpanClaim, resolved_wall: int, now_ms: int) -> ClaimedPart:
    """Return a rough part whose only range has told how far it has resolved.

    Each claim of ``taken`` that it passes may have made it overlap just now, so the wait begins anew.
    """
    passed = _passed(part, claim, resolved_wall)
    if passed is not part:
        return passed
    if any(each.first < resolved_wall for each in part.taken):
        return part  # it may have passed some of the claims that are kept as one, and will pass the others
    if not part.left or (part.until_ms is not None and now_ms > part.until_ms):
        return freed(part)
    return part if part.until_ms is not None else replace(part, until_ms=now_ms + HELD_MS)


def _passed(part: ClaimedPart, claim: SpanClaim, resolved_wall: int) -> ClaimedPart:
    """Return the part. If it is rough and has one range, the limits that this range has passed are gone."""
    if not part.rough or len(part.claims) > 1:
        return part
    limiting = limiting_of(part.taken, claim.generation)
    ahead = tuple(each for each in limiting if each.last >= resolved_wall)
    if ahead == part.taken:
        return part
    if ahead == limiting:
        return replace(part, taken=ahead)
    return replace(part, taken=ahead, until_ms=None, left=True)


def _all_of_rough(part: ClaimedPart) -> ClaimedPart:
    if not part.rough or not part.contested:
        return part
    return replace(part, contested=frozenset(claim.range_id for claim in part.claims))


def _without(part: ClaimedPart, range_id: RangeId, taken_max: int) -> ClaimedPart:
    """Return the part without a range's claim. That claim still limits claims of lower generations."""
    claims = tuple(claim for claim in part.claims if claim.range_id != range_id)
    lowest = min((claim.generation for claim in claims), default=NO_LIMIT)
    taken = part.taken
    for claim in part.claims:
        if claim.range_id == range_id:
            taken = with_taken(taken, claim)
    limiting, rough, since = limiting_of(taken, lowest), part.rough, part.left
    contested = part.contested - {range_id}
    if len(limiting) > taken_max:
        since = since or len(part.contested) == 1
        limiting, rough = fewer(limiting, taken_max), True
    return replace(part, claims=claims, taken=limiting, contested=contested, rough=rough, left=since)


def _rough_without(gone: ClaimedPart, part: ClaimedPart, new: SpanClaim) -> ClaimedPart:
    """Return a rough part without the claim of a range that claims anew.

    If past claims limited the old claim, the range may have resolved more than they allow. Its new claim does
    not undo that.
    """
    old = next((claim for claim in part.claims if claim.range_id == new.range_id), None)
    stale = old is not None and bool(limiting_of(part.taken, old.generation))
    taken = gone.taken if gone.claims else limiting_of(part.taken, new.generation)
    since = gone.left or (stale and bool(part.contested))
    return replace(gone, taken=taken, left=since, rough=bool(taken or part.contested or gone.claims))


def with_taken(taken: tuple[PastClaim, ...], claim: SpanClaim) -> tuple[PastClaim, ...]:
    """Return the claims that are over with one more.

    Claims of one generation are kept as one, unless they are far apart in time. A range whose resolved
    timestamp is between the first and the last time has to wait, and one wrong clock would put a year between
    them.
    """
    generation, by = claim.generation, claim.taken_by
    if by >= NO_LIMIT:
        return taken
    same = [
        each
        for each in taken
        if each.generation == generation and each.first - _APART_NS <= by <= each.last + _APART_NS
    ]
    first, last = min([by, *(each.first for each in same)]), max([by, *(each.last for each in same)])
    others = (each for each in taken if each not in same)
    return tuple(sorted([*others, PastClaim(generation, first, last)]))


def _generation(claim: SpanClaim) -> Generation:
    return claim.generation


def _first(taken: PastClaim) -> int:
    return taken.first
