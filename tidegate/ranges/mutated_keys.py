"""Which keys of a range were changed outside its op log, and when: kept for feeds that go on here later.

It is kept by the range whose log told the change, and by the keys of that time. So a split or a merge takes
nothing away from it and has nothing to pass on: the range that was merged away still has it
(docs/ranges.md#mutations).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tidegate.hlc import MAX, ZERO, Timestamp
from tidegate.spans import Span

#: So many are kept for each range. Of more than these two neighbours become one, which says more than both.
KEPT_MAX: Final = 16


class MutatedKeys(NamedTuple):
    """Data of ``span``, which has no tenant prefix, changed outside the op log.

    ``time`` is above everything that was closed for these keys before the change; it may be later than the
    change, and is `MAX` where nobody knows. The versions that it changed stand from ``first`` to ``last``,
    both included.
    """

    span: Span
    time: Timestamp
    last: Timestamp
    first: Timestamp = ZERO

    def covers(self, other: MutatedKeys) -> bool:
        """Whether it says all that ``other`` does."""
        within = self.span.intersect(other.span) == other.span
        return within and self.time >= other.time and self.first <= other.first and self.last >= other.last


def remember(known: Sequence[MutatedKeys], new: MutatedKeys) -> tuple[MutatedKeys, ...]:
    """What is kept behind another change; nothing that was kept is said less of."""
    if any(each.covers(new) for each in known):
        return tuple(known)
    kept = sorted([*(each for each in known if not new.covers(each)), new])
    while len(kept) > KEPT_MAX:
        kept = _with_one_less(kept)
    return tuple(kept)


def dated(known: Sequence[MutatedKeys], time_of: Callable[[Span], Timestamp]) -> tuple[MutatedKeys, ...]:
    """The same, where ``time_of`` their keys is now known to be above what was closed before each of them."""
    return tuple(each._replace(time=time_of(each.span)) if each.time == MAX else each for each in known)


def just_above(timestamp: Timestamp) -> Timestamp:
    """The smallest timestamp above another, as far as there is one."""
    return timestamp.next() if timestamp < MAX else MAX


def _with_one_less(kept: list[MutatedKeys]) -> list[MutatedKeys]:
    """The two neighbours that changed least lately as one: feeds have long passed them, most likely."""
    times = [max(left.time, right.time) for left, right in pairwise(kept)]
    at = times.index(min(times))
    left, right = kept[at : at + 2]
    span = Span(min(left.span.start, right.span.start), max(left.span.end, right.span.end))
    first, last = min(left.first, right.first), max(left.last, right.last)
    both = MutatedKeys(span, max(left.time, right.time), last, first)
    return [*kept[:at], both, *kept[at + 2 :]]
