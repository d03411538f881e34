"""The messages between ranges when keys move from one to another (docs/protocols/hand-off.md).

A child *claims* from each parent, up to the parent's last index that counts for it. The parent *hands off*
when every row up to that index is acknowledged. If the index is in a hole the parent says how far it is
complete.
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

    ``child``, which has ``span``, goes on where the rows of ``parent`` up to ``last_index`` end. ``told_ms``
    is the log time at which the child claimed, 0 where it is not known: the parent's entries up to
    ``last_index`` were written before it. Claims that differ only in ``told_ms`` are equal.
    """

    child: RangeId
    parent: RangeId
    last_index: RaftIndex
    span: Span
    told_ms: int = field(default=0, compare=False)

    def told_first(self, before: Iterable[Claim]) -> Claim:
        """Return this claim, with the earliest time that it, or an equal claim of ``before``, has told."""
        times = [each.told_ms for each in (self, *before) if each == self and each.told_ms]
        return replace(self, told_ms=min(times, default=0))


class HandOff(NamedTuple):
    """The answer of a parent to a claim.

    ``span`` is the parent's span at the claim's index, ``None`` if it is not known, and ``resolved`` is what
    it had resolved. A hand-off that is not ``complete`` comes out of a hole: rows of ``span`` above
    ``resolved`` may be missing, and all rows of other keys. The child has to scan for them.

    ``told_gaps`` has the gaps of feeds there, also of feeds that have failed there. A feed that can miss
    versions and is not named was not active there. ``None`` means that nobody knows the gaps.
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
    """Entries of a range that were not applied: those at indexes above ``before`` up to ``last_index``.

    The keys of ``span``, which the range had before, are complete up to ``resolved``, except for the gaps of
    feeds in ``told_gaps``. ``None`` means that the span, or the gaps, are not known.
    """

    before: RaftIndex
    last_index: RaftIndex
    span: Span | None
    resolved: ResolvedTimestamp
    told_gaps: tuple[ToldGaps, ...] | None = None


def bounded(holes: list[Hole]) -> list[Hole]:
    """Return the holes. If there are more than ``_HOLES_MAX`` the first two become one unknown hole."""
    if len(holes) <= _HOLES_MAX:
        return holes
    first, second, *rest = holes
    return [Hole(first.before, second.last_index, None, ZERO_RESOLVED), *rest]


class Promise(NamedTuple):
    """A note of a range, at index ``at``, where its span was about to change.

    It has the span, what the range had resolved, and the gaps of feeds there (``told_gaps``). ``None`` means
    that the span, or the gaps, are not known. ``closed_wall`` is the wall part, in nanoseconds, of the
    range's closed timestamp then.
    """

    at: RaftIndex
    resolved: ResolvedTimestamp
    span: Span | None
    told_gaps: tuple[ToldGaps, ...] | None = None
    closed_wall: int = 0
