"""Frontiers, the exclusive form of progress. Only two functions here add or subtract one logical tick.

A *marker* at M says: every row at or below M was there. It is inclusive. A *frontier* F says: every update
below F was there. It is exclusive, so a marker at M makes the frontier ``M.next()``. A subscription that
holds everything below F goes on ``AS OF F.prev()`` without a snapshot, which gives what is above
``F.prev()``.

    marker    1.0000000000    rows at 1.0000000000 are complete
    frontier  1.0000000001    updates below 1.0000000001 are complete
    resume    AS OF 1.0000000000 WITH (SNAPSHOT = false)

Source: Materialize `doc/user/content/sql/subscribe.md` before pull request 34765 taught ``AS OF F``, which
skips every update at F.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NewType, TypeAlias

from tidegate.hlc import MAX, ZERO, Timestamp

#: Every update below it is known. It never falls within one subscription.
Frontier = NewType("Frontier", Timestamp)
#: A frontier, or ``None`` for the empty frontier: no update will follow at all.
Progress: TypeAlias = Frontier | None

ZERO_FRONTIER: Final = Frontier(ZERO)


def frontier_after(marker: Timestamp) -> Frontier:
    """Return the frontier that a marker makes: the timestamp after it.

    There is no timestamp after the highest one, so for that it is the highest timestamp itself.
    """
    return Frontier(marker if marker >= MAX else marker.next())


def resume_as_of(frontier: Frontier) -> Timestamp:
    """Return the AS OF that gives everything from ``frontier`` on, without a snapshot; zero for zero."""
    return ZERO if frontier <= ZERO else frontier.prev()


def lowest_progress(progresses: Iterable[Progress]) -> Progress:
    """Return the lowest of some frontiers.

    ``None`` is the empty frontier, which is above all others. The result is also ``None`` for no frontiers.
    """
    return min((frontier for frontier in progresses if frontier is not None), default=None)
