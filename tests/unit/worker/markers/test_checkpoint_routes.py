"""A checkpoint is applied to the feeds that it names, in the epochs that it names them in."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FeedEpoch, FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span
from tidegate.worker.markers.checkpoint_routes import CheckpointRoutes
from tidegate.worker.markers.early_reports import EarlyReports

_FEED = activation([HandTable.of(104, "plain").descriptor], feed_id="a").definition
_START = Timestamp(1)
_LEFT, _RIGHT = Span(b"a", b"m"), Span(b"m", b"z")
_GENERATIONS = count(1)


class Feed:
    """A feed on two ranges, with the frontier that decides its markers."""

    def __init__(
        self, feed_id: str, epoch: int = 1, start: Timestamp = _START, scan: InitialScan = InitialScan.NO
    ) -> None:
        self.definition = replace(_FEED, id=FeedId(feed_id), epoch=FeedEpoch(epoch))
        self.frontier: FeedFrontier | None = FeedFrontier([_LEFT, _RIGHT], start, 0, scan=scan)
        self.rises = 0

    def apply(self, report: PartitionProgress) -> None:
        columns = (report.starts, report.ends, report.resolved)
        self.rises += self.own.apply_columns(report.partition, report.offset, *columns)

    @property
    def own(self) -> FeedFrontier:
        assert self.frontier is not None
        return self.frontier

    @property
    def wall(self) -> int:
        return self.own.high_water.wall


def _report(
    wall: int, *feeds: tuple[str, int], spans: tuple[Span, ...] = (_LEFT, _RIGHT)
) -> PartitionProgress:
    """A checkpoint at ``wall`` for (feed, epoch)s."""
    return PartitionProgress(
        0,
        Offset(wall),
        tuple(ActiveFeed(FeedId(feed_id), FeedEpoch(epoch)) for feed_id, epoch in feeds),
        [span.start for span in spans],
        [span.end for span in spans],
        [ResolvedTimestamp(Timestamp(wall))] * len(spans),
        [RangeId(int.from_bytes(span.start + span.end, "big")) for span in spans],
        [Generation(next(_GENERATIONS)) for _ in spans],  # each takes its keys from those before
    )


def _routes(*feeds: Feed, unknown: bool = False, share_reports: int = 500) -> CheckpointRoutes[Feed]:
    routes: CheckpointRoutes[Feed] = CheckpointRoutes(lambda _: unknown, share_reports)
    for feed in feeds:
        routes.begin(feed)
    return routes


def test_a_feed_that_is_not_named_stays_where_it_was() -> None:
    named, other = Feed("a"), Feed("b")
    _routes(named, other).deliver([_report(9, ("a", 1))])
    assert (named.wall, other.wall) == (9, 1)


def test_a_batch_in_which_only_some_checkpoints_name_a_feed_counts_by_those() -> None:
    """They are merged, but never with one for other feeds."""
    first, second = Feed("a"), Feed("b")
    both = (("a", 1), ("b", 1))
    _routes(first, second).deliver([_report(5, *both), _report(6, *both), _report(9, ("a", 1))])
    assert (first.wall, second.wall) == (9, 6)


def test_another_epoch_is_another_feed() -> None:
    feed = Feed("a", epoch=2)
    _routes(feed).deliver([_report(9, ("a", 1)), _report(8, ("a", 3))])
    assert feed.wall == 1


def test_a_range_whose_checkpoint_does_not_name_the_feed_holds_it_back() -> None:
    feed = Feed("a")
    _routes(feed).deliver([_report(9, ("a", 1), spans=(_LEFT,)), _report(9, ("b", 1), spans=(_RIGHT,))])
    assert feed.wall == 1
    assert feed.own.laggard() == _RIGHT


def test_what_came_before_the_feed_began_counts_for_its_epoch_only() -> None:
    routes = _routes(unknown=True)
    routes.deliver([_report(7, ("a", 1)), _report(5, ("a", 2))])
    feed = Feed("a", epoch=2)
    routes.begin(feed)
    assert feed.wall == 5


def test_a_checkpoint_for_the_next_epoch_is_kept_while_the_old_one_runs() -> None:
    old, new = Feed("a"), Feed("a", epoch=2)
    routes = _routes(old)
    routes.deliver([_report(7, ("a", 2))])
    assert routes.end(old.definition.id) is old
    routes.begin(new)
    assert (old.wall, new.wall) == (1, 7)


def test_nothing_is_kept_for_a_feed_that_has_ended() -> None:
    routes = _routes()
    routes.deliver([_report(7, ("a", 1))])
    feed = Feed("a")
    routes.begin(feed)
    assert feed.wall == 1


def test_a_forgotten_feed_has_nothing_early() -> None:
    routes = _routes(unknown=True)
    routes.deliver([_report(7, ("a", 1)), _report(7, ("a", 2))])
    routes.forget(FeedId("a"))
    feed = Feed("a")
    routes.begin(feed)
    assert feed.wall == 1


def test_early_reports_are_as_many_as_there_are_spans() -> None:
    early = EarlyReports()
    for wall in range(1, 1_001):
        early.add(_report(wall, ("a", 1)))
    feed, kept = Feed("a"), early.take_reports()
    for report in kept:
        feed.apply(report)
    assert feed.wall == 1_000
    assert len(kept) <= 66
    assert early.take_reports() == []


_BOTH = (("a", 1), ("b", 1))


def test_feeds_that_are_in_the_same_state_share_it_and_both_hear_of_every_rise() -> None:
    first, second = Feed("a"), Feed("b")
    routes = _routes(first, second, share_reports=1)
    routes.deliver([_report(5, *_BOTH)])
    assert first.own.spans is second.own.spans
    routes.deliver([_report(9, *_BOTH)])
    assert (first.wall, second.wall) == (9, 9)
    assert (first.rises, second.rises) == (2, 2)
    assert first.own.positions == second.own.positions == {0: 9}


def test_a_shared_state_parts_before_a_report_that_does_not_name_all() -> None:
    first, second = Feed("a"), Feed("b")
    routes = _routes(first, second, share_reports=1)
    routes.deliver([_report(5, *_BOTH)])
    routes.deliver([_report(9, ("a", 1))])
    assert (first.wall, second.wall) == (9, 5)
    routes.deliver([_report(7, ("b", 1))])
    assert (first.wall, second.wall) == (9, 7)


def test_feeds_in_different_states_do_not_share() -> None:
    """What one was told before the other began, nobody has told the other."""
    first, second = Feed("a"), Feed("b")
    routes = _routes(first, share_reports=1)
    routes.deliver([_report(9, ("a", 1))])
    routes.begin(second)
    routes.deliver([_report(10, *_BOTH, spans=(_LEFT,))])
    assert first.own.spans is not second.own.spans
    assert (first.wall, second.wall) == (9, 1)


def test_a_feed_that_ended_hears_of_nothing_more() -> None:
    """It may be amid a transaction of its last high-water."""
    first, second = Feed("a"), Feed("b")
    routes = _routes(first, second, share_reports=1)
    routes.deliver([_report(5, *_BOTH)])
    routes.end(second.definition.id)
    routes.deliver([_report(9, ("a", 1))])
    assert (first.wall, second.wall) == (9, 5)


_deliveries = st.lists(
    st.tuples(
        st.sets(st.sampled_from("abcd")),
        st.sampled_from([(_LEFT,), (_RIGHT,), (_LEFT, _RIGHT), (Span(b"c", b"p"),), (Span(b"a", b"z"),)]),
        st.integers(2, 12),
    ),
    max_size=30,
)


def _beginning(name: str) -> Feed:
    """Feeds on the same tables that begin at different times, and differently."""
    return {
        "a": Feed("a"),
        "b": Feed("b", start=Timestamp(6)),
        "c": Feed("c", start=Timestamp(4), scan=InitialScan.YES),
        "d": Feed("d", start=Timestamp(8, 2), scan=InitialScan.ONLY),
    }[name]


@given(_deliveries, st.integers(1, 4), st.sets(st.integers(0, 29)))
def test_sharing_changes_nothing_for_anybody(
    deliveries: list[tuple[set[str], tuple[Span, ...], int]], share_reports: int, restarts: set[int]
) -> None:
    """Whoever is named when, each feed is where it would be alone."""
    feeds = {name: _beginning(name) for name in "abcd"}
    alone = {name: _beginning(name) for name in "abcd"}
    routes = _routes(*feeds.values(), share_reports=share_reports)
    for number, (named, spans, wall) in enumerate(deliveries):
        if number in restarts:
            routes.end(FeedId("c"))
            for group in (feeds, alone):
                group["c"] = _beginning("c")
            routes.begin(feeds["c"])
        report = _report(wall, *((name, 1) for name in sorted(named)), spans=spans)
        routes.deliver([report])
        for name in named:
            alone[name].apply(report)
        for name, feed in feeds.items():
            assert list(feed.own.spans.entries()) == list(alone[name].own.spans.entries())
            assert (feed.own.high_water, feed.rises) == (alone[name].own.high_water, alone[name].rises)
