"""A feed's publisher does everything else while markers have to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from stack.kafka import KafkaBroker
from tests.unit.worker.markers.publishing import FEED, SPAN, Held, Publishing, checkpoint, part, until
from tidegate.changefeed.definition.feed import FeedEpoch, FeedState
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.job_records import SpansRecord
from tidegate.delivery import back_off
from tidegate.errors import ProducerFenced
from tidegate.hlc import NANOS_PER_SECOND, ResolvedTimestamp, Timestamp
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.spans import Span
from tidegate.worker.markers import feed_publisher

pytestmark = pytest.mark.broker
_LEFT, _RIGHT = Span(SPAN.start, SPAN.start + b"m"), Span(SPAN.start + b"m", SPAN.end)


@pytest.fixture
def publishing(broker: KafkaBroker, topic_prefix: str) -> Iterator[Publishing]:
    with ThreadPoolExecutor(2) as threads:
        yield Publishing(broker, topic_prefix, threads)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_off, "_FIRST_S", 0.01)
    monkeypatch.setattr(feed_publisher, "_SPANS_S", 0.05)
    monkeypatch.setattr(feed_publisher, "_LATE_S", 3_600.0)  # longer than any test, on any machine


def test_progress_is_persisted_while_markers_wait(publishing: Publishing) -> None:
    async def main() -> None:
        held = Held(publishing.topic)
        async with publishing.publisher(held) as (publisher, follower):
            for wall in (10, 20):
                publisher.apply(checkpoint(wall))
                await until(lambda: follower.view[FEED.feed_id].high_water == Timestamp(wall))  # noqa: B023
            assert publishing.written() == []
            held.prepared.set()
            await until(lambda: publishing.written() == [20])  # the newest says all

    asyncio.run(main())


def test_an_owner_that_begins_when_the_feed_has_ended_repeats_no_marker(publishing: Publishing) -> None:
    publishing.persisted(10)

    async def main() -> None:
        held = Held(publishing.topic)
        held.prepared.set()
        publishing.tell(replace(publishing.state, state=FeedState.DROPPED))
        async with publishing.publisher(held) as (publisher, _):
            await asyncio.shield(publisher._task)

    asyncio.run(main())
    assert publishing.written() == []


def test_an_owner_that_is_fenced_because_the_feed_has_ended_goes_quietly(publishing: Publishing) -> None:
    async def main() -> None:
        held = Held(publishing.topic)
        held.prepared.set()
        async with publishing.publisher(held) as (publisher, follower):
            publisher.apply(checkpoint(10))
            await until(lambda: publishing.written() == [10])
            publishing.tell(replace(publishing.state, state=FeedState.FAILED, error="no schema fits"))
            await asyncio.to_thread(publishing.fence)
            publisher.apply(checkpoint(20))
            await asyncio.shield(publisher._task)
            assert follower.view[FEED.feed_id].high_water == Timestamp(10)

    asyncio.run(main())
    assert publishing.written() == [10]


def test_an_owner_that_is_fenced_while_it_lets_go_of_the_feed_goes_quietly(publishing: Publishing) -> None:
    """It may be fenced by the end of the feed, and be closed before it has read of that."""

    async def main() -> None:
        held = Held(publishing.topic)
        held.prepared.set()
        async with publishing.publisher(held) as (publisher, _):
            publisher.apply(checkpoint(10))
            await until(lambda: publishing.written() == [10])
            held.goes_on.clear()
            publisher.apply(checkpoint(20))
            await until(lambda: held.waits)
            await asyncio.to_thread(publishing.fence)
            closing = asyncio.ensure_future(publisher.close())
            await asyncio.sleep(0)
            held.goes_on.set()
            await closing

    asyncio.run(main())
    assert publishing.written() == [10]


def test_an_owner_that_is_fenced_begins_anew_once_and_ends_when_another_one_insists(
    publishing: Publishing, ended: list[BaseException]
) -> None:
    """A request that was late fences once. An owner that is there does so again."""

    async def main() -> None:
        held = Held(publishing.topic)
        held.prepared.set()
        async with publishing.publisher(held) as (publisher, _):
            publisher.apply(checkpoint(10))
            await until(lambda: publishing.written() == [10])
            await asyncio.to_thread(publishing.fence)
            await publishing.until_marked(publisher, 20)
            assert not ended
            await asyncio.to_thread(publishing.fence)
            publisher.apply(checkpoint(30))
            await until(lambda: bool(ended))

    asyncio.run(main())
    assert isinstance(ended.pop(), ProducerFenced)
    assert publishing.written() == [10, 10, 20]  # who begins anew repeats what may be owed


def test_an_owner_that_gave_openings_up_may_be_fenced_by_each_of_them(
    publishing: Publishing, ended: list[BaseException]
) -> None:
    """Kafka may get to their requests long after they were sent. Each fences once."""

    async def main() -> None:
        held = Held(publishing.topic)
        held.prepared.set()
        async with publishing.publisher(held) as (publisher, _):
            publisher._late_opens = [asyncio.get_running_loop().time()] * 2
            for wall in (10, 20, 30):
                await publishing.until_marked(publisher, wall)
                await asyncio.to_thread(publishing.fence)
            await publishing.until_marked(publisher, 40)
            assert not ended
            await asyncio.to_thread(publishing.fence)
            publisher.apply(checkpoint(50))
            await until(lambda: bool(ended))

    asyncio.run(main())
    assert isinstance(ended.pop(), ProducerFenced)


def test_a_publisher_closes_while_its_markers_wait(publishing: Publishing) -> None:
    publishing.persisted(10)

    async def main() -> None:
        async with publishing.publisher(Held(publishing.topic)) as (publisher, _):
            await until(lambda: publisher.frontier is not None)

    asyncio.run(main())  # closing is timed by the publisher's context
    assert publishing.written() == []


def test_the_marker_that_a_former_owner_may_not_have_written_is_written_late(publishing: Publishing) -> None:
    publishing.persisted(10)

    async def main() -> None:
        held = Held(publishing.topic)
        async with publishing.publisher(held) as (publisher, _):
            await until(lambda: publisher.frontier is not None)
            held.prepared.set()
            await until(lambda: publishing.written() == [10])
            publisher.apply(checkpoint(20))
            await until(lambda: publishing.written() == [10, 20])

    asyncio.run(main())


def test_a_marker_that_failed_is_tried_again_without_news(publishing: Publishing) -> None:
    publishing.persisted(10)

    async def main() -> None:
        held = Held(publishing.topic, failures=3)
        held.prepared.set()
        async with publishing.publisher(held):
            await until(lambda: publishing.written() == [10])

    asyncio.run(main())


def test_markers_that_fail_do_not_hold_progress_back(publishing: Publishing) -> None:
    async def main() -> None:
        held = Held(publishing.topic, failures=10**9)
        held.prepared.set()
        async with publishing.publisher(held) as (publisher, follower):
            for wall in (10, 20):
                publisher.apply(checkpoint(wall))
                await until(lambda: follower.view[FEED.feed_id].high_water == Timestamp(wall))  # noqa: B023
        assert publishing.written() == []

    asyncio.run(main())


def leave_a_laggard(publishing: Publishing) -> None:
    """An owner that dies while one span lags: H is 20, and the span beside is an hour ahead."""

    async def owner() -> None:
        held = Held(publishing.topic)
        async with publishing.publisher(held) as (publisher, follower):
            publisher.apply(part(_LEFT, 20))
            publisher.apply(part(_RIGHT, 3_600 * NANOS_PER_SECOND, partition=1))
            view = follower.view
            await until(lambda: bool(view[FEED.feed_id].ahead) and view[FEED.feed_id].high_water is not None)

    asyncio.run(owner())


def next_owner(publishing: Publishing, *reports: PartitionProgress) -> tuple[int, Mapping[int, int]]:
    """The wall of the high-water that the next owner persists after these reports, and the positions."""

    async def owner() -> tuple[int, Mapping[int, int]]:
        async with publishing.publisher(Held(publishing.topic)) as (publisher, follower):
            await until(lambda: publisher.frontier is not None)
            for report in reports:
                publisher.apply(report)
            view = follower.view
            frontier = publisher.frontier
            assert frontier is not None
            await until(lambda: view[FEED.feed_id].high_water == frontier.high_water)
            progress = view[FEED.feed_id].progress
            assert progress is not None
            return progress.high_water.wall, progress.positions

    return asyncio.run(owner())


_CAUGHT_UP = 1_800 * NANOS_PER_SECOND


def test_a_restart_keeps_what_other_spans_had_reached(publishing: Publishing) -> None:
    """Only the span that lags has to report: the others need not have anything new to say."""
    leave_a_laggard(publishing)
    wall, positions = next_owner(publishing, part(_LEFT, _CAUGHT_UP))
    assert wall == _CAUGHT_UP
    assert positions == {0: _CAUGHT_UP + 1, 1: 3_600 * NANOS_PER_SECOND + 1}


def test_a_restart_never_begins_above_what_was_committed(publishing: Publishing) -> None:
    leave_a_laggard(publishing)
    assert next_owner(publishing)[0] == 20
    assert publishing.written() == []


def test_a_high_water_that_only_the_spans_tell_is_persisted_before_its_marker(publishing: Publishing) -> None:
    """The spans were committed a moment before the high-water that follows from them was due."""
    publishing.persisted(20)
    at = ResolvedTimestamp(Timestamp(_CAUGHT_UP))
    publishing.tell(SpansRecord(FEED.feed_id, FEED.definition.epoch, ((SPAN, at),)))

    async def owner() -> None:
        held = Held(publishing.topic)
        async with publishing.publisher(held) as (_, follower):
            await until(lambda: follower.view[FEED.feed_id].high_water == at)
            assert publishing.written() == []
            held.prepared.set()
            await until(lambda: publishing.written() == [20, _CAUGHT_UP])

    asyncio.run(owner())


def test_a_lost_record_of_spans_costs_time_only(publishing: Publishing) -> None:
    leave_a_laggard(publishing)
    publishing.tell(SpansRecord(FEED.feed_id, FEED.definition.epoch, ()))
    assert next_owner(publishing, part(_LEFT, _CAUGHT_UP))[0] == 20
    everything = (part(_LEFT, _CAUGHT_UP), part(_RIGHT, 3_600 * NANOS_PER_SECOND, partition=1))
    assert next_owner(publishing, *everything)[0] == _CAUGHT_UP


def test_spans_of_an_earlier_epoch_are_nobody_s(publishing: Publishing) -> None:
    leave_a_laggard(publishing)
    later = ResolvedTimestamp(Timestamp(3_600 * NANOS_PER_SECOND))
    publishing.tell(SpansRecord(FEED.feed_id, FeedEpoch(7), ((_RIGHT, later),)))
    assert next_owner(publishing, part(_LEFT, _CAUGHT_UP))[0] == 20


def test_spans_that_are_no_longer_ahead_are_taken_away(publishing: Publishing) -> None:
    leave_a_laggard(publishing)

    async def owner() -> None:
        async with publishing.publisher(Held(publishing.topic)) as (publisher, follower):
            publisher.apply(part(_LEFT, 3_601 * NANOS_PER_SECOND))
            await until(lambda: follower.view[FEED.feed_id].ahead == ())

    asyncio.run(owner())


def test_a_scan_that_is_not_done_persists_no_high_water_and_claims_none(publishing: Publishing) -> None:
    async def main() -> None:
        held = Held(publishing.topic)
        held.prepared.set()
        async with publishing.publisher(held, InitialScan.YES) as (publisher, follower):
            publisher.apply(part(_LEFT, 3_600 * NANOS_PER_SECOND))
            view = follower.view
            await until(lambda: bool(view[FEED.feed_id].ahead))
            report = publisher.report()
            assert report is not None
            assert (report.high_water, report.resolved_lag_ms, report.persisted) == (None, None, None)
            assert report.laggard_resolved == str(publishing.state.start)
            assert view[FEED.feed_id].high_water is None
            assert publishing.written() == []
            publisher.apply(part(_RIGHT, 20, partition=1))
            await until(lambda: publishing.written() == [20])
            await until(lambda: view[FEED.feed_id].high_water == Timestamp(20))  # the view may lag

    asyncio.run(main())


def test_a_scan_that_is_done_is_persisted_at_its_start_and_goes_no_further(publishing: Publishing) -> None:
    """Steps Z2 and Z3 of docs/protocols/initial-scans.md; the second owner finds what the first one left."""

    async def owner(first: PartitionProgress, second: PartitionProgress) -> None:
        held = Held(publishing.topic)
        held.prepared.set()
        async with publishing.publisher(held, InitialScan.ONLY) as (publisher, follower):
            publisher.apply(first)
            publisher.apply(second)
            await until(lambda: follower.view[FEED.feed_id].high_water == publishing.state.start)
            await until(lambda: publisher.report() is not None)
            report = publisher.report()
            assert report is not None
            assert (report.high_water, report.marker) == (str(publishing.state.start), None)

    for wall in (3_600 * NANOS_PER_SECOND, 3_700 * NANOS_PER_SECOND):
        asyncio.run(owner(part(_LEFT, wall), part(_RIGHT, 20, partition=1)))
    assert publishing.written() == []


def test_a_scan_whose_end_was_not_persisted_is_told_again_by_its_partitions(publishing: Publishing) -> None:
    """A crash between Z2 and Z3: what was reported to the first owner is nowhere."""

    async def dies() -> None:
        async with publishing.publisher(Held(publishing.topic), InitialScan.ONLY) as (publisher, _):
            await until(lambda: publisher.frontier is not None)
            assert publisher.frontier is not None
            reported = [SPAN.start], [SPAN.end], [ResolvedTimestamp(Timestamp(20))]
            publisher.frontier.apply_columns(0, 20, *reported)

    async def successor() -> None:
        async with publishing.publisher(Held(publishing.topic), InitialScan.ONLY) as (publisher, follower):
            await until(lambda: publisher.frontier is not None)
            assert follower.view[FEED.feed_id].high_water is None
            publisher.apply(checkpoint(30))
            await until(lambda: follower.view[FEED.feed_id].high_water == publishing.state.start)

    asyncio.run(dies())
    asyncio.run(successor())
