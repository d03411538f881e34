"""How large what a partition stores and sends may be (docs/delivery.md#what-bounds-a-record).

Each record of state, and each of a topic of the application, has to fit into one Kafka record. A partition
with a record that does not fit can never commit again. So each kind of record has a bound, and what a log
brings beyond it is stored in pieces, said with less detail, or refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Parents that one Snapshot may name. A range has two at most; each is a hand-off to wait for and to keep.
PARENTS_MAX: Final = 64
#: Hand-offs that a range keeps before it takes its Snapshot: those that it waits for, and as many that came
#: early. One that is not kept is claimed again.
HAND_OFFS_MAX: Final = 2 * PARENTS_MAX
#: Claims on one range that wait for their answers; all of them are looked at in each step. A child beyond it
#: is told at once that nothing is sure, and scans.
CLAIMS_MAX: Final = 1_024


@dataclass(frozen=True, slots=True)
class RecordBounds:
    """``record_bytes`` is the largest record that the engine's producer takes; all else is a share of it."""

    record_bytes: int = 1_000_000

    @property
    def piece_bytes(self) -> int:
        """The most bytes of a value: half, which leaves room for its key and Kafka's frame."""
        return self.record_bytes // 2

    @property
    def key_bytes(self) -> int:
        """The most bytes of a key that a span begins or ends with, and of a transaction's anchor key: a
        sixteenth, for messages have up to six of them."""
        return self.record_bytes // 16

    @property
    def told_bytes(self) -> int:
        """The most bytes of what one range tells others; older promises are forgotten beyond it."""
        return self.record_bytes


BOUNDS: Final = RecordBounds()
