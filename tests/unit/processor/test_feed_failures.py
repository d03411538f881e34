"""Which feeds fail when data has changed outside the op log: those that may have wrong rows, and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import FIRST_INDEX, HandLog, HandRange, at, update_of
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Failed, Register
from tidegate.hlc import ZERO
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import HistoryMutation, RaftIndex, Trigger
from tidegate.rows.table_key import index_span
from tidegate.spans import Span

_FIRST, _SECOND = (index_span(PLAIN.descriptor.id, index_id) for index_id in (1, 2))
#: From second 4 on, rows stand in index 2.
_MOVED: Final = replace(PLAIN.descriptor, version=2, modified=at(4), primary_index_id=2)
_LATE: Final = FeedId("late")


def _failed(driven: Driven) -> list[FeedId]:
    return [ack.feed_id for result in driven.results for ack in result.acks if isinstance(ack, Failed)]


def _stepped(log: HandLog, driven: Driven) -> None:
    driven.step(log.partitions[0][int(driven.processor.next_offset or 0) :])


def _moved(*, detachable: bool = False) -> tuple[HandLog, HandRange, Driven]:
    """A range whose rows have moved to another index; a feed follows. A version of second 2 stands before."""
    log = HandLog(1)
    log.describe(PLAIN, OTHER)
    range_ = log.open_range(1, PLAIN.span)
    log.write(update_of(_MOVED))
    range_.apply(PLAIN.put(2, 1, "two"), close=3)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(detachable=detachable)))
    driven.control(activation([PLAIN.descriptor]))
    _stepped(log, driven)
    return log, range_, driven


def _mutate(log: HandLog, range_: HandRange, keys: Span) -> None:
    range_.index += 1
    command = range_.command(trigger=Trigger.HISTORY_MUTATION)
    log.wait_for(at(9))
    log.write(command._replace(mutated=(keys,), write_timestamp=at(9)))


@pytest.mark.parametrize(("keys", "fails"), [(_FIRST, False), (_SECOND, True)], ids=["left", "read"])
def test_a_feed_is_not_concerned_in_keys_that_it_read_only_below_what_it_surely_has(
    keys: Span, fails: bool
) -> None:
    log, range_, driven = _moved()
    range_.heartbeat(6)
    _mutate(log, range_, keys)
    _stepped(log, driven)
    assert bool(_failed(driven)) is fails


def test_a_feed_that_misses_versions_surely_has_those_up_to_its_start_only() -> None:
    log, range_, driven = _moved()
    cursor = replace(WITH_MARKERS, cursor=at(1))
    late = activation([PLAIN.descriptor], cursor, start=at(1), feed_id=_LATE)
    driven.control(Register(late.definition), late)
    range_.heartbeat(6)
    _mutate(log, range_, _FIRST)
    _stepped(log, driven)
    assert _failed(driven) == [_LATE]


@pytest.mark.parametrize("committed", [False, True])
def test_what_is_not_committed_is_not_sure(committed: bool) -> None:
    log, range_, driven = _moved(detachable=True)
    driven.processor.committed(driven.results[-1].serial)
    range_.heartbeat(6)
    _stepped(log, driven)
    if committed:
        driven.processor.committed(driven.results[-1].serial)
    _mutate(log, range_, _FIRST)
    _stepped(log, driven)
    assert bool(_failed(driven)) is not committed


def test_a_mutation_of_keys_that_the_range_did_not_have_before_counts_from_the_feeds_start_on() -> None:
    """The command names more than the range has: nobody knows what those keys were complete to."""
    log = HandLog(1)
    log.describe(PLAIN, OTHER)
    range_ = log.open_range(1, Span(_FIRST.start, PLAIN.key(100)))
    log.write(update_of(_MOVED))
    driven = Driven()
    driven.control(activation([PLAIN.descriptor], start=at(1)))
    range_.heartbeat(6)
    _mutate(log, range_, _FIRST)
    _stepped(log, driven)
    assert _failed(driven) == ["feed"]


# ---- changes that nobody could read ----


def _hidden(span: Span, *, time: float, high: float, start: float) -> Driven:
    """A range closes 5, has a hole, and goes on with a Snapshot that tells of a change at ``time``."""
    log = HandLog(1)
    log.describe(PLAIN, OTHER)
    range_ = log.open_range(1, span)
    range_.heartbeat(5)
    driven = Driven()
    driven.control(
        activation([PLAIN.descriptor, OTHER.descriptor], start=at(start) if start else ZERO),
        activation([OTHER.descriptor], start=at(start) if start else ZERO, feed_id="beside"),
    )
    range_.unreadable()
    log.wait_for(at(20))
    told = HistoryMutation(RaftIndex(FIRST_INDEX + 1), at(time))
    range_.snapshot(close=9, high=high, last_mutation=told)
    _stepped(log, driven)
    return driven


def test_a_hidden_change_fails_the_feeds_of_its_keys_also_those_of_several_tables() -> None:
    assert _failed(_hidden(PLAIN.span, time=7, high=4, start=0)) == ["feed"]


def test_a_hidden_change_of_an_index_that_no_feed_reads_fails_nobody() -> None:
    assert _failed(_hidden(_SECOND, time=7, high=4, start=1)) == []


@pytest.mark.parametrize(("start", "fails"), [(3.9, True), (4, False), (4.1, False)])
def test_a_hidden_change_fails_feeds_that_begin_below_the_versions_that_it_could_change(
    start: float, fails: bool
) -> None:
    assert bool(_failed(_hidden(PLAIN.span, time=7, high=4, start=start))) is fails
