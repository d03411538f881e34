"""Crowds: keys that are claimed by too many ranges to compare these with each other.

All keys of a crowd are held, whichever of its ranges claim them. A report of one range costs the same,
however many ranges the crowd has. When enough ranges have ended or left, ``pieces_of`` finds the keys that
few ranges claim.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from tidegate.processor.claimed_part import PastClaim, SpanClaim
from tidegate.raftlog.entry import RangeId
from tidegate.spans import Span

#: The most ranges of an overlap that are told by their ids.
SHOWN_MAX: Final = 16
#: A range that ends or leaves pays for a look at this many claims. A report pays for a look at one.
GONE_CREDIT: Final = 4


@dataclass(slots=True)
class Crowd:
    """A crowd from ``start`` to ``end``. Each of its ``ranges`` claims some of these keys.

    ``taken`` and ``left`` mean the same as in a ``ClaimedPart``, for any of the keys. A look at all claims is
    paid for by ``credit``, and is worth it once one of the ranges has ``gone``.
    """

    start: bytes
    end: bytes
    ranges: set[RangeId] = field(default_factory=set)
    taken: tuple[PastClaim, ...] = ()
    left: bool = False
    credit: int = 0
    gone: bool = False
    _shown: list[RangeId] = field(default_factory=list)

    @property
    def span(self) -> Span:
        """The keys that the crowd's ranges claim."""
        return Span(self.start, self.end)

    def join(self, range_ids: Iterable[RangeId]) -> None:
        """Add ranges."""
        self.ranges.update(range_ids)

    def leave(self, range_id: RangeId) -> None:
        """Take a range out, if it is in."""
        self.ranges.discard(range_id)
        self.gone, self.credit = True, self.credit + GONE_CREDIT

    def shown(self) -> list[RangeId]:
        """Return the ids of a few of the ranges, in order: those that were the lowest at the last look."""
        known = [range_id for range_id in self._shown if range_id in self.ranges]
        if len(known) < min(len(self.ranges), SHOWN_MAX // 2):
            known = nsmallest(SHOWN_MAX, self.ranges)
        self._shown = known
        return known

    @property
    def is_due(self) -> bool:
        """Whether to look for keys that are not crowded any more."""
        return self.gone and self.credit >= len(self.ranges)


class Piece(NamedTuple):
    """Keys from ``start`` to ``end``, and the ``claims`` on them; ``None`` stands for too many claims."""

    start: bytes
    end: bytes
    claims: tuple[SpanClaim, ...] | None


def pieces_of(span: Span, claims: Iterable[SpanClaim], claims_max: int, parts_max: int) -> list[Piece]:
    """Return the pieces of ``span``, in order: all keys of a piece are claimed by the same ranges.

    A piece is crowded if more than ``claims_max`` ranges claim it, or if one of its ranges claims more than
    ``parts_max`` pieces. Crowded pieces that touch are one. Keys that nobody claims are in none.
    """
    clipped = [(claim, within) for claim in claims if (within := claim.span.intersect(span)) is not None]
    bounds = sorted({key for _, within in clipped for key in within})
    pieces = list(_cut_at(bounds, clipped, claims_max))
    starts = [piece.start for piece in pieces]
    depths = [0] * (len(pieces) + 1)
    for _, within in clipped:
        first, behind = bisect_left(starts, within.start), bisect_left(starts, within.end)
        if behind - first > parts_max:
            depths[first] += 1
            depths[behind] -= 1
    crowded = [depth > 0 for depth in accumulate(depths)]
    return _joined(
        piece._replace(claims=None) if many else piece
        for piece, many in zip(pieces, crowded[: len(pieces)], strict=True)
    )


def _cut_at(bounds: list[bytes], clipped: list[tuple[SpanClaim, Span]], claims_max: int) -> Iterator[Piece]:
    begins: dict[bytes, list[SpanClaim]] = {}
    ends: dict[bytes, list[RangeId]] = {}
    for claim, (start, end) in clipped:
        begins.setdefault(start, []).append(claim)
        ends.setdefault(end, []).append(claim.range_id)
    present: dict[RangeId, SpanClaim] = {}
    for start, end in pairwise(bounds):
        for range_id in ends.get(start, ()):
            del present[range_id]
        present.update((claim.range_id, claim) for claim in begins.get(start, ()))
        if present:
            yield Piece(start, end, tuple(present.values()) if len(present) <= claims_max else None)


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if last is not None and last.claims is None and piece.claims is None and last.end == piece.start:
            found[-1] = last._replace(end=piece.end)
        else:
            found.append(piece)
    return found
