"""Each row of a range that a step stores is the one that ``range_row`` makes, however it was written."""

from __future__ import annotations

from tidegate.processor.batch import StateTable, StepResult
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.state_codec import is_range_key, range_row
from tidegate.processor.state.stored_frame import WRITTEN_VERSION
from tidegate.raftlog.entry import RangeId


def require_rows_of_ranges(processor: PartitionProcessor, result: StepResult) -> int:
    """Compare the rows of the processor's last step. Return how many there are, without those in pieces.

    The ranges of an earlier step have changed since: nothing is compared.
    """
    if result.serial != processor._serial:
        return 0
    states, compared = processor._state.ranges.table.states, 0
    for table, key, value in result.changes:
        if table is not StateTable.RANGES or key == POSITION_KEY or not is_range_key(key):
            continue
        assert value is not None
        if value[0] == WRITTEN_VERSION:
            state = states[RangeId(int.from_bytes(key, "big"))]
            assert value == range_row(state, processor._state.position.offset).value
            compared += 1
    return compared
