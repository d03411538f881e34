"""A table whose rows go without operations: its feeds end, and others go on (docs/log-contract.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, at, update_of
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Failed
from tidegate.raftlog.entry import RangeId, Trigger

_DROPPED = replace(PLAIN.descriptor, version=2, modified=at(8), dropped=True)


def _two_tables() -> tuple[HandLog, HandRange, HandRange]:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    plain, other = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
    plain.apply(PLAIN.put(3, 1, "stays in the output"), close=4)
    return log, plain, other


def _failures(log: HandLog) -> tuple[Driven, dict[FeedId, str]]:
    """Run a feed on each table. A checkpoint at or above 8 must not name the feed of the one that goes."""
    driven = Driven()
    both = [
        activation([table.descriptor], feed_id=name) for table, name in ((PLAIN, "gone"), (OTHER, "other"))
    ]
    driven.control(*both)
    failed: dict[FeedId, str] = {}
    for result in driven.run(log.partitions[0], 1):
        failed |= {ack.feed_id: ack.reason for ack in result.acks if isinstance(ack, Failed)}
        if result.checkpoint is not None and max(each.resolved for each in result.checkpoint.ranges) >= at(8):
            assert {each.feed_id for each in result.checkpoint.feeds} == {"other"}
    return driven, failed


def test_the_feeds_of_a_table_that_is_dropped_fail() -> None:
    log, plain, other = _two_tables()
    log.write(update_of(_DROPPED))
    other.apply(OTHER.put(9, 1, "goes on"), close=10)
    plain.heartbeat(20)
    other.heartbeat(20)
    driven, failed = _failures(log)
    assert failed == {
        "gone": f"table 'plain' was dropped at {at(8)}: its rows stand in the output without a deletion. "
        "Create a feed without it"
    }
    assert driven.checkpoints[RangeId(2)].resolved == at(20)


def test_a_repeated_version_of_a_dropped_table_fails_nobody_again() -> None:
    log, plain, _ = _two_tables()
    for _ in range(3):
        log.write(update_of(_DROPPED))
    plain.heartbeat(20)
    driven, failed = _failures(log)
    assert list(failed) == ["gone"]
    assert len([cause for cause in driven.causes if "was dropped" in cause]) == 1


@pytest.mark.parametrize("index_id", [1, 2])
def test_the_feeds_of_a_table_that_is_truncated_fail(index_id: int) -> None:
    """The source tells of a truncation as the contract says, whether it has another index then or not."""
    log, plain, other = _two_tables()
    if index_id != 1:
        log.write(update_of(replace(PLAIN.descriptor, version=2, modified=at(8), primary_index_id=index_id)))
    plain.index += 1
    log.write(plain.command(trigger=Trigger.HISTORY_MUTATION, close=8)._replace(mutated=(PLAIN.span,)))
    plain.heartbeat(20)
    other.heartbeat(20)
    _, failed = _failures(log)
    assert list(failed) == ["gone"]
    assert "outside its op log" in failed[FeedId("gone")]
