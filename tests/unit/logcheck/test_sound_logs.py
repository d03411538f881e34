"""Logs of the simulated store are sound, whatever part of them is seen; a breach that is planted is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Final

import pytest

from sim.log.sink import WrittenRecord
from sim.options import StoreOptions
from sim.workloads.random import RandomOptions
from tests.hand_log import HandLog, HandRange, HandTable, at, intent, txn
from tests.simulation.odd_logs import in_chunks
from tests.strategies import SimCase, drive_case
from tidegate.hlc import ClosedTimestamp, Timestamp
from tidegate.logcheck.breach import Breach, BreachPlace, Rule
from tidegate.logcheck.log_check import CheckedRecord, LogCheck, LogOptions, Seen, check_log
from tidegate.logcheck.memory import CheckLimits
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    Command,
    CommitIntent,
    Entry,
    Heartbeat,
    OpenIntent,
    RaftIndex,
    RangeEnd,
    RangeId,
    ScanChunk,
    Snapshot,
    SnapshotReason,
    Trigger,
    WriteIntent,
    WriteValue,
)
from tidegate.raftlog.request import Scan

_PARTITIONS: Final = 3
_SEEDS: Final = (0, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (4, 13)))


@cache
def _log(seed: int) -> tuple[WrittenRecord, ...]:
    """Splits, merges, skipped entries, commands without ops, late shipping, scans; shipped to its end."""
    rng = Random(seed)
    case = SimCase(
        seed,
        StoreOptions(
            partitions=_PARTITIONS,
            write_rate=200,
            closed_lag_ms=100,
            heartbeat_ms=100,
            request_gap_ms=100,
            resolve_delay_ms=300,
            scan_chunk_rows=3,
            snapshot_interval_ms=400,
            skip_every_ms=rng.choice([0, 400]),
            opless_every_ms=rng.choice([0, 400]),
            ship_delay_ms=rng.choice([0, 300]),
        ),
        RandomOptions(tables=2, ranges=3),
        transactions=200,
        push_every=1,
    )
    driven = drive_case(case)
    for number in range(8):
        driven.run(5)
        driven.split_somewhere(rng)
        driven.run(5)
        if number % 3:
            driven.merge_somewhere(rng)
    driven.finish()
    for number, range_ in enumerate(driven.ranges):
        driven.scan(Scan(range_.id, number, range_.span, None, range_.closed, True, True))
    driven.advance(1_000)
    return tuple(driven.log)


def _placed(records: list[WrittenRecord]) -> Iterator[CheckedRecord]:
    ends: Counter[int] = Counter()
    for partition, key, value, time_ms in records:
        yield CheckedRecord(BreachPlace(partition, ends[partition]), key, value, time_ms)
        ends[partition] += 1


def _run(records: list[CheckedRecord], options: LogOptions) -> tuple[list[Breach], Seen]:
    breaches: list[Breach] = []
    check = LogCheck(options, breaches.append)
    for record in records:
        check.check_next(record)
    return breaches, check.finish()


def _entry(record: WrittenRecord) -> Entry:
    return decode_entry(record.key, record.value)


# ---- sound logs


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_sound_log_has_no_breach(seed: int) -> None:
    breaches, seen = _run(list(_placed(list(_log(seed)))), LogOptions(_PARTITIONS, ended=True, ahead_ms=0))
    assert breaches == []
    assert seen.records == len(_log(seed))
    assert seen.undecided == ()


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_sound_log_that_goes_on_has_no_breach_wherever_it_ends_now(seed: int) -> None:
    rng, records = Random(seed), list(_placed(list(_log(seed))))
    for _ in range(5):
        ends = [rng.randrange(len(records)) for _ in range(_PARTITIONS)]
        seen = [record for record in records if record.place.offset < ends[record.place.partition]]
        assert _run(seen, LogOptions(_PARTITIONS))[0] == []


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_sound_log_that_has_lost_its_beginning_has_no_breach(seed: int) -> None:
    """Each partition is cut somewhere else, as retention does."""
    rng, records = Random(seed), list(_placed(list(_log(seed))))
    lengths = Counter(record.place.partition for record in records)
    for ended in (False, True) * 3:
        starts = {number: rng.randrange(lengths[number]) for number in range(_PARTITIONS)}
        left = [record for record in records if record.place.offset >= starts[record.place.partition]]
        breaches, seen = _run(left, LogOptions(_PARTITIONS, starts, ended=ended))
        assert breaches == [], (starts, breaches[:3])
        assert any("has lost its beginning" in sentence for sentence in seen.undecided)


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_sound_log_has_no_breach_in_whatever_way_its_partitions_interleave(seed: int) -> None:
    records = list(_placed(list(_log(seed))))
    for order in ((0, 1, 2), (2, 1, 0)):
        one_by_one = sorted(records, key=lambda record: (order.index(record.place.partition), record.place))
        assert check_log(one_by_one, LogOptions(_PARTITIONS, ended=True)) == []


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_sound_log_has_no_breach_however_little_is_remembered(seed: int) -> None:
    for estates, left in ((1, 1), (2, 10_000), (100_000, 3)):
        limits = CheckLimits(keys=3, committed=2, aborted=1, estates=estates, left=left)
        options = LogOptions(_PARTITIONS, ended=True, limits=limits)
        assert check_log(_placed(list(_log(seed))), options) == []


@pytest.mark.parametrize("is_split", [False, True])
def test_intents_of_more_aborted_transactions_than_are_remembered_may_end(*, is_split: bool) -> None:
    table, log = HandTable.of(104, "t", "id INT, v STRING"), HandLog(1)
    log.describe(table)
    keys = log.open_range(7, table.span)
    for each in range(5):
        keys.apply(intent(each, 1))
    for each in range(5):
        keys.apply(AbortTxn(txn(each)))
    if is_split:
        keys.split(table.key(5), 8)
    for each in range(5):
        keys.apply(AbortIntent(txn(each)))
    records = [
        CheckedRecord(BreachPlace(0, each.offset), each.key, each.value, each.timestamp)
        for each in log.partitions[0]
    ]
    assert check_log(records, LogOptions(1, ended=True, limits=CheckLimits(aborted=2))) == []


@pytest.mark.parametrize("seed", _SEEDS)
def test_commands_that_come_again_are_counted_and_are_no_breach(seed: int) -> None:
    """A source that starts again some records before the one of which it knows that it was written."""
    rng, records = Random(seed), list(_log(seed))
    numbers = [n for n, record in enumerate(records) if isinstance(_entry(record), Command)]
    copied = 0
    for number in sorted(rng.sample(numbers, 20), reverse=True):
        before = [
            record
            for record in records[: number + 1]
            if record.key == records[number].key and isinstance(_entry(record), Command)
        ][-rng.randint(1, 5) :]
        records[number + 1 : number + 1] = before
        copied += len(before)
    breaches, seen = _run(list(_placed(records)), LogOptions(_PARTITIONS, ended=True))
    assert breaches == []
    assert seen.copies >= copied


@pytest.mark.parametrize("seed", _SEEDS)
def test_snapshots_that_begin_again_after_a_crash_are_counted_and_are_no_breach(seed: int) -> None:
    rng, records = Random(seed), list(_log(seed))
    numbers = [
        n for n, entry in enumerate(map(_entry, records)) if isinstance(entry, Snapshot) and entry.chunks == 1
    ]
    copied = 0
    for number in sorted(rng.sample(numbers, 20), reverse=True):
        snapshot = _entry(records[number])
        assert isinstance(snapshot, Snapshot)
        chunks = [
            records[number]._replace(value=encode_entry(chunk))
            for chunk in in_chunks(snapshot, rng.randint(1, 3))
        ]
        written = rng.randint(1, len(chunks))
        records[number : number + 1] = [*chunks[:written], *chunks]
        copied += written
    breaches, seen = _run(list(_placed(records)), LogOptions(_PARTITIONS, ended=True))
    assert breaches == []
    assert seen.copies >= copied


def test_a_snapshot_that_begins_again_with_other_content_is_told() -> None:
    table, log = HandTable.of(104, "t", "id INT, v STRING"), HandLog(1)
    log.describe(table)
    other = OpenIntent(txn(1), b"anchor", table.key(1), at(1))
    begun = HandRange(log, RangeId(7), table.span)
    for number, intents in ((0, ()), (0, (other,)), (1, ())):
        begun.snapshot(reason=SnapshotReason.PERIODIC, chunk=number, chunks=2, intents=intents)
    records = [
        CheckedRecord(BreachPlace(0, each.offset), each.key, each.value, each.timestamp)
        for each in log.partitions[0]
    ]
    breaches = check_log(records, LogOptions(1))
    assert [breach.place for breach in breaches if breach.rule is Rule.COPY] == [BreachPlace(0, 2)]


def test_a_store_that_began_anew_in_the_log_of_its_former_self_is_told() -> None:
    """Also where its indexes are those of entries that the check has forgotten the content of."""
    table, log = HandTable.of(104, "t", "id INT, v STRING"), HandLog(1)
    log.describe(table)
    former = log.open_range(7, table.span)
    for number in range(1, 200):
        former.apply(table.put(number, number, "old"), close=number - 0.5)
    begun, anew = len(log.partitions[0]), HandRange(log, RangeId(7), table.span)
    log.wait_for(at(300))
    anew.snapshot(reason=SnapshotReason.INITIAL, close=300)
    anew.apply(table.put(301, 1, "new"), close=300.5)
    records = [
        CheckedRecord(BreachPlace(0, each.offset), each.key, each.value, each.timestamp)
        for each in log.partitions[0]
    ]
    breaches = check_log(records, LogOptions(1))
    told = [breach.place for breach in breaches if "the store began anew" in breach.sentence]
    assert told == [BreachPlace(0, begun), BreachPlace(0, begun + 1)]


# ---- planted breaches


def _where(records: list[WrittenRecord], rng: Random, matches: Callable[[Entry], bool]) -> tuple[int, Entry]:
    found = [(n, entry) for n, entry in enumerate(map(_entry, records)) if matches(entry)]
    return rng.choice(found)


def _drop(records: list[WrittenRecord], rng: Random, matches: Callable[[Entry], bool]) -> None:
    del records[_where(records, rng, matches)[0]]


def _put(records: list[WrittenRecord], number: int, entry: Entry) -> None:
    records[number] = records[number]._replace(value=encode_entry(entry))


def _has(kind: type[object]) -> Callable[[Entry], bool]:
    return lambda entry: isinstance(entry, Command) and any(isinstance(op, kind) for op in entry.ops or ())


def _change_op(records: list[WrittenRecord], rng: Random, kind: type[object], **changes: object) -> None:
    number, command = _where(records, rng, _has(kind))
    assert isinstance(command, Command)
    at = next(n for n, op in enumerate(command.ops or ()) if isinstance(op, kind))
    ops = list(command.ops or ())
    ops[at] = ops[at]._replace(**changes)  # type: ignore[arg-type]
    _put(records, number, command._replace(ops=tuple(ops)))


def _drop_command(records: list[WrittenRecord], rng: Random) -> None:
    _drop(records, rng, lambda entry: isinstance(entry, Command))


def _drop_snapshot_of_a_split(records: list[WrittenRecord], rng: Random) -> None:
    _drop(records, rng, lambda entry: isinstance(entry, Snapshot) and bool(entry.parents))


def _drop_end(records: list[WrittenRecord], rng: Random) -> None:
    _drop(records, rng, lambda entry: isinstance(entry, RangeEnd))


def _drop_intent(records: list[WrittenRecord], rng: Random) -> None:
    number, command = _where(records, rng, _has(WriteIntent))
    assert isinstance(command, Command)
    ops = tuple(op for op in command.ops or () if not isinstance(op, WriteIntent))
    _put(records, number, command._replace(ops=ops))


def _move(records: list[WrittenRecord], rng: Random) -> None:
    number, _ = _where(records, rng, lambda entry: isinstance(entry, Command))
    moved = records[number]
    records[number] = moved._replace(partition=(moved.partition + 1) % _PARTITIONS)


def _damage(records: list[WrittenRecord], rng: Random) -> None:
    number = rng.randrange(len(records))
    records[number] = records[number]._replace(value=b"\xff" + records[number].value)


def _other_copy(records: list[WrittenRecord], rng: Random) -> None:
    number, command = _where(records, rng, lambda entry: isinstance(entry, Command) and bool(entry.ops))
    assert isinstance(command, Command)
    other = records[number]._replace(value=encode_entry(command._replace(ops=())))
    records.insert(number + 1, other)


def _swap(records: list[WrittenRecord], rng: Random) -> None:
    number, _ = _where(records[:-50], rng, lambda entry: isinstance(entry, Command))
    key = records[number].key
    later = next((n for n in range(number + 1, len(records)) if records[n].key == key), None)
    if later is not None:
        records[number], records[later] = records[later], records[number]
    else:
        _drop_command(records, rng)


def _older_generation(records: list[WrittenRecord], rng: Random) -> None:
    number, beat = _where(records, rng, lambda entry: isinstance(entry, Heartbeat))
    assert isinstance(beat, Heartbeat)
    _put(records, number, beat._replace(generation=beat.generation + 1))  # type: ignore[arg-type]


def _heartbeat_ahead(records: list[WrittenRecord], rng: Random) -> None:
    number, beat = _where(records, rng, lambda entry: isinstance(entry, Heartbeat))
    assert isinstance(beat, Heartbeat)
    _put(records, number, beat._replace(covers=RaftIndex(beat.covers + 1)))


def _closed_ahead(records: list[WrittenRecord], rng: Random) -> None:
    number, beat = _where(records, rng, lambda entry: isinstance(entry, Heartbeat))
    assert isinstance(beat, Heartbeat)
    late = ClosedTimestamp(Timestamp(beat.closed.wall + 10**10))
    _put(records, number, beat._replace(closed=late))


def _trigger(records: list[WrittenRecord], rng: Random) -> None:
    def plain(entry: Entry) -> bool:
        return isinstance(entry, Command) and entry.trigger is Trigger.NONE and entry.ops is not None

    number, command = _where(records, rng, plain)
    assert isinstance(command, Command)
    _put(records, number, command._replace(trigger=Trigger.MERGE))


def _scan_ahead(records: list[WrittenRecord], rng: Random) -> None:
    number, chunk = _where(records, rng, lambda entry: isinstance(entry, ScanChunk))
    assert isinstance(chunk, ScanChunk)
    _put(records, number, chunk._replace(upto=Timestamp(chunk.upto.wall + 10**12)))


def _no_descriptors(records: list[WrittenRecord], rng: Random) -> None:
    partition = rng.randrange(_PARTITIONS)
    records[:] = [each for each in records if each.partition != partition or each.key != bytes(8)]


_PLANTED: Final[tuple[Callable[[list[WrittenRecord], Random], None], ...]] = (
    _drop_command,
    _drop_snapshot_of_a_split,
    _drop_end,
    _drop_intent,
    _move,
    _damage,
    _other_copy,
    _swap,
    _older_generation,
    _heartbeat_ahead,
    _closed_ahead,
    _trigger,
    _scan_ahead,
    _no_descriptors,
    lambda records, rng: _change_op(records, rng, CommitIntent, key=b"\xf6\x7f"),
    lambda records, rng: _change_op(records, rng, CommitIntent, value=None),
    lambda records, rng: _change_op(records, rng, WriteValue | CommitIntent, timestamp=Timestamp(3)),  # type: ignore[arg-type]
    lambda records, rng: _change_op(records, rng, WriteIntent, timestamp=Timestamp(3)),
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("plant", _PLANTED, ids=lambda plant: plant.__name__.strip("_<>"))
def test_a_planted_breach_is_found(plant: Callable[[list[WrittenRecord], Random], None], seed: int) -> None:
    records = list(_log(seed))
    plant(records, Random(seed))
    assert check_log(_placed(records), LogOptions(_PARTITIONS, ended=True, ahead_ms=0))
