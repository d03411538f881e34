"""Threads take turns: long work gives way to what has waited."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from tidegate.serve import turn_threads
from tidegate.serve.turn_threads import Turns, TurnThreads


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_threads, "TURN_S", 0.0)


def test_so_many_work_at_a_time_and_the_others_wait_for_their_turn() -> None:
    threads = TurnThreads(8, Turns(2), "t")
    inside, most, lock, go = 0, 0, threading.Lock(), threading.Event()

    def work() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        go.wait(5)
        with lock:
            inside -= 1

    made = [threads.submit(work) for _ in range(8)]
    go.set()
    for each in made:
        each.result(10)
    assert most <= 2
    threads.shutdown()


def test_work_that_pauses_gives_its_turn_to_what_has_waited_longest() -> None:
    threads = TurnThreads(8, Turns(1), "t")
    begun, others, order = threading.Event(), threading.Event(), list[str]()

    def long() -> None:
        begun.set()
        others.wait(10)
        for number in range(3):
            order.append(f"long {number}")
            threads.turns.pause()
        order.append("long ends")

    def short(name: str) -> None:
        order.append(name)

    slow = threads.submit(long)
    begun.wait(10)
    shorts: list[Future[None]] = [threads.submit(short, name) for name in ("first", "second")]
    while len(threads.turns.waiting) < 2:
        slow.exception(0.001) if slow.done() else None
    others.set()
    for each in (slow, *shorts):
        each.result(10)
    assert sorted(order[1:3]) == ["first", "second"]
    assert order[0] == "long 0"
    assert order[-1] == "long ends"
    threads.shutdown()


def test_an_error_gives_the_turn_back_and_a_pause_elsewhere_does_nothing() -> None:
    threads = TurnThreads(2, Turns(1), "t")
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            threads.submit(divmod, 1, 0).result(10)
    threads.turns.pause()
    assert threads.submit(divmod, 5, 3).result(10) == (1, 2)
    threads.shutdown()


def test_threads_beside_others_begin_though_those_have_begun_all_they_may() -> None:
    threads = TurnThreads(1, Turns(1), "t")
    whole, ends = TurnThreads(1, threads.turns, "whole"), threading.Event()

    def long() -> None:
        while not ends.is_set():
            threads.turns.pause()

    slow = whole.submit(long)
    assert threads.submit(lambda: "short").result(10) == "short"
    ends.set()
    slow.result(10)
    assert threads.submit(lambda: "short").result(10) == "short"
    assert threads.turns._free == 1
    whole.shutdown()
    threads.shutdown()
