"""Sinks that do not follow: how long they are waited for, and that nothing is lost
(docs/protocols/slow-sinks.md, K1)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worker.commit.judged_commits import (
    FAST,
    POSITION,
    SLOW,
    STALL_S,
    VALUE_BYTES,
    Kafka,
    Owner,
    detached,
    in_a_loop,
    row_of,
    started,
)
from tidegate.changefeed.definition.feed import FeedEpoch, FeedId
from tidegate.changefeed.lifecycle.control import Remove
from tidegate.worker.output.outlet import OutletReport, OutletState


def test_a_slow_sink_is_waited_for_no_longer_than_the_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path)
        await owner.queue_records(3)
        await owner.passes(STALL_S - 1)
        assert owner.kafka.position == -1
        await owner.passes(3)
        assert (owner.kafka.position, owner.kafka.gap(SLOW), owner.kafka.gap(FAST)) == (2, 0, None)
        await owner.queue_records(20)
        assert (owner.kafka.position, owner.kafka.named(FAST), owner.kafka.named(SLOW)) == (22, 22, -1)
        assert owner.kafka.sinks[FAST].offsets == list(range(23))
        await owner.die()

    in_a_loop(scenario)


def test_the_sink_is_back_and_everything_is_as_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await detached(tmp_path)
        await owner.queue_records(20)
        assert owner.report(SLOW).spool_bytes > 20 * VALUE_BYTES
        await owner.comes_back(SLOW)
        assert owner.kafka.sinks[SLOW].offsets == list(range(23)), "in order, and nothing twice"
        assert owner.kafka.sinks[SLOW].topic[-1] == row_of(SLOW, 22)
        assert (owner.kafka.gap(SLOW), owner.kafka.named(SLOW)) == (None, 22)
        assert owner.report(SLOW) == OutletReport(SLOW)
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_a_sink_that_comes_back_in_time_is_not_detached(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path)
        for _ in range(5):
            await owner.queue_records(2)
            await owner.passes(STALL_S - 2)
            await owner.acknowledge(SLOW, 2)
        assert all(not result.acks for group in owner.kafka.transactions for result in group)
        assert (owner.report(SLOW).state, owner.kafka.named(SLOW)) == (OutletState.LIVE, 9)
        await owner.die()

    in_a_loop(scenario)


def test_a_batch_may_wait_as_long_as_the_limit_once_it_is_the_oldest(tmp_path: Path) -> None:
    """A sink that is only busy acknowledges one after the other."""

    async def scenario() -> None:
        owner = started(tmp_path)
        await owner.queue_records(3)
        for _ in range(3):
            await owner.passes(STALL_S - 2)
            await owner.acknowledge(SLOW, 1)
        assert (owner.report(SLOW).state, owner.kafka.position) == (OutletState.LIVE, 2)
        await owner.die()

    in_a_loop(scenario)


def test_time_in_which_nobody_looked_does_not_count(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path)
        await owner.queue_records(1)
        await owner.passes(1)
        owner.now += 3_600
        await owner.passes(2)
        assert owner.report(SLOW).state is OutletState.LIVE
        await owner.passes(STALL_S)
        assert owner.report(SLOW).state is OutletState.SPOOLING
        await owner.die()

    in_a_loop(scenario)


def test_too_much_in_memory_is_waited_for_a_quarter_of_the_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path, memory_bytes=VALUE_BYTES)
        await owner.queue_records(3)
        assert owner.processor.position == 0, "nothing more is stepped"
        await owner.passes(STALL_S / 2)
        assert owner.report(SLOW).state is OutletState.LIVE, "a single batch could not come in parts"
        owner.commit_loop.outlets._outlets[SLOW]._limits = replace(
            owner.commit_loop.outlets._limits, memory_bytes=VALUE_BYTES * 3 // 2
        )
        await owner.passes(2)
        assert owner.processor.position == 1
        await owner.passes(STALL_S / 4)
        assert owner.report(SLOW).state is OutletState.SPOOLING
        await owner.die()

    in_a_loop(scenario)


def test_messages_about_feeds_are_taken_up_while_there_is_too_much_in_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path, memory_bytes=VALUE_BYTES)
        await owner.queue_records(3)
        await owner.tell(Remove(SLOW, FeedEpoch(1)))
        assert (owner.processor.position, list(owner.processor.feeds)) == (0, [FAST])
        await owner.passes(STALL_S + 2)
        assert (owner.kafka.position, list(owner.kafka.state)) == (2, [FAST.encode(), POSITION])
        await owner.commit_loop.drain()

    in_a_loop(scenario)


@pytest.mark.long
def test_a_feed_that_is_dropped_is_given_no_more_time_for_having_flapped(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await detached(tmp_path, spool_bytes=0)
        await owner.queue_records(60)
        for _ in range(6):
            await owner.flaps(SLOW)
        while owner.report(SLOW).state is not OutletState.LIVE:
            await owner.acknowledge(SLOW, 100)
            await owner.passes(1)
        committed = owner.kafka.position
        await owner.queue_records(1)
        await owner.tell(Remove(SLOW, FeedEpoch(1)))
        for _ in range(int(STALL_S) + 2):
            await owner.acknowledge(SLOW, 1)
            await owner.passes(1)
        assert owner.kafka.position > committed
        assert SLOW.encode() not in owner.kafka.state
        await owner.die()

    in_a_loop(scenario)


def test_a_slow_sink_is_given_more_time_for_what_a_scan_gives_at_once(tmp_path: Path) -> None:
    """It acknowledges a row each second, and the scan gives more rows than the limit has seconds."""

    async def scenario() -> None:
        owner = await detached(tmp_path, spool_bytes=0)
        await owner.queue_records(40)
        for _ in range(600):
            await owner.acknowledge(SLOW, 1)
            await owner.passes(1)
        assert (owner.report(SLOW), owner.kafka.gap(SLOW)) == (OutletReport(SLOW), None)
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_a_sink_that_stops_is_given_no_more_time_than_the_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await detached(tmp_path, spool_bytes=0)
        await owner.queue_records(40)
        for _ in range(6):
            await owner.flaps(SLOW)
        while owner.report(SLOW).state is not OutletState.LIVE:
            await owner.acknowledge(SLOW, 100)
            await owner.passes(1)
        await owner.queue_records(1)
        await owner.passes(STALL_S + 2)
        assert owner.report(SLOW).state is OutletState.STALLED
        await owner.die()

    in_a_loop(scenario)


_EVENTS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("queue_records"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["fast", "slow"]), st.integers(1, 5)),
        st.tuples(st.sampled_from(["passes"]), st.sampled_from([1, 2, 4, 10])),
        st.tuples(st.sampled_from(["die", "let go", "a little room", "much room"]), st.just(0)),
    ),
    max_size=30,
)


@given(_EVENTS, st.sampled_from([0, 500, 1 << 20]), st.integers(1, 4))
def test_whatever_comes_in_whatever_order_nothing_is_lost_and_no_key_is_reordered(
    events: list[tuple[str, int]], spool_bytes: int, inflight: int
) -> None:
    """Each transaction is judged as it is committed; in the end every sink has everything."""

    async def scenario() -> None:
        directory = Path(mkdtemp())
        owner = Owner(Kafka(FAST, SLOW), directory, spool_bytes, inflight=inflight)
        for what, number in events:
            owner = await _act(owner, what, number)
        for sink in owner.kafka.sinks.values():
            sink.room = 1_000
            sink.comes_back()
        await owner.queue_records(owner.kafka.log_end - owner.next + 2)
        await owner.passes(40)
        end = owner.next
        for feed_id, sink in owner.kafka.sinks.items():
            assert set(sink.offsets) == set(range(end))
            seen = sink.first_seen().values()
            assert all(offsets == sorted(offsets) for offsets in seen), "a key is reordered"
            assert owner.kafka.named(feed_id) == end - 1
            assert owner.report(feed_id) == OutletReport(feed_id)
        await owner.commit_loop.drain()

    in_a_loop(scenario)


async def _act(owner: Owner, what: str, number: int) -> Owner:
    match what:
        case "queue_records":
            await owner.queue_records(number)
        case "passes":
            await owner.passes(number)
        case "fast" | "slow":
            await owner.acknowledge(FeedId(what), number)
        case "a little room" | "much room":
            for sink in owner.kafka.sinks.values():
                sink.room = 1 if what == "a little room" else 1_000
        case "let go":
            draining = asyncio.ensure_future(owner.commit_loop.drain())
            await owner.passes(2 * STALL_S + 4)
            assert draining.done()
            return Owner(owner.kafka, owner.directory, owner.spool_bytes, inflight=owner.inflight)
        case _:
            await owner.die()
            return Owner(owner.kafka, owner.directory, owner.spool_bytes, inflight=owner.inflight)
    return owner
