"""No record of state, and none of a topic of the application, is above its bound, whatever the log brings.

Each kind of record that docs/protocols/record-bounds.md lists has a test here or where the page says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, HandTable, at, txn
from tests.unit.processor.driving import Driven, StoredState
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate, Failed
from tidegate.errors import FeedError
from tidegate.hlc import ZERO_RESOLVED
from tidegate.processor.batch import ExchangeRecord, StateTable, StepResult
from tidegate.processor.bounds import (
    CLAIMS_MAX,
    HAND_OFFS_MAX,
    PARENTS_MAX,
    UNSEEN_PARENTS_MAX,
    RecordBounds,
)
from tidegate.processor.checkpoint import encode_checkpoint, split_checkpoint
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.moving import exchange
from tidegate.processor.moving.parking import HAND_OFF_LIMIT_MS
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.push_policy import PushPolicy
from tidegate.processor.state.exchange_codec import decode_exchange, encode_exchange
from tidegate.processor.state.state_codec import read_range
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import Generation, Offset, OpenIntent, Parent, RaftIndex, RangeId, WriteIntent
from tidegate.raftlog.request import Push, Scan, encode_request
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import Claim, Exchange, HandOff
from tidegate.spans import Span

#: Low, so that small worlds come to it.
_BOUNDS: Final = RecordBounds(20_000)
_CONFIG: Final = ProcessorConfig(PushPolicy(age_ms=500, repeat_ms=300), bounds=_BOUNDS)
_SCANS: Final = replace(WITH_MARKERS, initial_scan=InitialScan.YES)


@pytest.mark.parametrize(
    ("record_bytes", "piece", "key"), [(1_000_000, 500_000, 62_500), (33, 16, 2), (31, 15, 1)]
)
def test_bounds_are_shares_of_the_largest_record(record_bytes: int, piece: int, key: int) -> None:
    bounds = RecordBounds(record_bytes)
    assert (bounds.piece_bytes, bounds.key_bytes, bounds.told_bytes) == (piece, key, record_bytes)


def _feed(number: int, table: HandTable, *, can_miss: bool = True) -> Activate:
    options = _SCANS if can_miss else WITH_MARKERS
    return activation([table.descriptor], options, start=at(1 + number / 1_000), feed_id=f"feed-{number:020}")


def _long(key: bytes, length: int) -> bytes:
    """A key behind ``key``, of ``length`` bytes."""
    return key + b"\x12" + b"k" * (length - len(key) - 1)


def _driven(partitions: int = 2) -> Driven:
    return Driven(PartitionProcessor(0, partitions, _CONFIG))


def _restored(state: StoredState, partitions: int = 2) -> Driven:
    rows = ((table, key, value) for (table, key), value in state.items())
    return Driven(PartitionProcessor.restore(0, partitions, _CONFIG, rows), state)


def _records(result: StepResult) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield what an engine writes of a result but the feeds' rows: (kind, key, value)."""
    for table, key, value in result.changes:
        yield table.value, key, value or b""
    for message in result.exchanges:
        yield "hand-off", *encode_exchange(message, _BOUNDS)
    for request in result.requests:
        yield "request", *encode_request(request)
    for ack in result.acks:
        yield "answer", b"", ack.to_bytes()
    if result.checkpoint is not None:
        for piece in split_checkpoint(result.checkpoint, _BOUNDS):
            yield "checkpoint", b"", encode_checkpoint(piece)


def _require_bounded(results: Sequence[StepResult]) -> None:
    for result in results:
        for kind, key, value in _records(result):
            assert len(key) + len(value) <= _BOUNDS.record_bytes * 3 // 4, (
                f"a record of {kind}: {key.hex()[:80]}"
            )


def _exchange(driven: Driven, messages: Sequence[Exchange]) -> StepResult:
    first = int(driven.processor.next_hand_off)
    return driven.note(
        driven.processor.exchange(
            [ExchangeRecord(Offset(first + number), message) for number, message in enumerate(messages)]
        )
    )


class World:
    """A partition whose log is made to have large rows: many feeds, splits, claims, holes, and long keys."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = Random(seed)
        log = self.log = HandLog(partitions=2)
        log.describe(PLAIN, OTHER)
        self.seconds = 10
        self.driven = _driven()
        self.driven.control(
            *(
                _feed(number, rng.choice([PLAIN, OTHER]), can_miss=rng.random() < 0.8)
                for number in range(rng.choice([1, 10, 60]))
            )
        )
        self.keys = rng.choice([20, 200, _BOUNDS.key_bytes])
        self.range = log.open_range(2, PLAIN.span, high=rng.choice([0, 5]))
        self.range.high = 5
        self.children = list[HandRange]()

    def happen(self, turns: int) -> None:
        """Let so many things happen, of each of which the partition hears."""
        acts = [self.write, self.split, self.split, self.hole, self.claim, self.chunks, self.intents]
        for _ in range(turns):
            self.seconds += 1
            self.rng.choice(acts)()
            self.read()

    def read(self) -> None:
        """Step what is new, and what that lets go on."""
        driven = self.driven
        driven.run(self.log.partitions[0][int(driven.processor.next_offset or 0) :], 3)
        while driven.processor.ready:
            driven.step(())

    def write(self) -> None:
        self.range.apply(PLAIN.put(self.seconds, 1, "x"), close=self.seconds)

    def split(self) -> None:
        number = len(self.children)
        key = _long(PLAIN.key(100_000 - 10 * number), self.rng.randint(20, self.keys))
        child = 100 + number  # here and in the other partition
        self.children.append(self.range.split(key, child, close=self.seconds))

    def hole(self) -> None:
        self.range.index += 1
        self.write()
        self.range.generation += 1
        self.range.snapshot(close=self.seconds, high=self.seconds)

    def claim(self) -> None:
        """Take claims at one of several indexes, at times more than a range keeps."""
        index = RaftIndex(self.range.index + self.rng.choice([-3, 0, 1_000]))
        span = Span(PLAIN.span.start, _long(PLAIN.key(5), self.keys))
        claims = [Claim(RangeId(10_001 + 2 * child), self.range.id, index, span) for child in range(1_500)]
        _exchange(self.driven, self.rng.sample(claims, self.rng.choice([3, 3, 3, 1_200])))

    def chunks(self) -> None:
        """The first chunk of a snapshot that is as large as a record of the log can be."""
        size = self.rng.choice([100, _BOUNDS.record_bytes, 3 * _BOUNDS.record_bytes])
        intents = [OpenIntent(txn(9), b"anchor", PLAIN.key(1) + size * b"k", at(1))]
        self.range.generation += 1
        self.range.snapshot(close=self.seconds, high=self.seconds, intents=intents, chunk=0, chunks=2)
        if self.rng.random() < 0.5:
            self.read()
        self.range.snapshot(close=self.seconds, high=self.seconds, chunk=1, chunks=2)

    def intents(self) -> None:
        anchor = self.rng.randint(1, self.keys) * b"a"
        number = self.rng.randint(100, 200)
        intent = WriteIntent(txn(number), anchor, at(self.seconds), at(self.seconds))
        self.range.apply(intent, close=self.seconds)


@given(seed=st.integers(0, 2**32))
@examples(15)
def test_whatever_a_log_brings_each_record_stays_below_its_bound_and_is_read_again(seed: int) -> None:
    world = World(seed)
    world.happen(world.rng.choice([5, 10, 30]))
    _require_bounded(world.driven.results)
    state = world.driven.state
    restored = _restored(state)
    assert _told(restored) == _told(world.driven)


def _told(driven: Driven) -> object:
    """All that ranges keep for others and of others."""
    return [
        (
            state.range_id,
            state.promises,
            state.holes,
            state.floors,
            state.gaps,
            state.claims,
            state.hand_offs,
            state.quarantine,
            state.chunks,
            state.span,
        )
        for state in sorted(driven.processor._ranges, key=lambda state: state.range_id)
    ]


@pytest.mark.long
def test_200_feeds_and_70_splits_leave_rows_of_a_thirtieth_of_a_record() -> None:
    """Feeds that watch the range's keys are named once; those that do not are not named at all."""
    for table, most in (PLAIN, 32_000), (OTHER, 4_000):
        log = HandLog(partitions=2)
        log.describe(PLAIN, OTHER)
        parent = log.open_range(2, PLAIN.span)
        parent.apply(PLAIN.put(1, 1, "x"), close=2)
        driven = Driven(PartitionProcessor(0, 2))
        driven.control(*_feeds(table))
        for number in range(70):
            parent.split(PLAIN.key(1_000 * (70 - number)), 101 + 2 * number, close=3 + number)
        driven.run(log.partitions[0], 50)
        parent.apply(PLAIN.put(200, 1, "one more"), close=201)
        result = driven.step(log.partitions[0][int(driven.processor.next_offset or 0) :])
        rows = [len(value) for (place, _), value in driven.state.items() if place is StateTable.RANGES]
        assert max(rows) < most
        changes = (change for change in result.changes if change.table is StateTable.RANGES)
        written = sum(len(change.value or b"") for change in changes)
        assert written < most / 3, "a step writes what feeds lack now, and not again what others are told"


def _feeds(table: HandTable) -> Iterator[Activate]:
    return (
        activation([table.descriptor], _SCANS, start=at(1), feed_id=f"feed-{number:020}")
        for number in range(200)
    )


# ---- what is refused by name


def test_a_range_whose_keys_are_too_long_to_store_is_quarantined_and_the_partition_goes_on() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    good, long = log.open_range(1, PLAIN.split(50)[0]), _long(PLAIN.key(50), _BOUNDS.key_bytes + 1)
    log.open_range(2, Span(long, PLAIN.span.end))
    good.apply(PLAIN.put(5, 1, "x"), close=6)
    driven = _driven(1)
    driven.control(_feed(0, PLAIN, can_miss=False))
    driven.run(log.partitions[0])
    (cause,) = driven.causes
    assert "range 2 is quarantined" in cause
    assert "too long to store: one has 1251 bytes, and 1250 can be stored" in cause
    assert len(driven.rows) == 1
    _require_bounded(driven.results)
    assert _told(_restored(driven.state, 1)) == _told(driven)


def test_a_range_that_splits_at_a_key_that_is_too_long_stands_where_it_was() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    parent = log.open_range(1, PLAIN.span)
    parent.apply(PLAIN.put(5, 1, "x"), close=6)
    parent.split(_long(PLAIN.key(50), _BOUNDS.key_bytes + 1), 2, close=7)
    parent.apply(PLAIN.put(8, 1, "y"), close=9)
    driven = _driven(1)
    driven.control(_feed(0, PLAIN, can_miss=False))
    driven.run(log.partitions[0])
    assert len(driven.causes) == 2
    assert len(driven.rows) == 1
    assert [hole.resolved for hole in driven.processor.status().quarantined] == [at(7), ZERO_RESOLVED]
    assert driven.checkpoints == {}
    _require_bounded(driven.results)


@pytest.mark.parametrize("waits", [False, True], ids=["live", "waits"])
def test_a_key_that_is_too_long_is_not_kept_for_what_a_range_does_not_follow(waits: bool) -> None:
    """It speaks for no key then: a Snapshot that it does not take may have left it without any."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    parent = log.open_range(1, PLAIN.span)
    parent.apply(PLAIN.put(5, 1, "x"), close=6)
    if waits:
        parent.unreadable()
        parent.snapshot(close=6.5, high=6.4)
    parent.split(_long(PLAIN.key(50), _BOUNDS.key_bytes + 1), 2, close=7)
    driven = _driven(1)
    driven.control(_feed(0, PLAIN))
    driven.run(log.partitions[0], 1)
    key = encode_key(RangeId(1))
    span = read_range(key, driven.state[StateTable.RANGES, key]).state.accounted.span
    assert span is not None
    assert span.start == span.end
    assert len(span.end) <= _BOUNDS.key_bytes


def test_a_transaction_with_an_anchor_key_that_is_too_long_quarantines_its_range() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    ranges = [log.open_range(1, PLAIN.split(50)[0]), log.open_range(2, PLAIN.split(50)[1])]
    ranges[0].apply(PLAIN.put(5, 1, "x"), close=6)
    ranges[0].apply(WriteIntent(txn(1), (_BOUNDS.key_bytes + 1) * b"a", at(8), at(8)), close=7)
    ranges[1].apply(PLAIN.put(8, 60, "y"), close=9)
    driven = _driven(1)
    driven.control(_feed(0, PLAIN, can_miss=False))
    driven.run(log.partitions[0])
    (cause,) = driven.causes
    assert "range 1 is quarantined" in cause
    assert "anchor key of transaction" in cause
    assert len(driven.rows) == 2
    assert driven.checkpoints[RangeId(1)].resolved == at(7)
    assert not [key for table, key in driven.state if table is StateTable.INTENTS]
    _require_bounded(driven.results)
    assert _told(_restored(driven.state, 1)) == _told(driven)


def test_a_cause_that_quotes_a_long_key_is_cut() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    opened = log.open_range(1, PLAIN.split(50)[0])
    opened.apply(PLAIN.put(5, 60, "x")._replace(key=_long(PLAIN.key(60), 30_000)))
    driven = _driven(1)
    driven.control(_feed(0, PLAIN, can_miss=False))
    driven.run(log.partitions[0])
    (cause,) = driven.causes
    assert "outside the range" not in cause, "which is behind the key"
    assert len(cause) < 1_200
    _require_bounded(driven.results)


def test_a_snapshot_that_names_more_parents_than_are_waited_for_heals_by_a_scan() -> None:
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    parents = tuple(
        Parent(RangeId(5 + 2 * number), Generation(1), RaftIndex(9)) for number in range(PARENTS_MAX + 1)
    )
    log.open_range(2, PLAIN.span, high=9, parents=parents)
    driven = _driven()
    driven.control(_feed(0, PLAIN))
    (result,) = driven.run(log.partitions[0])
    assert not result.exchanges
    assert [type(request) for request in result.requests] == [Scan]
    assert "names 65 parents" in driven.causes[0]


# ---- what is said with less detail


def test_claims_beyond_those_that_a_range_keeps_are_told_that_nothing_is_sure() -> None:
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    log.open_range(2, PLAIN.span)
    driven = _driven()
    driven.control(_feed(0, PLAIN))
    driven.run(log.partitions[0])
    claims = [
        Claim(RangeId(5 + 2 * child), RangeId(2), RaftIndex(999), PLAIN.span) for child in range(10_000)
    ]
    result = _exchange(driven, claims)
    answered = [message for message in result.exchanges if isinstance(message, HandOff)]
    assert len(answered) == len(claims) - CLAIMS_MAX
    assert {(answer.resolved, answer.complete, answer.span) for answer in answered} == {
        (ZERO_RESOLVED, False, None)
    }
    _require_bounded(driven.results)
    assert _told(_restored(driven.state)) == _told(driven)


def test_claims_on_ranges_that_nobody_has_seen_do_not_wait_without_end() -> None:
    """Each step looks at those that wait: it must not take longer with each range id that is made up."""
    driven = _driven()
    driven.control(_feed(0, PLAIN))
    claims = [
        Claim(RangeId(3), RangeId(2 * parent), RaftIndex(9), PLAIN.span)
        for parent in range(1, UNSEEN_PARENTS_MAX + 101)
    ]
    result = _exchange(driven, claims)
    answered = [message for message in result.exchanges if isinstance(message, HandOff)]
    assert [answer.claim for answer in answered] == claims[-100:]
    assert {(answer.resolved, answer.complete) for answer in answered} == {(ZERO_RESOLVED, False)}
    assert len(list(driven.processor._ranges)) == UNSEEN_PARENTS_MAX
    driven = _restored(driven.state)
    again = _exchange(driven, claims)
    assert [message.claim for message in again.exchanges if isinstance(message, HandOff)] == claims[-100:]


def test_a_range_whose_claims_are_answered_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "UNSEEN_PARENTS_MAX", 20)
    log = HandLog(partitions=2)
    log.describe(PLAIN, OTHER)
    beating = [log.open_range(1_000, PLAIN.span), log.open_range(1_002, OTHER.span)]
    driven = _driven()
    driven.control(_feed(0, PLAIN))
    driven.run(log.partitions[0])
    claims = [
        Claim(RangeId(3), RangeId(2 * parent), RaftIndex(9), PLAIN.span, told_ms=at(1).wall_ms)
        for parent in range(1, 41)
    ]
    first = _exchange(driven, claims[:20])
    assert not first.exchanges
    read = len(log.partitions[0])
    for second in range(10, 3 * HAND_OFF_LIMIT_MS // 1_000, 10):
        log.wait_for(at(second))
        for each in beating:
            each.heartbeat(second)
    driven.run(log.partitions[0][read:], 10)
    answered = [each for result in driven.results for each in result.exchanges if isinstance(each, HandOff)]
    assert {each.claim for each in answered} == {*claims[:20]}
    for partition in (driven, _restored(driven.state)):
        later = _exchange(partition, claims[20:])
        assert not later.exchanges, "they wait"


def test_hand_offs_that_nobody_waits_for_are_not_kept_without_end() -> None:
    driven = _driven()
    hand_offs = [
        HandOff(
            Claim(RangeId(2), RangeId(5 + 2 * parent), RaftIndex(9), PLAIN.span),
            ZERO_RESOLVED,
            complete=False,
        )
        for parent in range(1_000)
    ]
    _exchange(driven, hand_offs)
    (state,) = driven.processor._ranges
    assert len(state.hand_offs) == HAND_OFFS_MAX
    _require_bounded(driven.results)


def test_a_hand_off_that_no_record_has_room_for_says_that_nothing_is_sure() -> None:
    claim = Claim(RangeId(3), RangeId(2), RaftIndex(9), PLAIN.span)
    told = tuple(ToldGaps(f"feed-{number}", (Gap(PLAIN.span, None),)) for number in range(2_000))
    message = HandOff(claim, ZERO_RESOLVED, complete=True, span=PLAIN.span, told_gaps=told)
    _, value = encode_exchange(message, _BOUNDS)
    assert decode_exchange(value) == HandOff(claim, ZERO_RESOLVED, complete=False)
    _, value = encode_exchange(message)
    assert decode_exchange(value) == message


def test_a_push_names_no_more_transactions_than_a_request_has_room_for() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    opened = log.open_range(1, PLAIN.span)
    for number in range(60):
        opened.apply(WriteIntent(txn(number), 1_000 * b"a", at(2), at(2)), close=3)
    opened.apply(PLAIN.put(50, 1, "x"), close=50)
    driven = _driven(1)
    driven.control(_feed(0, PLAIN, can_miss=False))
    driven.run(log.partitions[0])
    (push,) = [request for result in driven.results for request in result.requests]
    assert isinstance(push, Push)
    assert 5 < len(push.txns) < 10
    _require_bounded(driven.results)


def test_a_scan_that_has_come_to_a_long_key_asks_from_a_shorter_one_below_it() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    opened = log.open_range(1, PLAIN.span, high=9)
    driven = _driven(1)
    driven.control(_feed(0, PLAIN, can_miss=False))
    driven.run(log.partitions[0])
    (scan,) = [request for result in driven.results for request in result.requests]
    assert isinstance(scan, Scan)
    long = _long(PLAIN.key(50), _BOUNDS.record_bytes)
    opened.scanned(scan, span=Span(PLAIN.span.start, long), last=True)
    driven.run(log.partitions[0][int(driven.processor.next_offset or 0) :])
    again = driven.results[-1].requests[-1]
    assert isinstance(again, Scan)
    assert again.span.start == long[: _BOUNDS.key_bytes]
    opened.scanned(again)
    driven.run(log.partitions[0][int(driven.processor.next_offset or 0) :])
    assert not driven.results[-1].requests
    _require_bounded(driven.results)
    assert _told(_restored(driven.state, 1)) == _told(driven)


def test_a_feed_that_fails_over_a_long_key_says_so_in_a_short_sentence() -> None:
    driven = _driven(1)
    feed = _feed(0, PLAIN)
    driven.control(feed)
    result = StepResult(None)
    driven.processor.refuse(feed.feed_id, FeedError("k" * 50_000), result)
    (ack,) = result.acks
    assert isinstance(ack, Failed)
    assert len(ack.reason) == 1_000
    _require_bounded([result])


def test_a_descriptor_as_large_as_a_record_of_the_log_is_stored() -> None:
    columns = ", ".join(f"{'c' * 60}{number} STRING" for number in range(300))
    wide = HandTable.of(110, "wide", f"id INT, {columns}")
    log = HandLog(partitions=1)
    log.describe(wide)
    driven = _driven(1)
    driven.control(_feed(0, wide))
    driven.run(log.partitions[0])
    assert len([key for table, key in driven.state if table is StateTable.DESCRIPTORS]) > 1
    _require_bounded(driven.results)
    restored = _restored(driven.state, 1)
    assert restored.processor.status() == driven.processor.status()
