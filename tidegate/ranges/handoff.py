"""The messages between ranges when keys move from one to another (docs/protocols/hand-off.md).

A child *claims* from each parent, up to the last index of the parent that counts for the child. The parent
*hands off* when every row up to that index is acknowledged. If the index is in a hole, the parent says up to
which timestamp it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from tidegate.hlc import ZERO_RESOLVED, ResolvedTimestamp
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.gap import ToldGaps
from tidegate.spans import Span

_HOLES_MAX: Final = 64


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """A child's request for a hand-off.

    ``child``, which has ``span``, goes on after the rows of ``parent`` up to ``last_index``. ``told_ms`` is
    the log time at which the child claimed; it is 0 if that time is not known. The parent's entries up to
    ``last_index`` were written before that time. Claims that differ only in ``told_ms`` are equal.
    """

    child: RangeId
    parent: RangeId
    last_index: RaftIndex
    span: Span
    told_ms: int = field(default=0, compare=False)

    def told_first(self, before: Iterable[Claim]) -> Claim:
        """Return this claim with the earliest ``told_ms`` of itself and of the equal claims in ``before``."""
        times = [each.told_ms for each in (self, *before) if each == self and each.told_ms]
        return replace(self, told_ms=min(times, default=0))


class HandOff(NamedTuple):
    """The answer of a parent to a claim.

    ``span`` is the parent's span at the claim's index; it is ``None`` if it is not known. ``resolved`` is the
    timestamp that the parent had resolved. A hand-off that is not ``complete`` comes out of a hole: rows of
    ``span`` above ``resolved`` may be missing, and so may all rows of other keys. The child has to scan for
    them.

    ``told_gaps`` has the gaps that feeds have in the parent, even feeds that have failed there. A feed that
    can miss versions and is not named was not active there. ``None`` means that the gaps are not known.
    """

    claim: Claim
    resolved: ResolvedTimestamp
    complete: bool
    span: Span | None = None
    told_gaps: tuple[ToldGaps, ...] | None = None


Exchange: TypeAlias = Claim | HandOff


def receiver_of(message: Exchange) -> RangeId:
    """Return the range that a message is for."""
    return message.parent if isinstance(message, Claim) else message.claim.child


class Hole(NamedTuple):
    """Entries that a range has not applied: those at indexes above ``before``, up to ``last_index``.

    The keys of ``span``, which the range had before, are complete up to ``resolved``, except for the gaps of
    feeds in ``told_gaps``. ``None`` means that the span, or the gaps, are not known.
    """

    before: RaftIndex
    last_index: RaftIndex
    span: Span | None
    resolved: ResolvedTimestamp
    told_gaps: tuple[ToldGaps, ...] | None = None


def bounded(holes: list[Hole]) -> list[Hole]:
    """Return the holes. If there are more than ``_HOLES_MAX``, the first two become one hole whose span and
    gaps are not known.
    """
    if len(holes) <= _HOLES_MAX:
        return holes
    first, second, *rest = holes
    return [Hole(first.before, second.last_index, None, ZERO_RESOLVED), *rest]


class Promise(NamedTuple):
    """A note of a range, at index ``at``, where its span was about to change.

    It has the span, the timestamp that the range had resolved, and the gaps of feeds in the range
    (``told_gaps``). ``None`` means that the span, or the gaps, are not known. ``closed_wall`` is the wall
    part, in nanoseconds, of the closed timestamp that the range had at that index.
    """

    at: RaftIndex
    resolved: ResolvedTimestamp
    span: Span | None
    told_gaps: tuple[ToldGaps, ...] | None = None
    closed_wall: int = 0
