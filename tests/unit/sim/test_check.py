"""The contract checker finds every single thing that is wrong with a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest

from sim.check import check_history, check_log
from sim.log.sink import WrittenRecord
from sim.options import StoreOptions
from sim.plan import OutcomeMix
from sim.workloads.random import RandomOptions
from tests.strategies import SimCase, SimOutcome, simulate_case
from tidegate.hlc import ClosedTimestamp, Timestamp
from tidegate.logcheck.breach import Rule
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry
from tidegate.raftlog.entry import (
    AbortTxn,
    Command,
    CommitIntent,
    DescriptorUpdate,
    Entry,
    Heartbeat,
    Op,
    RaftIndex,
    RangeId,
    Snapshot,
    TxnId,
    WriteIntent,
    WriteValue,
)
from tidegate.spans import Span

_CASE = SimCase(
    seed=4,
    options=StoreOptions(
        partitions=2,
        write_rate=200,
        closed_lag_ms=200,
        heartbeat_ms=200,
        snapshot_interval_ms=100,
        request_gap_ms=50,
        resolve_delay_ms=200,
    ),
    workload=RandomOptions(outcomes=OutcomeMix(restart=0.2, abort=0.2)),
    transactions=60,
    push_every=5,
)


@cache
def _log() -> SimOutcome:
    return simulate_case(_CASE)


@dataclass(frozen=True, slots=True)
class _Place:
    """A record that a mutation can change: its number, and what stands there."""

    number: int
    entry: Entry


_Records = list[WrittenRecord]


def _find(matches: Callable[[Entry], bool]) -> _Place:
    """The last record whose entry matches: mutations late in the log have much before them to contradict."""
    for number, record in reversed(list(enumerate(_log().records))):
        entry = decode_entry(record.key, record.value)
        if matches(entry):
            return _Place(number, entry)
    raise LookupError("the log has no such entry")


def _with_op(kind: type[Op]) -> tuple[int, Command, int]:
    """The last command with an op of this kind: record number, command, op number."""

    def numbers(entry: Entry) -> list[int]:
        ops = entry.ops or () if isinstance(entry, Command) else ()
        return [number for number, op in enumerate(ops) if isinstance(op, kind)]

    place = _find(lambda entry: bool(numbers(entry)))
    assert isinstance(place.entry, Command)
    return place.number, place.entry, numbers(place.entry)[0]


def _replaced(number: int, entry: Entry) -> _Records:
    records = list(_log().records)
    records[number] = records[number]._replace(value=encode_entry(entry))
    return records


def _with_replaced_op(number: int, command: Command, at: int, op: Op) -> _Records:
    ops = list(command.ops or ())
    ops[at] = op
    return _replaced(number, command._replace(ops=tuple(ops)))


def _unreadable() -> _Records:
    records = list(_log().records)
    return [*records[:-1], records[-1]._replace(value=b"\xff")]


def _in_another_partition() -> _Records:
    records = list(_log().records)
    place = _find(lambda entry: isinstance(entry, Heartbeat))
    moved = records[place.number]
    records[place.number] = moved._replace(partition=1 - moved.partition)
    return records


def _in_one_partition_only() -> _Records:
    records = list(_log().records)
    del records[_find(lambda entry: isinstance(entry, DescriptorUpdate)).number]
    return records


def _before_its_time() -> _Records:
    number, _, _ = _with_op(WriteIntent)
    records = list(_log().records)
    records[number] = records[number]._replace(record_time_ms=1)
    return records


def _without_first_snapshot() -> _Records:
    records = list(_log().records)
    first = next(i for i, record in enumerate(records) if record.key != bytes(8))
    return records[:first] + records[first + 1 :]


def _with_a_gap() -> _Records:
    records = list(_log().records)
    del records[_with_op(WriteIntent)[0]]
    return records


def _heartbeat_ahead() -> _Records:
    place = _find(lambda entry: isinstance(entry, Heartbeat))
    assert isinstance(place.entry, Heartbeat)
    return _replaced(place.number, place.entry._replace(covers=RaftIndex(place.entry.covers + 1)))


def _closed_falls() -> _Records:
    place = _find(lambda entry: isinstance(entry, Heartbeat))
    assert isinstance(place.entry, Heartbeat)
    return _replaced(place.number, place.entry._replace(closed=ClosedTimestamp(Timestamp(1))))


def _intent_below_closed() -> _Records:
    number, command, at = _with_op(WriteIntent)
    intent = (command.ops or ())[at]
    assert isinstance(intent, WriteIntent)
    return _with_replaced_op(number, command, at, intent._replace(timestamp=Timestamp(1)))


def _commit() -> tuple[int, Command, int, CommitIntent]:
    number, command, at = _with_op(CommitIntent)
    op = (command.ops or ())[at]
    assert isinstance(op, CommitIntent)
    return number, command, at, op


def _key_outside() -> _Records:
    number, command, at, op = _commit()
    return _with_replaced_op(number, command, at, op._replace(key=b"\xf6\x7f"))


def _version_without_value() -> _Records:
    number, command, at, op = _commit()
    return _with_replaced_op(number, command, at, op._replace(value=None))


def _other_previous_version() -> _Records:
    number, command, at, op = _commit()
    return _with_replaced_op(number, command, at, op._replace(prev_value=b"never written"))


def _intent_from_nowhere() -> _Records:
    number, command, at, op = _commit()
    return _with_replaced_op(number, command, at, op._replace(txn_id=TxnId(b"?" * 16)))


def _commit_below_its_intent() -> _Records:
    number, command, at, op = _commit()
    return _with_replaced_op(number, command, at, op._replace(timestamp=Timestamp(2)))


def _commit_after_abort() -> _Records:
    number, command, _, op = _commit()
    return _replaced(number, command._replace(ops=(AbortTxn(op.txn_id), *(command.ops or ()))))


def _abort_without_push() -> _Records:
    number, command, _ = _with_op(WriteIntent)
    return _replaced(number, command._replace(ops=(*(command.ops or ()), AbortTxn(TxnId(b"?" * 16)))))


def _snapshot_without_intents() -> _Records:
    place = _find(lambda entry: isinstance(entry, Snapshot) and bool(entry.intents))
    assert isinstance(place.entry, Snapshot)
    return _replaced(place.number, place.entry._replace(intents=()))


def _snapshot_of_another_span() -> _Records:
    place = _find(lambda entry: isinstance(entry, Snapshot))
    assert isinstance(place.entry, Snapshot)
    return _replaced(place.number, place.entry._replace(span=Span(b"a", b"b")))


def _missing_descriptors() -> _Records:
    return [record for record in _log().records if record.key != bytes(8)]


@pytest.mark.parametrize(
    ("mutate", "rule"),
    [
        (_unreadable, Rule.READABLE),
        (_in_another_partition, Rule.PARTITION),
        (_in_one_partition_only, Rule.PARTITION),
        (_before_its_time, Rule.RECORD_TIME),
        (_without_first_snapshot, Rule.FIRST),
        (_with_a_gap, Rule.DENSE),
        (_heartbeat_ahead, Rule.DENSE),
        (_closed_falls, Rule.CLOSED_RISES),
        (_intent_below_closed, Rule.ABOVE_CLOSED),
        (_key_outside, Rule.IN_SPAN),
        (_version_without_value, Rule.VALUE),
        (_other_previous_version, Rule.VERSION_ORDER),
        (_intent_from_nowhere, Rule.INTENT_COUNT),
        (_commit_below_its_intent, Rule.COMMIT_TIME),
        (_commit_after_abort, Rule.AFTER_ABORT),
        (_abort_without_push, Rule.PUSHED),
        (_snapshot_without_intents, Rule.SNAPSHOT),
        (_snapshot_of_another_span, Rule.SNAPSHOT),
        (_missing_descriptors, Rule.DESCRIPTOR),
    ],
)
def test_a_single_fault_is_found_and_named(mutate: Callable[[], _Records], rule: Rule) -> None:
    breaches = check_log(mutate(), _CASE.options.partitions, _log().pushed)
    assert rule in {breach.rule for breach in breaches}


def test_the_log_without_a_fault_has_no_breach() -> None:
    assert check_log(_log().records, _CASE.options.partitions, _log().pushed) == []


def test_a_version_that_the_log_lacks_or_has_twice_is_found() -> None:
    records, history = _log().records, list(_log().history)
    assert check_history(records, history) == []
    assert [breach.rule for breach in check_history(records, history[1:])] == [Rule.HISTORY]
    assert [breach.rule for breach in check_history(records, [*history, history[0]])] == [Rule.HISTORY]


def test_every_kind_of_op_stands_in_the_log_that_is_mutated() -> None:
    for kind in (WriteValue, WriteIntent, CommitIntent, AbortTxn):
        _with_op(kind)


def test_ranges_of_other_ids_are_followed_by_themselves() -> None:
    ids = {entry.range_id for entry in map(_entry, _log().records) if isinstance(entry, Command)}
    assert len(ids) > 1
    assert RangeId(0) not in ids


def _entry(record: WrittenRecord) -> Entry:
    return decode_entry(record.key, record.value)
