"""A busy range that comes out of a wait, while the log is behind: its backlog shrinks, and others have their
turn (docs/protocols/ranges.md)."""

from __future__ import annotations

from typing import Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tidegate.processor import log_step
from tidegate.raftlog.entry import RangeId
from tidegate.raftlog.request import Scan

_BATCH: Final = 60
_DRAINED: Final = 40  # by a step, at most: fewer than a batch has
_WAITING: Final = 500


class _Healing:
    """Two ranges that heal at once, by scans that bring nothing. The first one is busy all the while."""

    def __init__(self) -> None:
        self.log = HandLog(1)
        self.log.describe(PLAIN)
        low, high = PLAIN.split(1_000_000)
        self.busy, self.calm = self.log.open_range(1, low), self.log.open_range(2, high)
        self._busy_rows = 0
        self.driven = Driven()
        self.driven.control(activation([PLAIN.descriptor]))
        self.log.write_bytes(0, None, None)  # names no range: a hole of both
        for healing in (self.busy, self.calm):
            healing.snapshot(close=2, high=2)
        self._read = 0
        self.step()
        requests = [each for result in self.driven.results for each in result.requests]
        scans = {each.range_id: each for each in requests if isinstance(each, Scan)}
        self._write(_WAITING)
        self.calm.apply(PLAIN.put(3, 2_000_000, "calm"), close=3)
        for healing, number in ((self.busy, 1), (self.calm, 2)):
            healing.scanned(scans[RangeId(number)])

    def _write(self, rows: int) -> None:
        for _ in range(rows):
            self._busy_rows += 1
            second = 3 + self._busy_rows / 10_000
            self.busy.apply(PLAIN.put(second, self._busy_rows, "busy"), close=second - 0.00005)

    def step(self) -> None:
        """Take a full batch; the busy range has written as much meanwhile as the step may take."""
        self._write(_BATCH)
        records = self.log.partitions[0][self._read : self._read + _BATCH]
        self._read += self.driven.note(self.driven.processor.step_some(records)).taken

    def waiting(self, number: int) -> int:
        """Return how many entries the range has in its backlog."""
        backlog = self.driven.processor._ranges._backlogs.get(RangeId(number))
        return 0 if backlog is None else len(backlog.queue)

    def read_until_answered(self) -> None:
        """Read on to where both ranges have their scans."""
        while not self.waiting(1) or self.driven.processor.status().parked:
            self.step()


@pytest.fixture
def healing(monkeypatch: pytest.MonkeyPatch) -> _Healing:
    monkeypatch.setattr(log_step, "_DRAIN_MAX", _DRAINED)
    healing = _Healing()
    healing.read_until_answered()
    return healing


def test_a_backlog_shrinks_though_each_step_finds_a_full_batch(healing: _Healing) -> None:
    most = held = healing.waiting(1)
    for _ in range(10 * most // _DRAINED):
        healing.step()
        held = healing.waiting(1)
        assert held <= most + _BATCH
        if not held:
            break
    assert held == 0


def test_a_range_with_one_entry_does_not_wait_for_one_with_many(healing: _Healing) -> None:
    for _ in range(_WAITING // _DRAINED):
        if not healing.waiting(2):
            break
        healing.step()
    assert healing.waiting(2) == 0
    assert healing.waiting(1) > 0
    assert any(row.value and b"calm" in row.value for row in healing.driven.rows)


def test_nothing_is_lost_where_backlogs_come_first(healing: _Healing) -> None:
    while healing.waiting(1):
        healing.step()
    healing.driven.step(())
    written = healing._busy_rows
    while healing._read < len(healing.log.partitions[0]):
        records = healing.log.partitions[0][healing._read :][:_BATCH]
        healing._read += healing.driven.note(healing.driven.processor.step_some(records)).taken
    while healing.driven.processor.ready:
        healing.driven.step(())
    keys = [row.key for row in healing.driven.rows]
    assert keys.count(b"[2000000]") == 1
    assert [key for key in keys if key != b"[2000000]"] == [
        b"[%d]" % number for number in range(1, written + 1)
    ]
    assert healing.driven.checkpoints[RangeId(1)].resolved >= at(3)


def test_a_batch_without_records_moves_the_position_on(healing: _Healing) -> None:
    """It has markers of transactions alone, and nobody gives it again."""
    while not healing.driven.processor._ranges.backlogs_come_first:
        healing.step()
    end = healing.driven.processor._state.position.offset + 6
    healing.driven.note(healing.driven.processor.step_some((), end=end))
    assert healing.driven.processor._state.position.offset == end - 1


def test_a_step_without_a_limit_takes_all_of_its_records(healing: _Healing) -> None:
    """Its caller does not give them again: that is so where one process replays a log."""
    while not healing.driven.processor._ranges.backlogs_come_first:
        healing.step()
    healing._write(_BATCH)
    records = healing.log.partitions[0][healing._read :]
    assert healing.driven.note(healing.driven.processor.step(records)).taken == len(records)
