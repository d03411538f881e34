"""A change outside the op log concerns the feeds that read rows from the index that it changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandTable, at, update_of
from tests.unit.processor.driving import Driven, timestamp_of
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedEpoch
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Failed, Register
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Trigger
from tidegate.rows.table_key import index_span
from tidegate.spans import Span

_FIRST, _SECOND = (index_span(PLAIN.descriptor.id, number) for number in (1, 2))
#: The table once index 2 is its primary index: ``ALTER PRIMARY KEY``.
_ALTERED = HandTable(replace(PLAIN.descriptor, version=2, modified=at(20), primary_index_id=2))


@dataclass
class _Case:
    """One range with the whole table, and a feed on it that was there at ``start``."""

    start: Timestamp = ZERO
    log: HandLog = field(default_factory=lambda: HandLog(partitions=1))

    def __post_init__(self) -> None:
        self.log.describe(PLAIN)
        self.range = self.log.open_range(1, PLAIN.span)

    def mutate(
        self, *spans: Span, written: float | None = None, new: bool = True, close: float | None = None
    ) -> None:
        """A file of versions comes, all of them from ``written`` or, not ``new``, of any time up to then."""
        self.range.index += 1
        trigger = Trigger.ADD_SSTABLE if new else Trigger.HISTORY_MUTATION
        command = self.range.command(trigger=trigger, close=close)
        self.log.write(
            command._replace(
                mutated=spans,
                at_write_timestamp=new,
                write_timestamp=None if written is None else at(written),
            )
        )

    def alter(self) -> None:
        """Index 2 becomes the primary one."""
        self.log.write(update_of(_ALTERED.descriptor))

    def failures(self, driven: Driven | None = None) -> list[str]:
        driven = driven or Driven()
        driven.control(activation([PLAIN.descriptor], start=self.start))
        driven.run(self.log.partitions[0], 1)
        return [ack.reason for result in driven.results for ack in result.acks if isinstance(ack, Failed)]


@pytest.mark.parametrize("written", [5.5, None], ids=["moment told", "moment not told"])
@pytest.mark.parametrize("new", [True, False], ids=["new versions", "versions of any time"])
def test_an_index_build_ends_no_feed_and_rows_go_on(new: bool, written: float | None) -> None:
    case, driven = _Case(), Driven()
    case.range.apply(PLAIN.put(5, 1, "before"), close=5)
    case.mutate(_SECOND, written=written, new=new)
    case.range.apply(PLAIN.put(8, 1, "after"), close=9)
    assert case.failures(driven) == []
    assert list(map(timestamp_of, driven.rows)) == [at(5), at(8)]
    assert driven.checkpoints[case.range.id].resolved == at(9)


@pytest.mark.parametrize("spans", [(_FIRST,), (_SECOND, _FIRST), (PLAIN.span,), ()])
def test_a_change_of_the_primary_index_or_of_nobody_knows_what_ends_the_feed(spans: Sequence[Span]) -> None:
    case = _Case()
    case.range.apply(PLAIN.put(5, 1, "before"), close=5)
    case.mutate(*spans, written=6, new=False)
    (reason,) = case.failures()
    assert "range 1" in reason


def test_the_keys_of_a_range_that_has_no_rows_of_the_primary_index_are_known_without_being_told() -> None:
    case = _Case()
    case.range.apply(PLAIN.put(5, 1, "before"), close=5)
    right = case.range.split(_SECOND.start, 2, close=6)
    right.index += 1
    case.log.write(right.command(trigger=Trigger.ADD_SSTABLE))
    assert case.failures() == []


def test_a_tenants_index_build_ends_no_feed() -> None:
    table = HandTable(PLAIN.descriptor, tenant=7)
    log = HandLog(partitions=1)
    log.describe(table)
    range_ = log.open_range(1, table.span)
    for keys, failures in ((_SECOND, 0), (_FIRST, 1)):
        range_.index += 1
        mutated = (Span(*(table.prefix + key for key in keys)),)
        log.write(range_.command(trigger=Trigger.HISTORY_MUTATION)._replace(mutated=mutated))
        driven = Driven()
        driven.control(activation([PLAIN.descriptor]))
        driven.run(log.partitions[0])
        assert len(driven.causes) == failures


def test_the_index_that_becomes_primary_is_built_before_that_and_counts_from_then_on() -> None:
    case = _Case()
    case.range.apply(PLAIN.put(5, 1, "before"), close=5)
    case.mutate(_SECOND, written=12)
    case.alter()
    case.range.apply(_ALTERED.put(21, 1, "after"), close=22)
    driven = Driven()
    assert case.failures(driven) == []
    assert list(map(timestamp_of, driven.rows)) == [at(5), at(21)]
    case.mutate(_SECOND, written=23)
    assert len(case.failures()) == 1


@pytest.mark.parametrize(("written", "failed"), [(12, 0), (20, 1), (None, 1)])
def test_a_build_that_is_read_behind_the_new_descriptor_is_judged_by_its_own_moment(
    written: float | None, failed: int
) -> None:
    case = _Case()
    case.range.apply(PLAIN.put(5, 1, "before"), close=5)
    case.alter()
    case.mutate(_SECOND, written=written)
    assert len(case.failures()) == failed


@pytest.mark.parametrize(
    ("scan", "new", "failed"),
    [
        (InitialScan.YES, False, 1),
        (InitialScan.ONLY, False, 1),
        (InitialScan.NO, False, 0),
        (InitialScan.YES, True, 0),
    ],
)
def test_a_change_from_before_an_index_was_primary_concerns_the_feeds_that_have_scanned_that(
    scan: InitialScan, new: bool, failed: int
) -> None:
    """The scan shows versions of any time as they were at its start; a feed without one was given none."""
    case = _Case()
    case.alter()
    case.range.heartbeat(26)
    case.mutate(_SECOND, written=12, new=new)
    driven = Driven()
    options = replace(WITH_MARKERS, initial_scan=scan)
    driven.control(activation([PLAIN.descriptor], options, start=at(25), feed_id="started"))
    driven.run(case.log.partitions[0], 1)
    acks = [ack for result in driven.results for ack in result.acks]
    assert len([ack for ack in acks if isinstance(ack, Failed)]) == failed


@pytest.mark.parametrize("new", [False, True], ids=["versions of any time", "new versions"])
@pytest.mark.parametrize("close", [None, 27.0])
@pytest.mark.parametrize("epoch_is_there", [True, False])
@pytest.mark.parametrize("swapped_again", [False, True])
def test_a_change_from_before_an_index_was_primary_concerns_later_epochs_of_a_feed_that_has_scanned_it(
    swapped_again: bool, epoch_is_there: bool, close: float | None, new: bool
) -> None:
    """The feed began with a scan at 22 s, when index 2 was primary. It goes on without one, and does not say
    when it began; so an index that took its place since does not matter."""
    case, driven = _Case(), Driven()
    case.alter()
    if swapped_again:
        again = replace(PLAIN.descriptor, version=3, modified=at(24), primary_index_id=3)
        case.log.write(update_of(again))
    case.range.heartbeat(26)
    case.mutate(_SECOND, written=12, new=new, close=close)
    options = replace(WITH_MARKERS, initial_scan=InitialScan.NO, cursor=at(25.5))
    message = activation([PLAIN.descriptor], options, start=at(25.5), feed_id="started")
    definition = replace(message.definition, epoch=FeedEpoch(2), goes_on=True)
    message = replace(message, definition=definition)
    log = case.log.partitions[0]
    if epoch_is_there:
        driven.control(message)
        driven.run(log, 1)
    else:
        driven.run(log, 1)
        driven.control(Register(definition), message)
    acks = [ack for result in driven.results for ack in result.acks]
    assert len([ack for ack in acks if isinstance(ack, Failed)]) == (not new)


@pytest.mark.parametrize(("keys", "failed"), [(_FIRST, 1), (_SECOND, 0)])
def test_new_versions_concern_a_later_epoch_if_their_index_was_primary_then(keys: Span, failed: int) -> None:
    """They are from before the epoch's start, when index 1 was primary: an earlier epoch wrote such rows."""
    case, driven = _Case(), Driven()
    case.alter()
    case.range.heartbeat(26)
    case.mutate(keys, written=12)
    options = replace(WITH_MARKERS, initial_scan=InitialScan.NO, cursor=at(25.5))
    message = activation([PLAIN.descriptor], options, start=at(25.5), feed_id="started")
    definition = replace(message.definition, epoch=FeedEpoch(2), goes_on=True)
    driven.run(case.log.partitions[0], 1)
    driven.control(Register(definition), replace(message, definition=definition))
    acks = [ack for result in driven.results for ack in result.acks]
    assert len([ack for ack in acks if isinstance(ack, Failed)]) == failed


@pytest.mark.parametrize(("close", "failed"), [(22, 0), (12, 1)])
def test_an_index_that_was_primary_counts_until_everything_of_its_time_was_given(
    close: float, failed: int
) -> None:
    case = _Case()
    case.range.apply(PLAIN.put(5, 1, "before"), close=5)
    case.alter()
    case.range.heartbeat(close)
    case.mutate(_FIRST, written=30, new=False)  # the dropped index is cleared
    assert len(case.failures()) == failed


def test_an_index_that_was_primary_counts_for_a_feed_that_has_not_caught_up() -> None:
    case, driven = _Case(), Driven()
    case.range.apply(PLAIN.put(5, 1, "before"), close=5)
    case.alter()
    case.range.heartbeat(22)
    driven.step(case.log.partitions[0])
    late = replace(WITH_MARKERS, initial_scan=InitialScan.NO, cursor=at(2))
    driven.control(activation([PLAIN.descriptor], late, start=at(2)))
    case.mutate(_FIRST, written=30, new=False)
    driven.step(case.log.partitions[0][driven.processor.next_offset :])
    assert len(driven.causes) == 1


def test_an_index_that_was_primary_counts_while_rows_of_its_time_are_not_committed() -> None:
    """The feed may be detached yet, and is given these rows by a scan then."""
    case = _Case()
    case.range.apply(PLAIN.put(5, 1, "before"), close=5)
    case.alter()
    case.range.heartbeat(22)
    end = len(case.log.partitions[0])
    case.mutate(_FIRST, written=30, new=False)
    for committed in (False, True):
        driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(detachable=True)))
        driven.control(activation([PLAIN.descriptor]))
        result = driven.step(case.log.partitions[0][:end])
        if committed:
            driven.processor.committed(result.serial)
        driven.step(case.log.partitions[0][end:])
        assert len(driven.causes) == (not committed)


def test_a_table_whose_descriptors_do_not_tell_is_watched_as_a_whole() -> None:
    case = _Case(start=at(-5))  # from before the oldest descriptor
    case.mutate(_SECOND, written=-4, new=True)
    assert len(case.failures()) == 1


@pytest.mark.parametrize("seed", range(200))
def test_a_feed_goes_on_only_if_no_row_was_changed_that_it_may_still_read(seed: int) -> None:
    """Histories of two indexes that take turns as primary one, and changes of either at any moment."""
    print("seed", seed)
    rng = Random(seed)
    case = _Case(start=at(rng.choice((0, 7, 15))))
    swaps = sorted(rng.sample(range(3, 40), rng.randint(0, 3)))
    primary = [1, *(index for index, _ in zip([2, 1, 2], swaps, strict=False))]
    for version, (swapped, index) in enumerate(zip(swaps, primary[1:], strict=True), start=2):
        altered = replace(PLAIN.descriptor, version=version, modified=at(swapped), primary_index_id=index)
        case.log.write(update_of(altered))
    resolved = rng.randint(0, 45)
    case.range.heartbeat(resolved)
    written = resolved + rng.randint(1, 10)
    new, index = rng.random() < 0.5, rng.choice((1, 2))
    case.mutate((_FIRST, _SECOND)[index - 1], written=written, new=new)
    given = max(resolved, case.start.wall // 10**9 - at(0).wall // 10**9)
    moments = [written] if new or given >= written else range(given, written + 1)
    read = {primary[sum(swapped <= moment for swapped in swaps)] for moment in moments}
    assert len(case.failures()) == (index in read)
