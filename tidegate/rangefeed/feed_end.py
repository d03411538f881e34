"""The end of a range's feed: its reason, and the way in which its reader can begin it again.

Source: CockroachDB ``kvpb.RangeFeedRetryError``, whose reasons have these numbers, and the reactions of its
client (``dist_sender_rangefeed.go``).
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple


class EndReason(enum.Enum):
    """The reason why a feed ended.

    After a reason with a number, the feed may be begun again from its last checkpoint.
    """

    REPLICA_REMOVED = 0
    RANGE_SPLIT = 1
    RANGE_MERGED = 2
    RAFT_SNAPSHOT = 3  # entries of the log were skipped
    LOGICAL_OPS_MISSING = 4  # a command has writes and no op log
    SLOW_CONSUMER = 5
    NO_LEASEHOLDER = 6
    RANGEFEED_CLOSED = 7
    MANUAL_RANGE_SPLIT = 8
    FINISHED = "finished"  # the reader wants no more events
    CANCELLED = "cancelled"  # the reader went away
    FAILED = "failed"  # the detail says why
    HISTORY_MUTATED = "history mutated"  # versions that the feed may have given were changed


class Again(enum.Enum):
    """The way in which a feed that ended may be begun again."""

    SAME_SPAN = "same span"
    NEW_BOUNDARIES = "new boundaries"  # the reader has to ask first which ranges have the span now
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
    """The end of one feed. ``detail`` is a sentence that says more than the reason, or empty."""

    reason: EndReason
    detail: str = ""

    @property
    def again(self) -> Again:
        """The way in which the reader may begin the feed again."""
        if self.reason in _NEW_BOUNDARIES:
            return Again.NEW_BOUNDARIES
        return Again.SAME_SPAN if isinstance(self.reason.value, int) else Again.NEVER


FINISHED: Final = FeedEnd(EndReason.FINISHED)
