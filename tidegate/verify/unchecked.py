"""Finds the rules that an audit could not check, and says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidegate.changefeed.definition.options import InitialScan
from tidegate.verify.report import AuditCounts, Unchecked
from tidegate.verify.violation import ViolationKind

_NEED_UPDATED: Final = (
    ViolationKind.OUT_OF_ORDER,
    ViolationKind.LATE_ROW,
    ViolationKind.CHANGED_DUPLICATE,
    ViolationKind.WRONG_RECORD_TIME,
)
_NEED_UPDATED_OF_SCAN: Final = (ViolationKind.BELOW_START, ViolationKind.WRONG_SCAN_ROW)
_NEED_MARKERS: Final = (ViolationKind.LATE_ROW, ViolationKind.MARKER_MISSING)
_NEED_MEMORY: Final = (ViolationKind.LATE_ROW, ViolationKind.OUT_OF_ORDER)
_NEED_HISTORY: Final = (ViolationKind.INVENTED_ROW, ViolationKind.WRONG_VALUE)
_NEED_ROW_KEYS: Final = (
    ViolationKind.OUT_OF_ORDER,
    ViolationKind.LATE_ROW,
    ViolationKind.CHANGED_DUPLICATE,
)
_NEED_OWNER: Final = (ViolationKind.UNREADABLE, ViolationKind.WRONG_SCAN_ROW)
_NEED_ALL: Final = (ViolationKind.MISSING_ROW,)


class Losses(NamedTuple):
    """Counts of the partitions that do not hold all records that were written.

    The beginning of ``rows`` partitions of rows, and of ``markers`` partitions of a ``resolved_topic``, was
    deleted. ``compacted`` partitions are compacted.
    """

    rows: int = 0
    markers: int = 0
    compacted: int = 0


class Audited(NamedTuple):
    """The facts that the audit was given.

    ``compared`` says that the source's history was given. ``row_keys``, ``initial_scan`` and ``succeeded``
    are those of ``AuditOptions``.
    """

    compared: bool
    row_keys: bool = True
    initial_scan: InitialScan | None = InitialScan.NO
    succeeded: bool = False

    @property
    def whole(self) -> bool:
        """Whether all rows have to be there even without a marker: the feed only scans, and is done."""
        return self.initial_scan is InitialScan.ONLY and self.succeeded


def unchecked_rules(
    counts: AuditCounts, losses: Losses, audited: Audited, unclear: int = 0
) -> Iterator[Unchecked]:
    """Yield the rules that could not be checked, or not for every row.

    ``unclear`` is the number of records whose feed is not known.
    """
    if not counts.rows and not counts.markers and not (audited.whole and audited.compared):
        yield Unchecked(tuple(ViolationKind), "the topics hold no records")
        return
    if counts.untimed:
        yield from _without_timestamps(counts.untimed, audited)
    if not audited.row_keys:
        kinds = _NEED_ROW_KEYS + (_NEED_HISTORY + _NEED_ALL if audited.compared else ())
        yield Unchecked(kinds, "key_column replaces the rows' own keys: versions of one row cannot be told")
    if not counts.markers:
        yield from _without_markers(audited)
    if counts.undecided:
        reason = "rows may repeat rows that were deleted from the topic or forgotten by the audit"
        yield Unchecked(_NEED_MEMORY, f"{counts.undecided:,} {reason}")
    if unclear:
        reason = "records may be those of another feed that had the topics: nothing in them tells"
        kinds = _NEED_OWNER + (_NEED_HISTORY + _NEED_ALL if audited.compared else ())
        yield Unchecked(kinds, f"{unclear:,} {reason}")
    yield from _after_losses(losses, audited)


def _without_timestamps(untimed: int, audited: Audited) -> Iterator[Unchecked]:
    advice = "create the feed WITH updated, in an envelope that has room for it, or as envelope=debezium"
    yield Unchecked(_NEED_UPDATED, f"{untimed:,} rows tell no timestamp; {advice}")
    if audited.initial_scan is not InitialScan.NO:
        reason = (
            "rows that tell no timestamp are told from those of the initial scan by their record times "
            "alone: not within the millisecond of the feed's start, and not where the feed is not named"
        )
        yield Unchecked(_NEED_UPDATED_OF_SCAN, reason)


def _without_markers(audited: Audited) -> Iterator[Unchecked]:
    """Yield the rules that need markers. A feed that only scans needs no markers once it has succeeded."""
    if audited.initial_scan is not InitialScan.ONLY:
        kinds = _NEED_MARKERS + (_NEED_ALL if audited.compared else ())
        yield Unchecked(kinds, "there are no markers; create the feed WITH resolved")
    elif not audited.succeeded and audited.compared:
        reason = (
            "there are no markers, and the feed has not succeeded yet: rows of its scan may still come; "
            "audit it again once `tidegate feed show` says that it has succeeded"
        )
        yield Unchecked(_NEED_ALL, reason)


def _after_losses(losses: Losses, audited: Audited) -> Iterator[Unchecked]:
    if losses.markers:
        reason = f"the beginning of {losses.markers:,} partitions of markers has been deleted"
        yield Unchecked(_NEED_MARKERS, reason)
    if audited.compared and losses.rows:
        yield Unchecked(_NEED_ALL, f"the beginning of {losses.rows:,} partitions has been deleted")
    if audited.compared and losses.compacted:
        yield Unchecked(_NEED_ALL, f"{losses.compacted:,} partitions are compacted")
