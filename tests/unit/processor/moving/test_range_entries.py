"""A record that names no range is a hole of all ranges. It looks only at ranges that the hole still changes.

A straightforward model gives each of these records to each range. Random histories take the same steps by
both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

import pytest

from tests.hand_log import HandLog, HandRange, at
from tests.logs import Record
from tests.unit.processor.catchup.partition_parts import CHILD, ELSEWHERE, HERE
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.moving.entries_parts import EntriesParts, beat, command, put
from tests.unit.processor.moving.waiting_parts import claim_of, head
from tests.unit.processor.partitions import FEED, MIDDLE, Partitions, split_log
from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import MalformedEntry
from tidegate.processor.batch import LogRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.containment import StepBroke
from tidegate.processor.feeds.changes_outside_log import MutationPlace
from tidegate.processor.moving.range_entries import RangeEntries
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.decode import decode_key
from tidegate.raftlog.encode import encode_entry
from tidegate.raftlog.entry import (
    BROADCAST,
    Entry,
    Generation,
    Heartbeat,
    KeyValue,
    Offset,
    RaftIndex,
    RangeEnd,
    RangeId,
    ScanChunk,
    Trigger,
)
from tidegate.raftlog.request import Scan
from tidegate.ranges.backlog import RawEntry
from tidegate.ranges.gap import Gap
from tidegate.ranges.range_state import RangeStatus
from tidegate.spans import Span

_SEEDS: Final = 40
_ENTRIES: Final = 60
_NAMELESS: Final[tuple[tuple[bytes | None, bytes | None], ...]] = (
    (None, None),
    (b"", b"\xff"),
    (b"?", b"?"),
    (bytes(8), b"\xff\xff"),
    (b"\xff" * 8, b""),
)


#: What each ten histories must have, so that equal steps mean something.
_MUST_BE_SEEN: Final = ("hole", "scan", "restart amid backlogs")


class _Model(RangeEntries):
    """Gives each record that names no range to every range that has yet to apply its offset."""

    def refuse(self, record: LogRecord, error: MalformedEntry, *, passed: bool) -> None:
        range_id = decode_key(record.key)
        if range_id is not None and range_id != BROADCAST:
            super().refuse(record, error, passed=passed)
            return
        cause = f"an unreadable record that names no range: {error}"
        for state in self._not_past(Offset(record.offset + 1), passed=passed):
            self._hole(state, record, cause)

    def _read_again(self, raw: RawEntry) -> Entry:
        return self.reader.read_again(raw)


def _as_model(processor: PartitionProcessor) -> None:
    processor._state.ranges.entries.__class__ = _Model


class _ModelPartitions(Partitions):
    """The same partitions, each of which follows the model."""

    def __init__(self, log: HandLog) -> None:
        super().__init__(log)
        for driven in self.driven:
            _as_model(driven.processor)

    def restart(self, number: int, config: ProcessorConfig | None = None) -> None:
        super().restart(number, config)
        _as_model(self.driven[number].processor)


class _History:
    """A random history, which both kinds of partitions read, step by step."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.log = HandLog(random.choice((1, 2, 2, 3)))
        self.log.describe(PLAIN)
        keys = [PLAIN.key(number) for number in (100, 200, 300)]
        self.ranges = [
            self.log.open_range(2 + number, Span(start, end), close=1)
            for number, (start, end) in enumerate(
                zip([PLAIN.span.start, *keys], [*keys, PLAIN.span.end], strict=True)
            )
        ]
        self.seconds = 2.0
        self._next_id = 10
        self.both = Partitions(self.log), _ModelPartitions(self.log)
        self._compared = [0] * len(self.log.partitions)
        self._scans: list[Scan] = []
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        for _ in range(_ENTRIES):
            self._write()
            if self.random.random() < 0.35:
                self._go_on()
        for _ in range(4):
            for number in range(len(self.log.partitions)):
                self._each(partial(Partitions.read, number=number))
                self._each(partial(Partitions.exchange, number=number))
            self._answer()

    # ---- what is written ----

    def _write(self) -> None:
        one, what = self.random.choice(self.ranges), self.random.random()
        self.seconds += self.random.choice((0, 0.5, 1, 1, 40))
        if what < 0.3:
            one.apply(PLAIN.put(self.seconds + 0.1, self._key_of(one), "v"), close=self.seconds)
        elif what < 0.4:
            one.heartbeat(self.seconds)
        elif what < 0.52:
            one.snapshot(close=self.seconds, high=one.high)
        elif what < 0.62:
            self._split(one)
        elif what < 0.68:
            self._merge()
        elif what < 0.74:
            one.unreadable()
        elif what < 0.78:
            one.index += 1
        else:
            partition = self.random.randrange(len(self.log.partitions))
            for _ in range(self.random.choice((1, 1, 2, 3))):
                self.log.write_bytes(partition, *self.random.choice(_NAMELESS))

    def _numbers(self, one: HandRange) -> list[int]:
        return [number for number in range(0, 400, 25) if one.span.contains(PLAIN.key(number))]

    def _key_of(self, one: HandRange) -> int:
        return self.random.choice(self._numbers(one))

    def _split(self, one: HandRange) -> None:
        numbers = self._numbers(one)
        if len(numbers) > 1:
            self.ranges.append(one.split(PLAIN.key(numbers[len(numbers) // 2]), self._next_id))
            self._next_id += 1

    def _merge(self) -> None:
        pairs = [(a, b) for a in self.ranges for b in self.ranges if a.span.end == b.span.start]
        if pairs:
            left, right = self.random.choice(pairs)
            left.merge(right, close=self.seconds)
            self.ranges.remove(right)

    # ---- what is read ----

    def _go_on(self) -> None:
        number, what = self.random.randrange(len(self.log.partitions)), self.random.random()
        if what < 0.6:
            end = len(self.log.partitions[number])
            first = min(end, int(self.both[0].driven[number].processor.next_offset or 0))
            upto, batch = self.random.randint(first, end), self.random.choice((1, 3, 50))
            self._each(lambda run: run.read(number, upto, batch))
        elif what < 0.7:
            self._each(lambda run: run.exchange(number))
        elif what < 0.92:
            self._each(lambda run: run.restart(number))
            self.seen["restart amid backlogs"] += bool(self.both[0].driven[number].processor.to_read_again)
        else:
            self._answer()

    def _answer(self) -> None:
        """Answer some of the scans that were asked for, as rows that nobody has."""
        for scan in self._scans:
            one = next((each for each in self.ranges if each.id == scan.range_id), None)
            if one is not None and self.random.random() < 0.7:
                one.scanned(scan)
                self.seen["scan"] += 1
        self._scans.clear()

    def _each(self, act: Callable[[Partitions], object]) -> None:
        for run in self.both:
            act(run)
        for number, (ours, model) in enumerate(zip(*(run.driven for run in self.both), strict=True)):
            first, self._compared[number] = self._compared[number], len(ours.results)
            assert len(ours.results) == len(model.results)
            for ours_result, model_result in zip(ours.results[first:], model.results[first:], strict=True):
                self._compare(ours_result, model_result)
            assert ours.state == model.state
            assert _quarantined(ours) == _quarantined(model)
        assert self.both[0].sent == self.both[1].sent

    def _compare(self, ours: StepResult, model: StepResult) -> None:
        assert _told(ours) == _told(model)
        assert sorted(ours.changes, key=repr) == sorted(model.changes, key=repr)
        self.seen["hole"] += sum("names no range" in incident.cause for incident in ours.incidents)
        self._scans += (request for request in ours.requests if isinstance(request, Scan))


def _told(result: StepResult) -> tuple[object, ...]:
    """Return what a step tells others. Only the order of ranges in one checkpoint, or at one offset, is left
    out."""
    checkpoint = result.checkpoint
    if checkpoint is not None:
        checkpoint = replace(
            checkpoint,
            ranges=tuple(sorted(checkpoint.ranges, key=repr)),
            ended=tuple(sorted(checkpoint.ended)),
        )
    incidents = sorted(result.incidents, key=repr)
    sent = result.requests, result.exchanges, result.acks
    return result.outputs, checkpoint, incidents, sent, result.offset


def _quarantined(driven: Driven) -> object:
    return sorted(driven.processor.status().quarantined, key=repr)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", range(0, _SEEDS, 10))
def test_random_histories_give_the_steps_of_the_straightforward_model(first: int) -> None:
    print(f"seeds {first} to {first + 9}")
    seen: Counter[str] = Counter()
    for seed in range(first, first + 10):
        history = _History(seed)
        history.run()
        seen += history.seen
    assert len(seen) == len(_MUST_BE_SEEN), f"these histories show too little: {seen}"


def _parked_child() -> tuple[HandLog, Driven]:
    """The log of a child that waits for its parent in another partition, and the child's partition."""
    log = split_log()
    driven = Driven(PartitionProcessor(1, 2))
    driven.control(FEED)
    driven.run(log.partitions[1])
    return log, driven


def _held(driven: Driven) -> int:
    return driven.processor.status().backlog_entries


def test_a_backlog_takes_one_of_many_such_records_in_a_row_and_one_more_behind_an_entry() -> None:
    log, driven = _parked_child()
    before, child = _held(driven), HandRange(log, RangeId(3), Span(MIDDLE, PLAIN.span.end))
    for expected in (1, 3):
        for _ in range(50):
            log.write_bytes(1, None, b"x")
        driven.run(_unread(log, driven), 7)
        assert _held(driven) == before + expected
        child.heartbeat(9)


def test_a_backlog_does_not_hold_the_bytes_of_such_a_record() -> None:
    log, driven = _parked_child()
    log.write_bytes(1, None, b"\xff" * 1_000_000)
    driven.run(_unread(log, driven))
    backlogs = driven.processor._state.ranges.parking._backlogs
    assert len(backlogs[RangeId(3)].queue._entries[-1].value) < 1_000  # type: ignore[attr-defined]


def test_a_backlog_tells_the_cause_of_such_a_hole_when_its_range_comes_to_it() -> None:
    partitions = Partitions(split_log())
    partitions.log.write_bytes(1, None, b"\xff")
    partitions.settle()
    (cause,) = partitions.causes()
    assert "range 3 is quarantined at" in cause
    assert "the value is not a log entry" in cause


def _unread(log: HandLog, driven: Driven) -> Sequence[Record]:
    return log.partitions[1][int(driven.processor.next_offset or 0) :]


# ---- part by part


def test_the_next_chunk_of_a_new_partition_is_whole() -> None:
    entries = EntriesParts().entries
    assert (entries.is_amid_chunk, entries.has_more, entries.row_bytes) == (False, False, None)


def test_a_record_in_another_partition_than_its_range_is_reported_and_changes_nothing() -> None:
    parts = EntriesParts()
    parts.take(command(11, put(5), range_id=ELSEWHERE))
    parts.take(head(range_id=ELSEWHERE))
    assert [f"a record of range {ELSEWHERE} was skipped" in cause for cause in parts.causes()] == [True] * 2
    assert ([*parts.table], parts.noted.told, parts.committed.shared) == ([], [], [])


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (beat(6), (6, 6, 0, None, [])),
        (beat(4), (4, 4, 0, None, [])),
        (beat(3), (4, 4, 1, None, [])),
        (beat(4, covers=9), (4, 4, 0, None, [])),
        (beat(6, covers=9), (4, 4, 0, None, [HERE])),
        (beat(6, covers=12), (4, 4, 0, beat(6, covers=12), [])),
        (beat(6, generation=0), (4, 4, 0, None, [])),
        (beat(6, generation=2), (4, 4, 0, None, [HERE])),
    ],
)
@pytest.mark.parametrize("rests", [True, False])
def test_a_heartbeat_says_the_same_to_a_range_at_rest_as_to_any(
    rests: bool, entry: Heartbeat, expected: tuple[float, float, int, Heartbeat | None, list[RangeId]]
) -> None:
    parts = EntriesParts()
    state = parts.lives()
    if rests:
        parts.rest()
    parts.take(entry)
    close, resolved, regressions, pending, broken = expected
    assert (state.resolver.closed, state.resolved) == (at(close), at(resolved))
    assert (state.closed_regressions, state.pending_heartbeat) == (regressions, pending)
    assert [each.range_id for each in parts.table if each.quarantine is not None] == broken
    assert HERE in parts.table.touched, "its row is stored again"


@pytest.mark.parametrize("close", [4, 6])
def test_a_range_at_rest_that_only_closes_more_still_rests(close: float) -> None:
    """Its row is written from the bytes of the last one."""
    parts = EntriesParts()
    state = parts.lives()
    parts.rest()
    parts.take(beat(close))
    assert parts.table.rests(state)


def test_a_heartbeat_of_a_range_that_waits_comes_behind_what_the_range_has_to_apply() -> None:
    parts = EntriesParts()
    state = parts.lives()
    backlog = parts.parked(state)
    parts.take(beat(6))
    assert (state.resolver.closed, len(backlog.queue)) == (at(4), 2)
    parts.take(beat(6, range_id=CHILD))
    assert parts.table.states[CHILD].quarantine is not None, "it has not had its first snapshot"


@pytest.mark.parametrize("has_backlog", [True, False])
@pytest.mark.parametrize(
    ("passed", "amid_chunk"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_a_range_is_heard_when_a_record_of_it_is_read_for_the_first_time(
    passed: bool, amid_chunk: bool, has_backlog: bool
) -> None:
    parts = EntriesParts()
    state = parts.lives()
    state.gaps, state.heard_ms, state.claimed_since_ms = {"a": (Gap(PLAIN.span, None),)}, 5, 6
    backlog = parts.parked(state) if has_backlog else None
    if backlog is not None:
        backlog.heard_ms = 5
    parts.entries.is_amid_chunk = amid_chunk
    parts.take(command(11), passed=passed)
    is_heard = not (passed or amid_chunk)
    heard_ms = state.heard_ms if backlog is None else backlog.heard_ms
    assert heard_ms == (parts.clock.elapsed_ms if is_heard else 5)
    assert state.claimed_since_ms == (None if is_heard else 6)


def test_when_a_range_without_gaps_was_heard_is_not_kept() -> None:
    parts = EntriesParts()
    state = parts.lives()
    parts.take(command(11))
    assert state.heard_ms is None


def test_changes_outside_the_op_log_are_told_of_each_trigger_and_snapshot_that_is_passed() -> None:
    parts = EntriesParts()
    state = parts.lives()
    for entry in (command(11, put(6), close=5), beat(7, covers=11), command(12, trigger=Trigger.SPLIT)):
        parts.take(entry, 51)
    place = MutationPlace(Offset(51), PLAIN.span, state.resolver.closed, is_behind=False)
    assert parts.noted.told == [("note", 12, place)]
    parts.noted.told.clear()
    parts.take(head(range_id=HERE, index=12)._replace(chunks=2), 52, passed=True)
    told = [*parts.noted.told]
    parts.take(head(range_id=HERE, index=12)._replace(chunks=2, chunk=1), 53)
    assert parts.noted.told == told == [("pass", 12, at(7), False), ("leave out", PLAIN.span)]
    assert (state.generation, state.snapshots_taken) == (2, 1)


def test_entries_that_a_range_in_a_hole_passes_over_are_accounted_for_if_they_are_commands() -> None:
    parts = EntriesParts()
    state = parts.lives()
    state.quarantine_at(Offset(9), "broken", state.resolved)
    parts.take(beat(7))
    parts.take(command(12, trigger=Trigger.MERGE))
    parts.take(head(range_id=HERE, index=5, generation=0))
    assert [told[:2] for told in parts.noted.told] == [("note", 12), ("account", 12), ("pass", 5)]


def test_what_counts_of_an_entry_at_once_is_taken_when_it_is_put_off() -> None:
    parts = EntriesParts()
    state = parts.lives()
    backlog = parts.parked(state)
    parts.backlogs.let_go_on(HERE)
    parts.take(command(11, close=8), 51)
    parts.take(command(12, trigger=Trigger.SPLIT), 52)
    parts.take(head(ELSEWHERE, range_id=HERE, index=12, generation=3), 53)
    assert backlog.told == {claim_of(HERE)}
    parts.take(head(ELSEWHERE, range_id=HERE, index=12, generation=3)._replace(chunk=1, chunks=2), 54)
    place = MutationPlace(Offset(52), PLAIN.span, backlog.closed, is_behind=True)
    assert parts.noted.told == [
        ("account", 11, 2),
        ("note", 12, place),
        ("account", 12, 2),
        ("pass", 12, at(8), True),
    ]
    assert backlog.held_bytes == sum(each.held_bytes for each in backlog.queue._entries) + 4_000  # type: ignore[attr-defined]
    assert parts.backlogs.come_first, "the backlog has grown"


def test_a_version_is_for_the_feeds_that_miss_some_too() -> None:
    parts = EntriesParts()
    parts.lives()
    parts.committed.part(parts.feed("a").id)
    parts.take(command(11, put(6)))
    (version,) = parts.committed.shared
    assert [each.versions for each in parts.committed.parted[FeedId("a")]] == [[version]]


@pytest.mark.parametrize("passed", [True, False])
def test_a_cut_log_is_a_hole_of_each_range_that_had_to_read_it(passed: bool) -> None:
    parts = EntriesParts()
    states = [parts.lives(RangeId(range_id)) for range_id in (2, 4, 6, 8)]
    for state, behind in zip(states, (None, 59, 60, 61), strict=True):
        state.behind = None if behind is None else Offset(behind)
    parts.entries.cut(Offset(60), "it was cut", passed=passed)
    broken = [state.range_id for state in states if state.quarantine is not None]
    assert broken == ([4] if passed else [2, 4, 6, 8])
    assert parts.noted.told == [("forget", 4)]


def test_a_range_whose_last_entries_are_missing_has_ended_all_the_same() -> None:
    parts = EntriesParts()
    state = parts.lives()
    parts.take(RangeEnd(HERE, Generation(1), RaftIndex(20)))
    assert state.quarantine is not None
    assert state.status is RangeStatus.ENDED


@pytest.mark.parametrize(("start", "end", "fits"), [(3, 4, True), (4, 3, True), (5, 1, False), (1, 5, False)])
def test_a_range_with_keys_that_are_too_long_to_store_is_quarantined(
    start: int, end: int, fits: bool
) -> None:
    parts = EntriesParts()
    parts.entries._key_bytes = 4
    span = Span(start * b"a", end * b"b")
    parts.take(head(range_id=HERE)._replace(span=span))
    state = parts.table.states[HERE]
    assert (state.span == span, state.quarantine is None) == (fits, fits)
    assert ["too long to store" in cause for cause in parts.causes()] == [True] * (not fits)


def test_a_snapshot_that_cannot_be_taken_leaves_its_range_in_a_hole() -> None:
    parts = EntriesParts()
    parts.feed("late", cursor=1)
    state = parts.lives()
    parts.take(head(range_id=HERE, generation=1, index=10)._replace(chunk=1, chunks=2))
    parts.take(command(11, trigger=Trigger.SPLIT))
    parts.take(head(range_id=HERE, index=11)._replace(chunks=3))
    assert (state.quarantine, state.gaps) == (None, {})
    parts.take(head(range_id=HERE, index=11)._replace(chunk=2, chunks=3))
    assert state.quarantine is not None
    assert len(parts.causes()) == 1


def test_a_range_has_no_keys_before_the_last_chunk_of_its_first_snapshot() -> None:
    parts = EntriesParts()
    parts.take(head(range_id=HERE)._replace(chunks=2))
    assert parts.table.states[HERE].span is None
    parts.take(head(range_id=HERE)._replace(chunk=1, chunks=2))
    assert parts.table.states[HERE].span == PLAIN.span


def test_a_chunk_that_is_refused_is_counted() -> None:
    parts = EntriesParts()
    state = parts.lives()
    far = KeyValue(b"k", at(1_000_000), b"")
    answer = Generation(1), RaftIndex(10), 4
    chunk = ScanChunk(HERE, *answer, PLAIN.span, None, at(9), all_versions=True, rows=(far,), last=True)
    parts.take(chunk)
    parts.take(chunk)
    assert state.refused_chunks == 2
    assert len(parts.causes()) == 2
    parts.has_backlog(state, chunk)
    assert parts.entries.drain(9, 10_000).entries == 1, "it could not be read when it came"
    assert state.quarantine is None


@pytest.mark.parametrize(
    ("limit", "least", "entries"),
    [
        (9, 10_000, 4),
        (3, 10_000, 3),
        (2, 10_000, 2),
        (1, 10_000, 1),
        (9, 1, 1),
        (9, 0, 1),
        (9, 2, 2),
        (9, 3, 3),
    ],
)
def test_backlogs_are_applied_up_to_a_number_of_entries_and_of_bytes(
    limit: int, least: int, entries: int
) -> None:
    """Entries are taken until there are so many bytes, so the last one may go beyond."""
    parts = EntriesParts()
    sizes = []
    for range_id in (HERE, CHILD):
        given = [command(index, put(index), range_id=range_id) for index in (11, 12)]
        parts.has_backlog(parts.lives(range_id), *given)
        sizes.append(len(encode_entry(given[0])))
    assert len({*sizes}) == 1
    drained = parts.entries.drain(limit, least * sizes[0])
    assert drained == (entries, entries * sizes[0])
    assert len(parts.committed.shared) == entries
    assert parts.backlogs.ready is (entries < 4)
    assert HERE not in parts.backlogs or entries < 2


def test_a_backlog_that_was_applied_leaves_when_its_range_was_heard() -> None:
    parts = EntriesParts()
    for range_id, gaps in ((HERE, {"a": (Gap(PLAIN.span, None),)}), (CHILD, {})):
        state = parts.lives(range_id)
        state.gaps = dict(gaps)
        parts.has_backlog(state, command(11, range_id=range_id)).heard_ms = 7
    assert parts.entries.drain(9, 10_000).entries == 2
    assert [parts.table.states[range_id].heard_ms for range_id in (HERE, CHILD)] == [7, None]
    assert [*parts.backlogs.items()] == []


def test_an_entry_of_a_backlog_that_cannot_be_believed_is_a_hole() -> None:
    parts = EntriesParts()
    state = parts.lives()
    parts.has_backlog(state, command(11, close=1_000_000), command(12, put(6)))
    parts.entries.drain(9, 10_000)
    assert state.quarantine is not None
    assert state.applied == 10
    assert "ahead of its record's time" in state.quarantine.cause


def test_a_record_that_names_no_range_is_a_hole_with_its_cause_and_no_range_has_it_twice() -> None:
    parts = EntriesParts()
    broken, waits = parts.lives(), parts.lives(CHILD)
    backlog = parts.parked(waits)
    parts.entries.refuse(RawEntry(51, None, b"", 0), MalformedEntry("for this"), passed=False)
    assert parts.table.exposed.take_out() == []
    assert (broken.quarantine is None, waits.quarantine) == (False, None)
    backlog.queue.popleft()
    parts.backlogs.clear(CHILD)
    parts.entries.drain(9, 10_000)
    for state, cause in ((broken, "an unreadable record that names no range: for this"), (waits, "for this")):
        assert state.quarantine is not None
        assert state.quarantine.cause == cause


def test_an_exception_in_a_backlog_names_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = EntriesParts()
    parts.has_backlog(parts.lives(), command(11), command(12), offset=44)

    def breaks(_: RawEntry) -> Entry:
        raise ArithmeticError("nobody foresaw it")

    monkeypatch.setattr(parts.entries.reader, "read_again", breaks)
    with pytest.raises(StepBroke) as broke:
        parts.entries.drain(9, 10_000)
    assert broke.value.first.offset == broke.value.last.offset == 44
