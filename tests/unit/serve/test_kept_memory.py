"""One bound for what many keep: it counts what is there, and no more."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import LimitExceeded
from tidegate.serve.kept_memory import KeptMemory, KeptShare
from tidegate.subscribe.updates.process_share import STEP_BYTES, HeldRows


class Holder:
    """Something that takes memory."""


HOLDS = st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 100)), max_size=60)


@given(HOLDS)
def test_it_counts_what_holders_said_last_until_they_are_gone(
    holds: list[tuple[int, int | None]],
) -> None:
    kept_memory = KeptMemory(150)
    holders: dict[int, Holder] = {}
    counts: dict[int, int] = {}
    for number, count in holds:
        if count is None:
            holders.pop(number, None)
            counts.pop(number, None)
        else:
            holder, before = holders.setdefault(number, Holder()), counts.get(number, 0)
            fits = count <= before or sum(counts.values()) - before + count <= 150
            if fits:
                kept_memory.hold(holder, count)
                counts[number] = count
            else:
                with pytest.raises(LimitExceeded, match="all subscriptions together keep more than"):
                    kept_memory.hold(holder, count)
            del holder
        assert kept_memory.is_scarce == (sum(counts.values()) > 75)  # who is gone is forgotten there
        assert kept_memory.taken == sum(counts.values())


def test_rows_of_a_closed_subscription_count_for_nothing_though_somebody_has_them() -> None:
    kept_memory = KeptMemory(10 * STEP_BYTES)
    share, other = kept_memory.share(), kept_memory.share()
    rows, more = HeldRows(share), HeldRows(other)
    rows.add(6 * STEP_BYTES)
    with pytest.raises(LimitExceeded):
        more.add(6 * STEP_BYTES)
    share.close()
    assert kept_memory.taken == 0
    more.set(6 * STEP_BYTES)
    rows.add(STEP_BYTES)
    assert kept_memory.taken == 6 * STEP_BYTES


@given(st.lists(st.integers(-STEP_BYTES, STEP_BYTES), max_size=100))
def test_what_is_counted_is_a_step_from_what_is_there_at_most(changes: list[int]) -> None:
    kept_memory = KeptMemory(1 << 40)
    rows = HeldRows(kept_memory.share())
    there = 0
    for change in changes:
        there += change
        rows.add(change)
        assert abs(kept_memory.taken - there) < STEP_BYTES


def test_threads_that_count_at_once_lose_nothing() -> None:
    kept_memory = KeptMemory(1 << 40)

    def count() -> None:
        for _ in range(200):
            rows = HeldRows(kept_memory.share())
            rows.add(STEP_BYTES)
            rows.add(STEP_BYTES)
        kept.append(rows)

    kept: list[HeldRows] = []
    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept_memory.is_scarce is False
    assert kept_memory.taken == 4 * 2 * STEP_BYTES


def test_a_thread_that_counts_while_its_subscription_is_closed_leaves_nothing_counted() -> None:
    counting, closes = threading.Event(), threading.Event()

    class SlowMemory(KeptMemory):
        def hold(self, holder: object, count: int) -> None:
            if count:
                counting.set()
                assert closes.wait(10)
            super().hold(holder, count)

    memory = SlowMemory(1_000_000)
    share, rows = KeptShare(memory), HeldRows(None)
    counts = threading.Thread(target=share.hold, args=(rows, 500_000))
    closing = threading.Thread(target=share.close)
    counts.start()
    assert counting.wait(10)
    closing.start()
    closing.join(0.1)  # it may be done before the other thread counts
    closes.set()
    counts.join(10)
    closing.join(10)
    assert memory.taken == 0
