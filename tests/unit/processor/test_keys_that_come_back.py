"""The notes of a range's changes say nothing of keys that another range had meanwhile.

``docs/protocols/history-mutations.md``, X4: an index that is accounted for counts for the keys that the range
has had without a break.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, HandTable, at
from tests.unit.processor.logs import OTHER, PLAIN
from tests.unit.processor.partitions import Partitions, beats
from tidegate.changefeed.lifecycle.control import Failed, Register
from tidegate.processor.config import ProcessorConfig
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import HistoryMutation, Offset, RaftIndex, RangeId, SnapshotReason, Trigger
from tidegate.spans import Span

_ON_OWN: Final = activation([PLAIN.descriptor], start=at(1), feed_id="own")
_ON_KEYS: Final = activation([OTHER.descriptor], start=at(1), feed_id="keys")
_LATE: Final = activation([PLAIN.descriptor], start=at(12.5), feed_id="late")


class _ComeBack:
    """Range 1 gets the keys of range 2 while that one's answer is not there, loses them to range 4, and gets
    them back. Range 4 changed rows of them at 11 s in an entry that nobody can read.
    """

    def __init__(self) -> None:
        self.log = log = HandLog(2)
        log.describe(PLAIN, OTHER)
        self.heir, self.parent = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
        self.heir.apply(PLAIN.put(5, 1, "own"), close=6)
        self.parent.apply(OTHER.put(5, 1, "keys"), close=6)
        self.run = Partitions(log, _ON_OWN)
        for driven in self.run.driven:
            driven.control(_ON_KEYS)

    def lose_the_parents_end(self) -> None:
        """Range 2 misses an entry, so it will be complete up to 6 s."""
        self.parent.unreadable()
        self.parent.high = 7

    def give(self, *, reads: bool = True, chunks: int = 1) -> HandRange:
        """The keys go to range 4; ``reads``: range 1's Snapshot there can be read."""
        heir, log = self.heir, self.log
        heir.apply(trigger=Trigger.SPLIT, close=10)
        parents = (heir.as_parent(),)
        heir.span, heir.generation = PLAIN.span, heir.generation + 1
        if not reads:
            log.write_bytes(1, encode_key(heir.id), b"\xff")
        for chunk in range(chunks if reads else 0):
            if chunk:
                log.write_bytes(1, encode_key(heir.id), b"\xff")
            else:
                heir.snapshot(
                    reason=SnapshotReason.SPLIT, close=10, high=7, parents=parents, chunk=0, chunks=chunks
                )
        taken = HandRange(log, RangeId(4), OTHER.span)
        taken.generation = heir.generation
        taken.snapshot(reason=SnapshotReason.SPLIT, close=10, high=7, parents=parents)
        return taken

    def change_own(self) -> RaftIndex:
        """A change of range 1's own keys at 12 s, which can be read."""
        self.heir.index += 1
        command = self.heir.command(trigger=Trigger.HISTORY_MUTATION, close=12)
        self.log.write(command._replace(mutated=(PLAIN.span,), write_timestamp=at(12)))
        return RaftIndex(self.heir.index)

    def take_back(self, taken: HandRange, told: HistoryMutation) -> None:
        """The keys come back; the range tells what was changed last."""
        heir = self.heir
        taken.end()
        heir.apply(trigger=Trigger.MERGE, close=13)
        parents = (heir.as_parent(), taken.as_parent())
        heir.span = Span(PLAIN.span.start, OTHER.span.end)
        heir.generation = max(heir.generation, taken.generation) + 1
        heir.snapshot(reason=SnapshotReason.MERGE, close=13, high=7, parents=parents, last_mutation=told)

    def failed(self) -> set[tuple[int, str]]:
        """The partitions that failed a feed, and which."""
        return {
            (number, ack.feed_id)
            for number, driven in enumerate(self.run.driven)
            for result in driven.results
            for ack in result.acks
            if isinstance(ack, Failed)
        }


def test_a_later_change_of_the_ranges_own_speaks_for_no_key_that_a_snapshot_in_between_did_not_have() -> None:
    """All of it stands in the backlog of the first Snapshot when range 2 answers, and is left out."""
    case = _ComeBack()
    case.lose_the_parents_end()
    case.heir.merge(case.parent, close=9)
    case.run.read(1)
    assert case.run.parked() == [(1, (2,))]
    taken = case.give()
    taken.unreadable()
    index = case.change_own()
    case.take_back(taken, HistoryMutation(index, at(12)))
    case.run.read(1)
    assert case.failed() == {(1, "own")}
    case.run.driven[1].control(Register(_LATE.definition), _LATE)
    case.run.read(0)
    case.run.exchange(0)
    case.run.exchange(1)
    assert case.failed() == {(1, "own"), (1, "keys")}


def test_a_snapshot_that_breaks_in_the_backlog_has_its_say_of_the_keys_all_the_same() -> None:
    """Range 1 has passed all of it while it waited. It takes the first one, and breaks at the second."""
    case = _ComeBack()
    case.heir.merge(case.parent, close=9)
    case.run.read(1)
    taken = case.give(chunks=2)
    taken.unreadable()
    index = case.change_own()
    case.take_back(taken, HistoryMutation(index, at(12)))
    case.run.read(1)
    assert case.run.parked() == [(1, (2,))]
    case.run.settle()
    assert case.failed() == {(1, "own"), (1, "keys")}


@pytest.mark.parametrize("chunks", [0, 2], ids=["its Snapshot", "a piece of it"])
def test_where_a_snapshot_of_the_range_cannot_be_read_nothing_behind_it_speaks_for_its_keys(
    chunks: int,
) -> None:
    """The range has both tables and is in a hole, in which it loses one and gets it back."""
    case = _ComeBack()
    case.heir.merge(case.parent, close=9)
    case.heir.heartbeat(9.5)
    case.run.settle()
    assert case.run.parked() == []
    case.heir.index += 1
    case.log.write(case.heir.command()._replace(ops=None, write_batch=bytes(12)))
    taken = case.give(reads=bool(chunks), chunks=chunks)
    taken.unreadable()
    index = case.change_own()
    case.take_back(taken, HistoryMutation(index, at(12)))
    case.run.read(1)
    assert case.failed() == {(1, "own"), (1, "keys")}


class _LeftBacklog:
    """Range 1 has two tables and waits for range 2, which has a third and is not read. In its backlog one of
    its tables and the third leave to range 4, which changes rows of them at 11 s in an entry that nobody can
    read, and its own rows change at 12 s. Then the keys come back.
    """

    def __init__(self) -> None:
        self.log = log = HandLog(2)
        third = HandTable.of(106, "third")
        log.describe(PLAIN, OTHER, third)
        self._all = Span(PLAIN.span.start, third.span.end)
        self.heir = heir = log.open_range(1, Span(PLAIN.span.start, OTHER.span.end))
        parent = log.open_range(2, third.span)
        clock = Span(b"\xf8\x01", b"\xf8\x02"), Span(b"\xf8\x02", b"\xf8\x03")
        self.clock = [log.open_range(number, span) for number, span in zip((11, 13), clock, strict=True)]
        heir.apply(PLAIN.put(5, 1, "own"), OTHER.put(5, 1, "keys"), close=6)
        parent.apply(third.put(5, 1, "third"), close=6)
        self.run = Partitions(log, _ON_OWN)
        for driven in self.run.driven:
            driven.control(_ON_KEYS, activation([third.descriptor], start=at(1), feed_id="third"))
        heir.merge(parent, close=9)
        heir.apply(trigger=Trigger.SPLIT, close=10)
        parents = (heir.as_parent(),)
        heir.span, heir.generation = PLAIN.span, heir.generation + 1
        heir.snapshot(reason=SnapshotReason.SPLIT, close=10, high=7, parents=parents)
        self.taken = HandRange(log, RangeId(4), Span(OTHER.span.start, third.span.end))
        self.taken.generation = heir.generation
        self.taken.snapshot(reason=SnapshotReason.SPLIT, close=10, high=7, parents=parents)
        self.taken.unreadable()
        heir.index += 1
        command = heir.command(trigger=Trigger.HISTORY_MUTATION, close=12)
        log.write(command._replace(mutated=(PLAIN.span,), write_timestamp=at(12)))
        self.told = HistoryMutation(RaftIndex(heir.index), at(12))
        self.run.read(1)
        assert self.run.parked() == [(1, (2,))]

    def come_back(self, seconds: float) -> None:
        heir, taken = self.heir, self.taken
        taken.end()
        heir.apply(trigger=Trigger.MERGE, close=seconds)
        parents = (heir.as_parent(), taken.as_parent())
        heir.span, heir.generation = self._all, heir.generation + 1
        heir.snapshot(
            reason=SnapshotReason.MERGE, close=seconds, high=7, parents=parents, last_mutation=self.told
        )

    def failed(self) -> set[str]:
        """The feeds that partition 1 failed."""
        results = self.run.driven[1].results
        return {ack.feed_id for result in results for ack in result.acks if isinstance(ack, Failed)}


def test_a_backlog_that_is_left_has_its_say_of_the_keys() -> None:
    """Range 1 was silent for a quarter of an hour, and waits no more."""
    case = _LeftBacklog()
    beats(case.log, case.clock, 20, 1200)
    case.run.read(1, batch=5)
    assert case.run.parked() == []
    assert case.failed() == {"own"}
    case.come_back(1300)
    case.run.read(1)
    case.run.settle()
    assert case.failed() == {"own", "keys", "third"}


def test_behind_a_backlog_that_was_cut_from_the_log_nothing_speaks_for_the_keys() -> None:
    """The partition had passed it, and was to read it again after a restart."""
    case = _LeftBacklog()
    case.run.restart(1)
    driven, cut = case.run.driven[1], Offset(len(case.log.partitions[1]))
    driven.note(driven.processor.missing_below(cut))
    case.come_back(13)
    driven.run(case.log.partitions[1][cut:], 1)
    assert case.failed() == {"own", "keys", "third"}


def test_a_backlog_that_is_too_large_since_a_restart_is_read_again_before_it_is_left() -> None:
    """The new owner may keep less of the log than the one before."""
    case = _LeftBacklog()
    case.run.restart(1, ProcessorConfig(backlog_bytes=1))
    case.run.read(1, batch=1)
    assert case.run.parked() == []
    case.come_back(13)
    case.run.read(1, batch=1)
    case.run.settle()
    assert case.failed() == {"own", "keys", "third"}
