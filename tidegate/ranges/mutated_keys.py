"""The keys of a range that were changed outside its op log, with times.

The times are for feeds that go on here in a later epoch.

The range whose log told of a change keeps a note of it, with the keys that the range had then. A split or
merge does not change the note, and it is not handed off. A range that was merged away still has the note
(docs/protocols/history-mutations.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tidegate.hlc import MAX, ZERO, Timestamp
from tidegate.spans import Span

#: The most changes that a range keeps. If there are more, two neighbours become one that covers both.
KEPT_MAX: Final = 16


class MutatedKeys(NamedTuple):
    """A change of data in ``span``, which has no tenant prefix, outside the op log.

    ``time`` is above everything that was closed for these keys before the change. It may be later than the
    change. It is `MAX` if it is not known. The versions that were changed have timestamps from ``first`` to
    ``last``, both included.
    """

    span: Span
    time: Timestamp
    last: Timestamp
    first: Timestamp = ZERO

    def covers(self, other: MutatedKeys) -> bool:
        """Whether ``other`` adds nothing to this."""
        within = self.span.intersect(other.span) == other.span
        return within and self.time >= other.time and self.first <= other.first and self.last >= other.last


def remember(known: Sequence[MutatedKeys], new: MutatedKeys) -> tuple[MutatedKeys, ...]:
    """Add ``new`` to a range's changes. Return the changes to keep, which cover ``new`` and ``known``."""
    if any(each.covers(new) for each in known):
        return tuple(known)
    kept = sorted([*(each for each in known if not new.covers(each)), new])
    while len(kept) > KEPT_MAX:
        kept = _with_one_less(kept)
    return tuple(kept)


def dated(known: Sequence[MutatedKeys], time_of: Callable[[Span], Timestamp]) -> tuple[MutatedKeys, ...]:
    """Return the changes. A change without a time gets the one that ``time_of`` returns for its keys.

    That time must be above everything that was closed before the change.
    """
    return tuple(each._replace(time=time_of(each.span)) if each.time == MAX else each for each in known)


def just_above(timestamp: Timestamp) -> Timestamp:
    """Return the next timestamp above another; `MAX` for `MAX`."""
    return timestamp.next() if timestamp < MAX else MAX


def _with_one_less(kept: list[MutatedKeys]) -> list[MutatedKeys]:
    """Return the changes with two neighbours joined: the pair whose later time is the lowest.

    Feeds have most likely passed that time long ago.
    """
    times = [max(left.time, right.time) for left, right in pairwise(kept)]
    at = times.index(min(times))
    left, right = kept[at : at + 2]
    span = Span(min(left.span.start, right.span.start), max(left.span.end, right.span.end))
    first, last = min(left.first, right.first), max(left.last, right.last)
    both = MutatedKeys(span, max(left.time, right.time), last, first)
    return [*kept[:at], both, *kept[at + 2 :]]
