"""Copies are paid for by the records of a log."""

from __future__ import annotations

import time

import pytest

from tidegate.logcheck.memory import CopyCredit, Recent


def test_a_record_pays_for_copies_and_more_if_it_lists_more() -> None:
    credit = CopyCredit(aborted=10)
    assert credit.spend(100_000)
    assert not credit.spend(1)
    credit.earn(0)
    assert credit.spend(20)
    credit.earn(5)
    assert not credit.spend(61)
    assert credit.spend(60)


def test_as_many_entries_as_there_is_room_for_are_remembered() -> None:
    recent: Recent[int, None] = Recent(3)
    recent.put_all(range(2, 5), None)
    assert not recent.forgot, "there is room"


def test_of_many_entries_the_last_are_remembered() -> None:
    recent: Recent[int, None] = Recent(3)
    recent.put_all(range(5), None)
    assert recent.forgot
    assert [*recent] == [2, 3, 4]
    assert len(recent) == 3


def test_an_entry_that_is_put_again_is_the_newest() -> None:
    recent: Recent[int, str] = Recent(3)
    for key in (1, 2, 3, 1, 4):
        recent.put(key, "")
    assert [*recent] == [3, 1, 4]


@pytest.mark.long
def test_to_forget_the_oldest_entry_takes_as_long_as_to_put_one() -> None:
    """Of a log with more keys than are remembered, each version has one forgotten."""
    limit = 100_000
    recent: Recent[int, None] = Recent(limit)

    def put(first: int) -> float:
        begun = time.process_time()
        for key in range(first, first + limit):
            recent.put(key, None)
        return time.process_time() - begun

    below = put(0)
    assert min(put(limit), put(2 * limit)) < 10 * below + 0.05
