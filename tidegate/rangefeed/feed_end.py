"""Why a feed of a range ended, and what its reader can do about it.

Source: CockroachDB ``kvpb.RangeFeedRetryError`` (the numbers are its reasons) and the reactions of its client
(``dist_sender_rangefeed.go``).
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple


class EndReason(enum.Enum):
    """The kinds of end; those with a number may be begun again from the feed's last checkpoint."""

    REPLICA_REMOVED = 0
    RANGE_SPLIT = 1
    RANGE_MERGED = 2
    RAFT_SNAPSHOT = 3  # entries of the log were skipped
    LOGICAL_OPS_MISSING = 4  # a command wrote, and its log does not say what
    SLOW_CONSUMER = 5
    NO_LEASEHOLDER = 6
    RANGEFEED_CLOSED = 7
    MANUAL_RANGE_SPLIT = 8
    FINISHED = "finished"  # its reader wanted no more of it
    CANCELLED = "cancelled"  # its reader went away
    FAILED = "failed"  # see the detail
    HISTORY_MUTATED = "history mutated"  # versions were rewritten below what the feed has passed on


class Again(enum.Enum):
    """How a feed that ended may be begun again."""

    SAME_SPAN = "same span"
    NEW_BOUNDARIES = "new boundaries"  # ask first which ranges hold the span now
    NEVER = "never"


_NEW_BOUNDARIES: Final = frozenset(
    {
        EndReason.RANGE_SPLIT,
        EndReason.RANGE_MERGED,
        EndReason.MANUAL_RANGE_SPLIT,
        EndReason.NO_LEASEHOLDER,
    }
)


class FeedEnd(NamedTuple):
    """The end of one feed; ``detail`` is a sentence where the reason does not say it all."""

    reason: EndReason
    detail: str = ""

    @property
    def again(self) -> Again:
        """What its reader can do."""
        if self.reason in _NEW_BOUNDARIES:
            return Again.NEW_BOUNDARIES
        return Again.SAME_SPAN if isinstance(self.reason.value, int) else Again.NEVER


FINISHED: Final = FeedEnd(EndReason.FINISHED)
