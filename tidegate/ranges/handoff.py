"""What ranges say to each other when rows of a key move from one to another (docs/ranges.md#hand-off).

A range that came from others *claims* each of them up to the last index that counts; the parent *hands off*
once every row up to there is acknowledged, or says how far it is complete when a hole lies before that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from tidegate.hlc import ZERO_RESOLVED, ResolvedTimestamp
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.gap import Lag
from tidegate.spans import Span

_HOLES_MAX: Final = 64


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """``child``, which has ``span``, goes on where the rows of ``parent`` up to ``last_index`` end.

    ``told_ms`` is log time when the child claimed, 0 where that is not known: what counts for ``parent`` was
    written before. Two claims that differ in nothing else are the same.
    """

    child: RangeId
    parent: RangeId
    last_index: RaftIndex
    span: Span
    told_ms: int = field(default=0, compare=False)

    def told_first(self, before: Iterable[Claim]) -> Claim:
        """This claim, with the earliest time that it or an equal one of ``before`` has told."""
        times = [each.told_ms for each in (self, *before) if each == self and each.told_ms]
        return replace(self, told_ms=min(times, default=0))


class HandOff(NamedTuple):
    """The answer. ``resolved`` is what the parent had promised for ``span``, the keys that it had then.

    A hand-off that is not ``complete`` comes out of a hole: rows of ``span`` above ``resolved`` may be
    missing, and all of other keys; the child has to scan for them. ``lags`` says what feeds lacked, those
    included that have failed there; a feed that can lag and that it does not name was not active there.
    ``None``: nobody knows.
    """

    claim: Claim
    resolved: ResolvedTimestamp
    complete: bool
    span: Span | None = None
    lags: tuple[Lag, ...] | None = None


Exchange: TypeAlias = Claim | HandOff


def receiver_of(message: Exchange) -> RangeId:
    """The range that a message is for."""
    return message.parent if isinstance(message, Claim) else message.claim.child


class Hole(NamedTuple):
    """Indexes above ``before`` up to ``last_index`` were not applied.

    The keys of ``span``, which the range had before, are complete up to ``resolved``, but for ``lags``.
    """

    before: RaftIndex
    last_index: RaftIndex
    span: Span | None
    resolved: ResolvedTimestamp
    lags: tuple[Lag, ...] | None = None


def bounded(holes: list[Hole]) -> list[Hole]:
    """The holes, of very many the first two as one about which nothing is known."""
    if len(holes) <= _HOLES_MAX:
        return holes
    first, second, *rest = holes
    return [Hole(first.before, second.last_index, None, ZERO_RESOLVED), *rest]


class Promise(NamedTuple):
    """What a range had resolved when its span was about to change, at index ``at``, and what feeds lacked.

    ``closed_wall`` is the wall part, in nanoseconds, of its closed timestamp then.
    """

    at: RaftIndex
    resolved: ResolvedTimestamp
    span: Span | None
    lags: tuple[Lag, ...] | None = None
    closed_wall: int = 0
