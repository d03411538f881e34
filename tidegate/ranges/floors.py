"""Floors: timestamps that earlier generations of a range, or its parents, had resolved for its keys.

No new row of a key may come at or below its floor. A range keeps its floors by keys, since a merge may bring
keys with a lower resolved timestamp. The floors are disjoint and in the order of their keys. Each has the
highest timestamp that any floor of these keys had. So a write is compared with one floor.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tidegate.hlc import ResolvedTimestamp
from tidegate.spans import Span

#: The most floors that a range keeps. If there are more, two neighbours become one floor, which forbids more
#: than both did. If it forbids a row wrongly, the range is quarantined, and a scan brings the row. A floor
#: that forbade less could let a row pass at or below a marker.
FLOORS_MAX: Final = 64


class Floor(NamedTuple):
    """A timestamp that was resolved for a span: no new row of the span at or below ``resolved`` may come."""

    span: Span
    resolved: ResolvedTimestamp


def with_floor(floors: Sequence[Floor], new: Floor) -> list[Floor]:
    """Add ``new`` to the floors of a range. Return the floors to keep: the floor of no key falls."""
    if new.span.start >= new.span.end:
        return [*floors]
    kept = _joined(_raised(floors, new))
    while len(kept) > FLOORS_MAX:
        kept = _with_one_less(kept)
    return kept


def floor_at(floors: Sequence[Floor], key: bytes) -> Floor | None:
    """Return the floor that has a key, if there is one."""
    below = bisect_right(floors, key, key=_start)
    found = floors[below - 1] if below else None
    return found if found is not None and key < found.span.end else None


def _start(floor: Floor) -> bytes:
    return floor.span.start


def _raised(floors: Iterable[Floor], new: Floor) -> Iterator[Floor]:
    """Yield the floors, raised to ``new`` on the keys of ``new``. Keys of ``new`` without a floor get one."""
    position, end = new.span
    for floor in floors:
        common = floor.span.intersect(new.span)
        if common is None:
            if position < end <= floor.span.start:
                yield Floor(Span(position, end), new.resolved)
                position = end
            yield floor
            continue
        if floor.span.start < common.start:
            yield Floor(Span(floor.span.start, common.start), floor.resolved)
        if position < common.start:
            yield Floor(Span(position, common.start), new.resolved)
        yield Floor(common, max(floor.resolved, new.resolved))
        position = common.end
        if common.end < floor.span.end:
            yield Floor(Span(common.end, floor.span.end), floor.resolved)
    if position < end:
        yield Floor(Span(position, end), new.resolved)


def _joined(floors: Iterable[Floor]) -> list[Floor]:
    """Return the floors. Neighbours that touch and have the same timestamp become one."""
    kept: list[Floor] = []
    for floor in floors:
        if kept and kept[-1].span.end == floor.span.start and kept[-1].resolved == floor.resolved:
            kept[-1] = Floor(Span(kept[-1].span.start, floor.span.end), floor.resolved)
        else:
            kept.append(floor)
    return kept


def _with_one_less(floors: Sequence[Floor]) -> list[Floor]:
    """Return the floors with two neighbours joined: the pair for which the floor of a key rises least."""
    rises = [_rise(left, right) for left, right in pairwise(floors)]
    at = rises.index(min(rises))
    left, right = floors[at : at + 2]
    both = Floor(Span(left.span.start, right.span.end), max(left.resolved, right.resolved))
    return _joined([*floors[:at], both, *floors[at + 2 :]])


def _rise(left: Floor, right: Floor) -> int:
    """Return the most nanoseconds by which the floor of a key rises if two neighbours become one."""
    if left.span.end < right.span.start:
        return max(left.resolved, right.resolved).wall  # the keys between them had no floor
    return abs(left.resolved.wall - right.resolved.wall)
