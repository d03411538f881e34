"""Changes of data outside the op log, in every way that a log tells of them, and feeds over them."""

from __future__ import annotations

from tests.hand_log import HandLog, HandRange
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tidegate.processor.batch import StateTable
from tidegate.processor.state.state_codec import read_range
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import HistoryMutation, RangeId, SnapshotReason, Trigger
from tidegate.ranges.mutated_keys import MutatedKeys

_LOW_KEYS, HIGH_KEYS = PLAIN.split(100)


def mutated_in(driven: Driven, range_id: int) -> tuple[MutatedKeys, ...]:
    """Return what is stored of a range."""
    key = encode_key(RangeId(range_id))
    return read_range(key, driven.state[StateTable.RANGES, key]).state.mutated


def merged(told: HistoryMutation) -> tuple[HandLog, HandRange]:
    """Range 1 in partition 1, which has closed 6, takes over range 2 of the other partition."""
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    left, right = log.open_range(1, _LOW_KEYS), log.open_range(2, HIGH_KEYS)
    left.apply(PLAIN.put(5, 1, "before"), close=6)
    right.end()
    left.apply(trigger=Trigger.MERGE)
    parents = (left.as_parent(), right.as_parent())
    left.span, left.generation = PLAIN.span, 2
    left.snapshot(reason=SnapshotReason.MERGE, close=9, high=8, parents=parents, last_mutation=told)
    return log, left
