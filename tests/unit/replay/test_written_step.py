"""The state before a step is that of an engine, however it comes about."""

from __future__ import annotations

import pytest

from tests.unit.kernel.log_histories import log_history
from tidegate.processor.batch import StateTable
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.replay.written_step import StateBefore, StateRows, WrittenStep


@pytest.mark.parametrize("seed", range(6))
def test_a_state_of_the_log_and_one_that_is_moved_on_from_what_is_stored_are_the_same(seed: int) -> None:
    print(f"seed {seed}")
    history = log_history(seed)
    half, most = len(history.records) // 2, len(history.records) * 3 // 4
    whole, stored = StateBefore(0, 1), StateBefore(0, 1)
    for each in (whole, stored):
        each.begin(history.feeds, ())
        each.read(history.records[:half])
    whole.read(history.records[half:most])
    moved = StateBefore(0, 1, stored.rows)
    assert moved.reached == history.records[half].offset
    moved.read(each for each in history.records[:most] if each.offset >= moved.next_offset)
    assert moved.reached == whole.reached == history.records[most].offset
    assert _without_position(moved.rows) == _without_position(whole.rows)


def _without_position(rows: StateRows) -> StateRows:
    return {place: row for place, row in rows.items() if place != (StateTable.RANGES, POSITION_KEY)}


def test_a_step_without_state_begins_with_an_empty_partition() -> None:
    processor = WrittenStep(1, 4, 0, {}, ()).processor(ProcessorConfig())
    assert (processor.partition, processor.next_offset) == (1, None)


def test_what_was_reached_is_told_now_and_then() -> None:
    history = log_history(3, entries=2_500)
    told: list[int] = []
    before = StateBefore(0, 1)
    before.read(history.records, told.append)
    assert told == [record.offset for record in history.records[999::1000]]
