"""An update: at one time, a row came or went."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from tidegate.hlc import Timestamp
from tidegate.subscribe.updates.row_identity import written_identity

#: The values of a row, in the order of its relation's columns. ``None`` is NULL.
RowValues: TypeAlias = tuple[Any, ...]


class Update(NamedTuple):
    """``diff`` copies of ``row`` came at ``time``; a negative number of them went.

    It is a named tuple for the same reason as ``Timestamp``: there is one for every row.
    """

    time: Timestamp
    diff: int
    row: RowValues


def consolidated(updates: Iterable[Update]) -> list[Update]:
    """Return each row of a time at most once, with the sum of its diffs; sums of zero are left out.

    Example: ``-1`` and ``+1`` of one row at one time are left out, so an update to the same value is silent.
    An update to an equal value that is written differently is not left out: 1.0 goes, and 1.00 comes.
    The rows are in the order in which they first came.
    """
    sums: dict[tuple[Timestamp, Any], Update] = {}
    for update in updates:
        identity = (update.time, written_identity(update.row))
        known = sums.get(identity)
        sums[identity] = update if known is None else known._replace(diff=known.diff + update.diff)
    return [update for update in sums.values() if update.diff]
