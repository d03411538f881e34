"""Data that changes outside the op log ends the feeds that watch it, as in CockroachDB, and nothing else."""

from __future__ import annotations

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.control import Failed, Register
from tidegate.raftlog.entry import DeleteRange, RangeId, Trigger
from tidegate.spans import Span

_LOW, _HIGH = PLAIN.split(100)


def _run(log: HandLog, batch: int = 99) -> Driven:
    driven = Driven()
    driven.control(
        activation([PLAIN.descriptor], feed_id="plain"), activation([OTHER.descriptor], feed_id="other")
    )
    driven.run(log.partitions[0], batch)
    return driven


def _failed(driven: Driven) -> list[tuple[str, str]]:
    acks = [ack for result in driven.results for ack in result.acks if isinstance(ack, Failed)]
    return [(ack.feed_id, ack.reason) for ack in acks]


@pytest.mark.parametrize("batch", [1, 99])
@pytest.mark.parametrize("trigger", [Trigger.ADD_SSTABLE, Trigger.HISTORY_MUTATION])
def test_feeds_that_watch_the_keys_fail_behind_what_came_before(trigger: Trigger, batch: int) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    plain, other = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
    plain.apply(PLAIN.put(5, 1, "before"), close=5)
    plain.apply(trigger=trigger)
    plain.apply(PLAIN.put(8, 1, "after"), close=8)
    other.apply(OTHER.put(9, 1, "other"), close=9)
    driven = _run(log, batch)
    ((feed_id, reason),) = _failed(driven)
    assert feed_id == "plain"
    assert trigger.value in reason
    assert "range 1" in reason
    assert list(map(timestamp_of, driven.rows)) == [at(5), at(9)]
    assert driven.processor.status().quarantined == ()


def test_only_the_keys_that_the_command_names_count() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    both = log.open_range(1, Span(PLAIN.span.start, OTHER.span.end))
    both.index += 1
    log.write(both.command(trigger=Trigger.HISTORY_MUTATION)._replace(mutated=(OTHER.span,)))
    both.apply(PLAIN.put(8, 1, "after"), close=8)
    driven = _run(log)
    assert [feed_id for feed_id, _ in _failed(driven)] == ["other"]
    assert list(map(timestamp_of, driven.rows)) == [at(8)]


def test_a_copy_of_the_command_ends_no_feed_that_began_after_it() -> None:
    """Sources may write entries again; what a range has applied says nothing more."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    plain = log.open_range(1, PLAIN.span)
    plain.apply(trigger=Trigger.ADD_SSTABLE, close=5)
    driven = Driven()
    driven.run(log.partitions[0])
    late = activation([PLAIN.descriptor], feed_id="plain", start=at(5))
    driven.control(Register(late.definition))
    driven.control(late)
    read = len(log.partitions[0])
    log.write(plain.command(trigger=Trigger.ADD_SSTABLE, close=5))
    plain.apply(PLAIN.put(8, 1, "after"), close=8)
    driven.run(log.partitions[0][read:])
    assert _failed(driven) == []
    assert list(map(timestamp_of, driven.rows)) == [at(8)]


def test_a_range_deletion_gives_changefeeds_nothing() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    plain = log.open_range(1, PLAIN.span)
    plain.apply(PLAIN.put(5, 1, "before"), close=5)
    plain.apply(DeleteRange(_LOW.start, _LOW.end, at(6)), close=7)
    plain.apply(PLAIN.put(8, 1, "after"), close=8)
    driven = _run(log)
    assert list(map(timestamp_of, driven.rows)) == [at(5), at(8)]
    assert driven.checkpoints[RangeId(1)].resolved == at(8)
    assert driven.causes == []
