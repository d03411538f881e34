"""A feed goes on in another epoch: what ranges have told each other of it before does not count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, at
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.partitions import Partitions
from tidegate.changefeed.definition.feed import FIRST_EPOCH, AcceptedCluster, FeedEpoch
from tidegate.changefeed.lifecycle.control import Activate, Remove
from tidegate.errors import RowRefused
from tidegate.hlc import Timestamp
from tidegate.processor.batch import RangeCheckpoint, StepResult
from tidegate.raftlog.request import Scan

_FIRST = activation([PLAIN.descriptor], replace(WITH_MARKERS, cursor=at(0)), start=at(0))


def _goes_on(begin: Timestamp, *, elsewhere: bool) -> Activate:
    """The next epoch of the feed, on the same cluster or on another one."""
    epoch = FeedEpoch(2)
    definition = replace(
        _FIRST.definition,
        epoch=epoch,
        options=replace(WITH_MARKERS, cursor=begin),
        accepted=AcceptedCluster(epoch, "c2", begin) if elsewhere else None,
    )
    return replace(_FIRST, definition=definition, start=begin)


def _split() -> HandLog:
    """Range 2 of partition 0 writes a key, which goes to range 3 of partition 1."""
    log = HandLog(2)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "parent"), close=4)
    child = parent.split(PLAIN.key(100), 3, close=6)
    child.apply(PLAIN.put(8, 150, "child"), close=7)
    parent.apply(PLAIN.put(9, 50, "parent"), close=8)
    return log


def _named(results: list[StepResult]) -> list[RangeCheckpoint]:
    """Return what a checkpoint of these results says of ranges, for a feed that it names."""
    return [
        item
        for result in results
        if result.checkpoint is not None and result.checkpoint.feeds
        for item in result.checkpoint.ranges
    ]


def _catch_up_scans(results: list[StepResult]) -> list[Timestamp | None]:
    requests = (request for result in results for request in result.requests)
    return [request.after for request in requests if isinstance(request, Scan) and request.range_id == 3]


def _split_before_the_next_epoch(run: Partitions, goes_on: Activate) -> int:
    """The parent has promised its keys in the first epoch, and the child comes to be in the next one; returns
    how many results of the child's partition stand before that."""
    run.read(0)
    return _forgotten_before_the_next_epoch(run, goes_on)


def _forgotten_before_the_next_epoch(run: Partitions, goes_on: Activate) -> int:
    for driven in run.driven:
        driven.control(Remove(_FIRST.feed_id, FIRST_EPOCH))
        driven.control(goes_on)
    return len(run.driven[1].results)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_hand_off_from_before_the_acceptance_closes_no_gap(*, restarts: bool) -> None:
    """The rows of the parent that it speaks of are on the cluster before."""
    run = Partitions(_split(), _FIRST)
    begun = _split_before_the_next_epoch(run, _goes_on(at(1), elsewhere=True))
    if restarts:
        run.restart(0)
    run.settle()
    late = run.driven[1].results[begun:]
    assert _catch_up_scans(late) == [at(1)]
    assert _named(late) == [], "a checkpoint covers what the new cluster does not have"


@pytest.mark.parametrize("left_out", ["by the registry", "by a sink that stands still", "by a refusal"])
def test_a_hand_off_of_rows_that_were_left_out_with_the_epoch_before_closes_no_gap(left_out: str) -> None:
    """A partition that forgets a feed may leave out rows whose range has promised them to a child."""
    run = Partitions(_split(), _FIRST)
    parent = run.driven[0].processor
    result = parent.step(run.log.partitions[0])
    if left_out == "by the registry":
        parent.forget(_FIRST.feed_id, result)
    else:
        removed = run.driven[0].control(Remove(_FIRST.feed_id, FIRST_EPOCH))
        if left_out == "by a refusal":
            parent.fail_delivery(_FIRST.feed_id, RowRefused("too large"), [result, removed])
        else:
            parent.detach(_FIRST.feed_id, [result, removed])
    result.outputs.pop(_FIRST.feed_id, None)
    run.note_step(0, result)
    begun = _forgotten_before_the_next_epoch(run, _goes_on(at(1), elsewhere=False))
    run.settle()
    late = run.driven[1].results[begun:]
    assert _catch_up_scans(late) == [at(1)]
    assert _named(late) == [], "a checkpoint covers rows that were left out"
