"""Bounds a batch: finds the farthest cut for which at most a given number of records is read.

Every timestamp at or below a closed cut is closed, too. So a batch may end at any of them, and a batch
that would be too large ends earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate.hlc import NANOS_PER_MS, Timestamp

#: Kafka's record times are milliseconds: they cannot tell more exactly where a timestamp stands.
RECORD_TIME_NS: Final = NANOS_PER_MS


def farthest_cut(
    begin: Timestamp, closed: Timestamp, most: int, step_ns: int, records_up_to: Callable[[Timestamp], int]
) -> Timestamp:
    """Return the highest cut above ``begin`` and up to ``closed`` for which ``most`` records are enough.

    A cut below ``closed`` is a multiple of ``step_ns``. ``records_up_to`` counts the records that are read
    for a cut; it does not fall when the cut rises. If the first step alone has more than ``most``, the
    cut is the end of that step nevertheless: a stream must not stand still.

    Example: 10 records at each of 1 ms, 2 ms and 3 ms. With 25 records the cut is at 2 ms, with 5 at 1 ms.
    """
    if records_up_to(closed) <= most:
        return closed
    reached, too_far = begin.wall // step_ns + 1, -(-closed.wall // step_ns)
    while too_far - reached > 1:
        middle = (reached + too_far) // 2
        if records_up_to(Timestamp(middle * step_ns)) <= most:
            reached = middle
        else:
            too_far = middle
    return min(closed, Timestamp(reached * step_ns))
