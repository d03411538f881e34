"""Copies are paid for by the records of a log."""

from __future__ import annotations

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
