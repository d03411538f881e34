"""The states of log partitions that a Python worker keeps in memory between rounds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, TypeAlias

from tidegate.processor.processor import PartitionProcessor
from tidegate.spark.platform.state_files import LoadedRows

#: The seconds that a partition is kept without a round here: another process may have its rounds by then.
_KEPT_S: Final = 600.0
#: The bytes of memory of a state, for its rows and its processor together: of an empty state, of each row,
#: and of each byte in a row. Measured with 100 to 20,000 ranges (a row of 161 bytes takes 2,600) and with
#: open transactions (a row of 65 bytes takes 1,400).
_EMPTY_BYTES: Final = 16_384
_ROW_BYTES: Final = 700
_TIMES: Final = 12


@dataclass(slots=True)
class HeldState:
    """A partition's state in memory: its rows, and the processor that they make.

    ``may_have_old`` tells that files older than the state's base may be there. ``status_at`` is when its
    status is due again. ``counted_bytes`` is the memory that it was counted with when it was last kept.
    """

    processor: PartitionProcessor
    state: LoadedRows
    may_have_old: bool
    status_at: float = 0.0
    used_at: float = 0.0
    counted_bytes: int = 0

    @property
    def memory_bytes(self) -> int:
        """Return about how much memory the state takes. The backlogs of its ranges are not counted."""
        return _EMPTY_BYTES + _ROW_BYTES * len(self.state.rows) + _TIMES * self.state.size


#: The states that a process keeps, by query and partition, in the order of their use. It runs one task at a
#: time. A state is taken out for a round and kept again once the round is done: a failed task keeps nothing.
HeldStates: TypeAlias = dict[tuple[str, int], HeldState]


def take_out(states: HeldStates, query_id: str, partition: int) -> HeldState | None:
    """Take a partition's state out, if it is there.

    Also frees the states that had no round here for ``_KEPT_S`` seconds: those of queries that have ended,
    among others. Each survey of a backfill is a query of its own.
    """
    now_s = time.monotonic()
    for address, held in list(states.items()):
        if now_s - held.used_at > _KEPT_S:
            del states[address]
    return states.pop((query_id, partition), None)


def keep(states: HeldStates, query_id: str, partition: int, held: HeldState, most_bytes: int) -> None:
    """Keep a partition's state, and free those that were used longest ago until all have room.

    Together they may take ``most_bytes``. A state that takes more is not kept, and frees no other.
    """
    held.used_at, held.counted_bytes = time.monotonic(), held.memory_bytes
    if held.counted_bytes > most_bytes:
        return
    states[query_id, partition] = held
    taken = sum(each.counted_bytes for each in states.values())
    for address, each in list(states.items()):
        if taken <= most_bytes:
            return
        del states[address]
        taken -= each.counted_bytes
