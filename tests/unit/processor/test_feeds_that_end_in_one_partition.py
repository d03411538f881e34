"""A feed that has ended in one partition and not yet in another, to which ranges move: what no partition has
emitted no frontier passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.partitions import Partitions
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.lifecycle.control import Activate, Failed, Register
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.errors import FeedError
from tidegate.hlc import Timestamp
from tidegate.processor.batch import StepResult
from tidegate.processor.checkpoint import report_of
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.range_claims import RangeClaims
from tidegate.ranges.handoff import HandOff

_FROM_THE_PRESENT = pytest.param(WITH_MARKERS, id="from the present")
_FROM_A_CURSOR = pytest.param(replace(WITH_MARKERS, cursor=at(0)), id="from a cursor")
_WITH_A_SCAN = pytest.param(replace(WITH_MARKERS, initial_scan=InitialScan.YES), id="with a scan")


def merged(feed: Activate) -> tuple[Partitions, int, int]:
    """Two ranges of two partitions, and the log in which the second one merges into the first.

    The row at 5 stands between the two places in the second partition that are returned.
    """
    log = HandLog(2)
    log.describe(PLAIN)
    left, right = (
        log.open_range(number, span) for number, span in zip((2, 3), PLAIN.split(100), strict=True)
    )
    left.apply(PLAIN.put(1, 1, "left"), close=2)
    right.apply(PLAIN.put(1, 150, "right"), close=2)
    cut = len(log.partitions[1])
    right.apply(PLAIN.put(5, 150, "left out"), close=5)
    upto = len(log.partitions[1])
    left.merge(right, close=6)
    left.apply(PLAIN.put(7, 1, "merged"), close=8)
    return Partitions(log, feed), cut, upto


def high_water(run: Partitions, feed: Activate) -> Timestamp:
    """Return what a frontier makes of all checkpoints that name the feed."""
    options = feed.definition.options
    spans = [span for target in feed.targets for span in target.spans]
    frontier, claims = FeedFrontier(spans, feed.start, 0, scan=options.initial_scan), RangeClaims()
    for result in (each for driven in run.driven for each in driven.results if each.checkpoint is not None):
        assert result.checkpoint is not None
        (report,) = claims.count([report_of(result.checkpoint)])
        if any(active.feed_id == feed.feed_id for active in report.feeds):
            frontier.apply_columns(
                report.partition, report.offset, report.starts, report.ends, report.resolved
            )
    return frontier.high_water


def emitted(run: Partitions) -> list[Timestamp]:
    return sorted(time for each in run.rows().values() for time in each)


@pytest.mark.parametrize("options", [_FROM_THE_PRESENT, _FROM_A_CURSOR, _WITH_A_SCAN])
def test_no_high_water_passes_a_row_that_was_refused_before_its_range_moved(options: FeedOptions) -> None:
    feed = activation([PLAIN.descriptor], options, start=at(0))
    run, cut, upto = merged(feed)
    run.read(1, upto=cut)
    run.read(1, upto=upto)
    refuse(run, feed, run.driven[1].results[-1])
    run.settle()
    assert at(5) in emitted(run) or high_water(run, feed) < at(5)


@pytest.mark.parametrize("options", [_FROM_THE_PRESENT, _FROM_A_CURSOR, _WITH_A_SCAN])
def test_no_high_water_passes_a_row_that_was_refused_with_the_end_of_its_range(options: FeedOptions) -> None:
    feed = activation([PLAIN.descriptor], options, start=at(0))
    run, cut, _ = merged(feed)
    run.read(1, upto=cut)
    run.read(0)
    run.exchange(1)  # the claim on the range that ends
    result = run.driven[1].step(run.log.partitions[1][cut:])
    assert any(isinstance(message, HandOff) for message in result.exchanges)
    refuse(run, feed, result)
    run.sent[0] += result.exchanges
    run.settle()
    assert at(5) in emitted(run) or high_water(run, feed) < at(5)


def test_no_high_water_passes_what_a_partition_left_out_that_gave_the_feed_up_before_its_start() -> None:
    """There it knows neither its start nor its keys; the other partition has heard of both."""
    feed = activation([PLAIN.descriptor], WITH_MARKERS, start=at(0))
    run, _, _ = merged(feed)
    late = run.driven[1] = Driven(PartitionProcessor(1, 2))
    late.control(Register(feed.definition))
    late.note(late.processor.give_up(300.0))
    run.settle()
    assert high_water(run, feed) < at(1)


def refuse(run: Partitions, feed: Activate, result: StepResult) -> None:
    """A registry refuses the schema of the rows in the last step of the second partition."""
    run.driven[1].processor.refuse(feed.feed_id, FeedError("no schema fits"), result)
    assert any(isinstance(ack, Failed) for ack in result.acks)
