"""Bounds on the records that a partition stores and sends (docs/protocols/record-bounds.md).

Each row of state, and each message on a topic of the application, has to fit into one Kafka record. A
partition with a row that does not fit could never commit again. So each kind of record has a bound. A larger
record is stored in pieces, told with less detail, or refused with a sentence that names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The most parents that one Snapshot may name. A true range has two at most. Each parent costs a hand-off
#: that the range waits for and keeps.
PARENTS_MAX: Final = 64
#: The most hand-offs that a range keeps before it takes its Snapshot: those that it waits for, and as many
#: that came early. The range claims a hand-off again if it was not kept.
HAND_OFFS_MAX: Final = 2 * PARENTS_MAX
#: The most claims on one range that wait for answers, since each step looks at all of them. Any further claim
#: is answered at once by *complete up to nothing*, so that its child scans.
CLAIMS_MAX: Final = 1_024
#: The most ranges that are claimed and of which the partition has read nothing yet, since each step looks at
#: all of them. A claim on a further range is answered by *complete up to nothing* too.
UNSEEN_PARENTS_MAX: Final = 4_096
#: The most bytes of the log that a partition keeps for its parked ranges. Beyond it, the range that has most
#: of these bytes is quarantined: a scan brings what its backlog held.
BACKLOG_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class RecordBounds:
    """The bounds in bytes. ``record_bytes`` is the largest record that the engine's producer takes.

    All other bounds are shares of it.
    """

    record_bytes: int = 1_000_000

    @property
    def piece_bytes(self) -> int:
        """The most bytes of a value: half of a record, which leaves room for its key and Kafka's frame."""
        return self.record_bytes // 2

    @property
    def key_bytes(self) -> int:
        """The most bytes of a span's bound, and of a transaction's anchor key.

        It is a sixteenth of a record, since messages have up to six such keys.
        """
        return self.record_bytes // 16

    @property
    def told_bytes(self) -> int:
        """The most bytes of what one range tells others. A range forgets older promises to stay within it."""
        return self.record_bytes


BOUNDS: Final = RecordBounds()
