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

from tests.hand_log import HandLog, HandRange
from tests.logs import Record
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.partitions import FEED, MIDDLE, Partitions, split_log
from tidegate.errors import MalformedEntry
from tidegate.processor.batch import LogRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.moving.range_entries import RangeEntries
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.decode import decode_key
from tidegate.raftlog.entry import BROADCAST, Entry, Offset, RangeId
from tidegate.raftlog.request import Scan
from tidegate.ranges.backlog import RawEntry
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
