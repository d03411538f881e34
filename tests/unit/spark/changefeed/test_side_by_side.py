"""Calls for many feeds: all of them end, and few run at once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier, Event, Lock
from typing import Any

import pytest

from tidegate.spark.changefeed.side_by_side import AT_ONCE, SideBySide, require_all

_MANY = 3 * AT_ONCE


@pytest.fixture
def together() -> Iterator[SideBySide]:
    with closing(SideBySide("tests")) as threads:
        yield threads


def test_as_many_run_at_once_as_may_and_no_more(together: SideBySide) -> None:
    met, counting = Barrier(AT_ONCE), Lock()
    running, most = 0, 0

    def call(_: int) -> None:
        nonlocal running, most
        with counting:
            running += 1
            most = max(most, running)
        met.wait(60)  # nobody goes on before as many are there
        with counting:
            running -= 1

    require_all(together.call(call, {number: number for number in range(_MANY)}))
    assert most == AT_ONCE


def test_answers_come_in_the_order_of_the_questions(together: SideBySide) -> None:
    calls = together.call(str, {number: number for number in range(_MANY)})
    assert [(key, call.result()) for key, call in calls.items()] == [
        (each, str(each)) for each in range(_MANY)
    ]


def test_an_exception_ends_no_other_call(together: SideBySide) -> None:
    calls = together.call(lambda number: 1 // number, {number: number for number in (2, 0, 1)})
    assert [key for key, call in calls.items() if call.exception() is None] == [2, 1]
    assert calls[1].result() == 1
    with pytest.raises(ZeroDivisionError):
        require_all(calls)


def test_who_closes_keeps_nobody_waiting_who_has_asked() -> None:
    together, all_asked, closed = SideBySide("tests"), Event(), Event()

    class Questions(dict[int, int]):
        """Questions that tell when the last of them has been asked."""

        def items(self) -> Any:
            yield from super().items()
            all_asked.set()

    def call(number: int) -> int:
        assert closed.wait(60)
        return number

    with ThreadPoolExecutor(1) as other:
        asked = other.submit(together.call, call, Questions({number: number for number in range(_MANY)}))
        assert all_asked.wait(60)
        together.close()
        closed.set()
        assert [answer.result() for answer in asked.result(60).values()] == [*range(_MANY)]


def test_nothing_to_do_is_done(together: SideBySide) -> None:
    assert together.call(str, {}) == {}
