"""Which rules an audit could not hold the topics to, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidegate.verify.report import AuditCounts, Unchecked
from tidegate.verify.violation import ViolationKind

_NEED_UPDATED: Final = (
    ViolationKind.OUT_OF_ORDER,
    ViolationKind.LATE_ROW,
    ViolationKind.CHANGED_DUPLICATE,
    ViolationKind.WRONG_RECORD_TIME,
)
_NEED_MARKERS: Final = (ViolationKind.LATE_ROW, ViolationKind.MARKER_MISSING)
_NEED_MEMORY: Final = (ViolationKind.LATE_ROW, ViolationKind.OUT_OF_ORDER)
_NEED_HISTORY: Final = (ViolationKind.INVENTED_ROW, ViolationKind.WRONG_VALUE)
_NEED_ROW_KEYS: Final = (
    ViolationKind.OUT_OF_ORDER,
    ViolationKind.LATE_ROW,
    ViolationKind.CHANGED_DUPLICATE,
)
_NEED_ALL: Final = (ViolationKind.MISSING_ROW,)


class Losses(NamedTuple):
    """How many partitions do not hold all that was written: the beginning of ``rows`` partitions of rows and
    of ``markers`` partitions of a resolved_topic was deleted, and ``compacted`` partitions are compacted."""

    rows: int = 0
    markers: int = 0
    compacted: int = 0


def unchecked_rules(
    counts: AuditCounts, losses: Losses, *, compared: bool, row_keys: bool = True
) -> Iterator[Unchecked]:
    """What could not be checked, or not for every row.

    ``compared`` says whether the source's history was given, ``row_keys`` whether keys identify rows.
    """
    if not counts.rows and not counts.markers:
        yield Unchecked(tuple(ViolationKind), "the topics hold no records")
        return
    if counts.untimed:
        advice = "create the feed WITH updated, in an envelope that has room for it, or as envelope=debezium"
        yield Unchecked(_NEED_UPDATED, f"{counts.untimed:,} rows tell no timestamp; {advice}")
    if not row_keys:
        kinds = _NEED_ROW_KEYS + (_NEED_HISTORY + _NEED_ALL if compared else ())
        yield Unchecked(kinds, "key_column replaces the rows' own keys: versions of one row cannot be told")
    if not counts.markers:
        kinds = _NEED_MARKERS + (_NEED_ALL if compared else ())
        yield Unchecked(kinds, "there are no markers; create the feed WITH resolved")
    if counts.undecided:
        reason = "rows may repeat rows that were deleted from the topic or forgotten by the audit"
        yield Unchecked(_NEED_MEMORY, f"{counts.undecided:,} {reason}")
    if losses.markers:
        reason = f"the beginning of {losses.markers:,} partitions of markers has been deleted"
        yield Unchecked(_NEED_MARKERS, reason)
    if compared and losses.rows:
        yield Unchecked(_NEED_ALL, f"the beginning of {losses.rows:,} partitions has been deleted")
    if compared and losses.compacted:
        yield Unchecked(_NEED_ALL, f"{losses.compacted:,} partitions are compacted")
