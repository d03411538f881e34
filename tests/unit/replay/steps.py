"""Steps of random histories, with the state before them."""

from __future__ import annotations

from tests.unit.kernel.log_histories import log_history
from tidegate.replay.written_step import StateBefore, StepRecord, WrittenStep


def step_of(seed: int, at: float = 0.5) -> WrittenStep:
    """The step that takes the records of a history after the first ``at`` of them."""
    history = log_history(seed)
    records = tuple(StepRecord(each.offset, each.key, each.value, each.timestamp) for each in history.records)
    first = round(len(records) * at)
    before = StateBefore(0, 1)
    before.begin(history.feeds, ())
    before.read(records[:first])
    reads_from = before.reads_from()
    again = tuple(each for each in records if each.offset >= reads_from)
    return WrittenStep(0, 1, records[first].offset, before.rows, again)
