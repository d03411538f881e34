"""The cycle collector is as it was when a slowdown ends."""

from __future__ import annotations

import gc
import threading
from weakref import ref

import pytest

from tidegate.client.subscribe.collector_pace import collector_slowed


def test_the_collector_runs_as_before_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), collector_slowed():
        _ = 1 / (gc.get_threshold() == before)  # it is not, within the slowdown
    assert gc.get_threshold() == before


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_slowed():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_cycles_are_collected_within_a_slowdown_however_long_it_lasts() -> None:
    class Cycle:
        pass

    with collector_slowed():
        first = Cycle()
        gone = ref(first)
        first.itself = first  # type: ignore[attr-defined]
        del first
        kept: list[list[int]] = []
        while gone() is not None:
            kept.append([])
            assert len(kept) < 2_000_000


def test_slowdowns_of_several_threads_end_when_the_last_one_does() -> None:
    before = gc.get_threshold()
    inside, go = threading.Barrier(3), threading.Event()

    def slowed() -> None:
        with collector_slowed():
            inside.wait(10)
            go.wait(10)

    threads = [threading.Thread(target=slowed) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait(10)
    with collector_slowed():
        pass
    assert gc.get_threshold() != before
    go.set()
    for thread in threads:
        thread.join()
    assert gc.get_threshold() == before
