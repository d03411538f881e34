"""The settings that an engine gives to a partition processor."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.processor.bounds import BACKLOG_BYTES, BOUNDS, RecordBounds
from tidegate.processor.catchup.gap_scans import CatchUpLimits
from tidegate.processor.feeds.descriptor_room import DescriptorLimits
from tidegate.processor.feeds.kernels import Kernels
from tidegate.processor.push_policy import PushPolicy
from tidegate.processor.step_size import RowLimits
from tidegate.ranges.backlog import QueueFactory
from tidegate.ranges.intent_budget import PartitionSpill


@dataclass(frozen=True, slots=True)
class ProcessorConfig:
    """The settings of a partition processor. Only ``rows`` and ``descriptors`` change which rows come out.

    ``log_id`` and ``control_id`` are the ids of the topics that are read, which change when a topic is
    deleted and created again. A state that was built from other topics is refused. ``queue`` makes the queues
    of ranges that fall behind (in memory if absent); ranges that wait keep ``backlog_bytes`` of the log at
    most. ``spill`` has room for open transactions outside memory (if absent, all transactions are in memory).
    ``catch_up`` bounds the scans of feeds that catch up. With ``detachable`` the engine may detach feeds, and
    tells the processor which steps are committed. ``bounds`` are for the records that the engine's producer
    takes, ``rows`` for the rows of a step, ``descriptors`` for what table descriptors take. ``kernel`` writes
    rows in native code (Python does if absent).
    """

    push: PushPolicy = field(default_factory=PushPolicy)
    log_id: str = ""
    control_id: str = ""
    queue: QueueFactory | None = None
    backlog_bytes: int = BACKLOG_BYTES
    spill: PartitionSpill | None = None
    catch_up: CatchUpLimits | None = None
    detachable: bool = False
    bounds: RecordBounds = BOUNDS
    rows: RowLimits = field(default_factory=RowLimits)
    descriptors: DescriptorLimits = field(default_factory=DescriptorLimits)
    kernel: Kernels | None = None
