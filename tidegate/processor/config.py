"""What an engine may choose of a partition processor."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.processor.bounds import BOUNDS, RecordBounds
from tidegate.processor.catchup.gap_scans import CatchUpLimits
from tidegate.processor.push_policy import PushPolicy
from tidegate.ranges.backlog import QueueFactory
from tidegate.ranges.intent_budget import PartitionSpill


@dataclass(frozen=True, slots=True)
class ProcessorConfig:
    """What an engine may choose; none of it changes what rows come out.

    ``log_id`` and ``control_id`` name the very topics that are read, not just their names; a state that was
    built from others is refused. ``queue`` makes the queues of ranges that fall behind (in memory if absent),
    ``spill`` has room for open transactions beyond memory (all are in memory if absent). ``catch_up`` bounds
    what feeds that lag may take. With ``detachable`` the engine may detach feeds, and says what is committed.
    ``bounds`` are those of the records that its producer takes.
    """

    push: PushPolicy = field(default_factory=PushPolicy)
    log_id: str = ""
    control_id: str = ""
    queue: QueueFactory | None = None
    spill: PartitionSpill | None = None
    catch_up: CatchUpLimits | None = None
    detachable: bool = False
    bounds: RecordBounds = BOUNDS
