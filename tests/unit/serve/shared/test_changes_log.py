"""The log of a table's changes: what it holds, and what it gives to whom."""

from __future__ import annotations

import pytest

from tidegate.hlc import Timestamp
from tidegate.serve.shared.changes_log import ChangesLog
from tidegate.subscribe.changes.table_changes import TableChanges
from tidegate.subscribe.updates.frontier import Frontier


def at(wall: int) -> Frontier:
    return Frontier(Timestamp(wall))


def changes(before: int, frontier: int, held_bytes: int = 100) -> TableChanges:
    times = [Timestamp(wall) for wall in range(before, frontier)]
    return TableChanges(
        at(before), at(frontier), times, [[(None, (time.wall,))] for time in times], {}, held_bytes
    )


def test_a_reader_goes_through_all_changes_once() -> None:
    log = ChangesLog(at(5), 10_000)
    for begin, end in ((5, 7), (7, 8), (8, 12)):
        log.add(changes(begin, end))
    seen: list[Timestamp] = []
    frontier = at(5)
    while (found := log.after(frontier)) is not None:
        seen += found.times
        frontier = found.frontier
    assert [time.wall for time in seen] == list(range(5, 12))


def test_a_reader_amid_changes_gets_their_rest() -> None:
    log = ChangesLog(at(5), 10_000)
    log.add(changes(5, 12))
    found = log.after(at(9))
    assert found is not None
    assert (found.before, [time.wall for time in found.times]) == (at(9), [9, 10, 11])


def test_a_reader_that_is_ahead_waits() -> None:
    log = ChangesLog(at(5), 10_000)
    log.add(changes(5, 12))
    assert log.after(at(12)) is None
    assert log.holds(at(20))
    assert log.after(at(20)) is None


def test_a_gap_and_a_repeat_are_refused() -> None:
    log = ChangesLog(at(5), 10_000)
    log.add(changes(5, 8))
    for before in (7, 9):
        with pytest.raises(ValueError, match="do not follow"):
            log.add(changes(before, 12))


def test_the_oldest_changes_go_and_the_last_ones_stay() -> None:
    log = ChangesLog(at(0), 250)
    for wall in range(5):
        log.add(changes(wall, wall + 1))
    assert (log.begin, log.end, log.held_bytes) == (at(3), at(5), 200)
    assert not log.holds(at(2))
    log.add(changes(5, 6, 10_000))
    assert (log.begin, log.held_bytes) == (at(5), 10_000)
