"""A checkpoint is applied to the feeds that it names, in the epochs that it names them in."""

from __future__ import annotations

from dataclasses import replace

from app.checkpoint_routes import CheckpointRoutes
from app.early_reports import EarlyReports
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.feed import FeedEpoch, FeedId
from tidegate.changefeed.frontier import FeedFrontier
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed
from tidegate.processor.checkpoint import PartitionReport
from tidegate.raftlog.entry import Offset
from tidegate.spans import Span

_FEED = activation([HandTable.of(104, "plain").descriptor], feed_id="a").definition
_START = Timestamp(1)
_LEFT, _RIGHT = Span(b"a", b"m"), Span(b"m", b"z")


class Feed:
    """A feed on two ranges, with the frontier that decides its markers."""

    def __init__(self, feed_id: str, epoch: int = 1) -> None:
        self.definition = replace(_FEED, id=FeedId(feed_id), epoch=FeedEpoch(epoch))
        self.frontier = FeedFrontier([_LEFT, _RIGHT], _START, 0)

    def apply(self, report: PartitionReport) -> None:
        columns = (report.starts, report.ends, report.resolved)
        self.frontier.apply_columns(report.partition, report.offset, *columns)

    @property
    def wall(self) -> int:
        return self.frontier.high_water.wall


def _report(wall: int, *feeds: tuple[str, int], spans: tuple[Span, ...] = (_LEFT, _RIGHT)) -> PartitionReport:
    """A checkpoint at ``wall`` for (feed, epoch)s."""
    return PartitionReport(
        0,
        Offset(wall),
        tuple(ActiveFeed(FeedId(feed_id), FeedEpoch(epoch)) for feed_id, epoch in feeds),
        [span.start for span in spans],
        [span.end for span in spans],
        [ResolvedTimestamp(Timestamp(wall))] * len(spans),
    )


def _routes(*feeds: Feed, unknown: bool = False) -> CheckpointRoutes[Feed]:
    routes: CheckpointRoutes[Feed] = CheckpointRoutes(lambda _: unknown)
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
    assert feed.frontier.laggard() == _RIGHT


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
    feed, kept = Feed("a"), early.take()
    for report in kept:
        feed.apply(report)
    assert feed.wall == 1_000
    assert len(kept) <= 66
    assert early.take() == []
