"""Each rule of the log contract, broken alone: the page's example with one thing changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from tests.hand_log import at, closed, txn, update_of
from tests.unit.raftlog.example_log import PARTITIONS, RECORDS, TABLE
from tidegate.hlc import ZERO, ClosedTimestamp, Timestamp
from tidegate.logcheck.breach import Breach, BreachPlace, Rule
from tidegate.logcheck.log_check import CheckedRecord, LogOptions, check_log
from tidegate.raftlog.encode import encode_entry, encode_key, range_of
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    Command,
    CommitIntent,
    Entry,
    Generation,
    Heartbeat,
    HistoryMutation,
    OpenIntent,
    Parent,
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
from tidegate.rows import encode_descriptor
from tidegate.rows.stored_descriptor import COLUMNS_MAX
from tidegate.spans import Span


class _Record(NamedTuple):
    partition: int
    time_ms: int
    key: bytes
    value: bytes


_EXAMPLE: Final = [_Record(each.partition, each.time_ms, each.key, each.value) for each in RECORDS]
_ENTRIES: Final = [each.entry for each in RECORDS]


def _checked(records: list[_Record]) -> list[CheckedRecord]:
    ends: Counter[int] = Counter()
    checked = []
    for partition, time_ms, key, value in records:
        checked.append(CheckedRecord(BreachPlace(partition, ends[partition]), key, value, time_ms))
        ends[partition] += 1
    return checked


def _breaches(records: list[_Record], **options: Any) -> list[Breach]:
    return check_log(_checked(records), LogOptions(PARTITIONS, ended=True, **options))


def _number(kind: type[Entry], matches: Callable[[Any], bool] = lambda _: True) -> int:
    """The place of the last entry of a kind that matches."""
    return max(n for n, entry in enumerate(_ENTRIES) if isinstance(entry, kind) and matches(entry))


def _with(number: int, **changes: Any) -> list[_Record]:
    """The example with one entry changed."""
    return _put(number, _ENTRIES[number]._replace(**changes))


def _put(number: int, entry: Entry, records: list[_Record] = _EXAMPLE) -> list[_Record]:
    changed = list(records)
    changed[number] = changed[number]._replace(value=encode_entry(entry))
    return changed


def _and(entry: Entry, partition: int = 1, behind: int | None = None) -> list[_Record]:
    """The example with one more entry: at the end, or behind another one."""
    number = len(_EXAMPLE) if behind is None else behind + 1
    time_ms = _EXAMPLE[number - 1].time_ms
    record = _Record(partition, time_ms, encode_key(range_of(entry)), encode_entry(entry))
    return [*_EXAMPLE[:number], record, *_EXAMPLE[number:]]


_BEAT: Final = _number(Heartbeat)
_LAST_BEAT: Final[Any] = _ENTRIES[_BEAT]
_EMPTY: Final = _number(Command, lambda entry: entry.raft_index == 13)
_DELETE: Final = _number(Command, lambda entry: entry.range_id == 8)
_MERGED: Final = _number(Snapshot)
_CHILD: Final = _number(Snapshot, lambda entry: entry.range_id == 8)


def _op(number: int) -> Any:
    entry = _ENTRIES[number]
    assert isinstance(entry, Command)
    assert entry.ops is not None
    return entry.ops[0]


def _written(kind: type[Any]) -> int:
    return _number(Command, lambda entry: bool(entry.ops) and isinstance(entry.ops[0], kind))


_INTENT: Final = _written(WriteIntent)


def _early_write() -> list[_Record]:
    records = list(_EXAMPLE)
    number = _number(Command, lambda entry: entry.raft_index == 11 and entry.range_id == 7)
    records[number] = records[number]._replace(time_ms=at(-2).wall_ms)
    return records


def _delete_below_closed() -> list[_Record]:
    low = at(4.5)
    records = _with(_DELETE, ops=(_op(_DELETE)._replace(timestamp=low),))
    return _put(_MERGED, _ENTRIES[_MERGED]._replace(high=low), records)  # type: ignore[call-arg]


def _bare_descriptors() -> list[_Record]:
    bare = update_of(TABLE.descriptor)._replace(descriptor=encode_descriptor(TABLE.descriptor)[1:])
    return _put(0, bare, _put(1, bare))


def _key_of_the_other_range() -> list[_Record]:
    value = TABLE.put(1, 1, "a").value
    return _with(_DELETE, ops=(WriteValue(TABLE.key(1), at(6), b"", value),))


def _without_the_value() -> list[_Record]:
    number = _number(Command, lambda entry: entry.raft_index == 11 and entry.range_id == 7)
    return _with(number, ops=(_op(number)._replace(value=None),))


def _child_of_another_index() -> list[_Record]:
    child = _ENTRIES[_CHILD]
    assert isinstance(child, Snapshot)
    (parent,) = child.parents
    return _with(_CHILD, parents=(parent._replace(last_index=RaftIndex(14)),))


_BROKEN: Final[dict[Rule, Callable[[], list[_Record]]]] = {
    Rule.READABLE: lambda: [*_EXAMPLE, _EXAMPLE[-1]._replace(value=b"\xff")],
    Rule.PARTITION: lambda: _and(_LAST_BEAT, partition=0),
    Rule.RECORD_TIME: _early_write,
    Rule.CLOSED_AHEAD: lambda: _with(_BEAT, closed=closed(12)),
    Rule.FIRST: lambda: _and(_LAST_BEAT._replace(range_id=RangeId(9))),
    Rule.DENSE: lambda: _with(_BEAT, covers=RaftIndex(17)),
    Rule.COPY: lambda: _and(Command(RangeId(7), Generation(1), RaftIndex(12), (), None), behind=_EMPTY),
    Rule.CLOSED_RISES: lambda: _with(_BEAT, closed=closed(2)),
    Rule.ABOVE_CLOSED: _delete_below_closed,
    Rule.IN_SPAN: _key_of_the_other_range,
    Rule.VALUE: _without_the_value,
    Rule.VERSION_ORDER: lambda: _with(_DELETE, ops=(_op(_DELETE)._replace(prev_value=b"other"),)),
    Rule.INTENT_COUNT: lambda: _with(_EMPTY, ops=(AbortIntent(txn(9)),)),
    Rule.COMMIT_TIME: lambda: _with(_INTENT, ops=(_op(_INTENT)._replace(timestamp=at(2.5)),)),
    Rule.AFTER_ABORT: lambda: _with(_EMPTY, ops=(AbortTxn(txn(5)),)),
    Rule.PUSHED: lambda: _with(_EMPTY, ops=(AbortTxn(txn(9)),)),
    Rule.SNAPSHOT: lambda: _with(_MERGED, high=at(7)),
    Rule.MUTATION: lambda: _with(_MERGED, last_mutation=HistoryMutation(RaftIndex(16), at(7))),
    Rule.GENERATION: lambda: _with(_BEAT, generation=Generation(2)),
    Rule.TRIGGER: lambda: _with(_EMPTY, trigger=Trigger.SPLIT),
    Rule.LINEAGE: _child_of_another_index,
    Rule.END: lambda: _and(
        Command(RangeId(8), Generation(2), RaftIndex(12), (), None), partition=0, behind=_number(RangeEnd)
    ),
    Rule.SCAN: lambda: _with(_number(ScanChunk), upto=at(9)),
    Rule.DESCRIPTOR: lambda: _EXAMPLE[PARTITIONS:],
    Rule.DESCRIPTOR_BYTES: _bare_descriptors,
}


_PUSHED: Final = frozenset({txn(5)})


def test_each_rule_that_a_log_can_break_is_broken_here() -> None:
    assert set(Rule) - _BROKEN.keys() == {Rule.HISTORY}  # which only the simulated store can be held to


@pytest.mark.parametrize("rule", _BROKEN, ids=lambda rule: rule.id)
def test_a_log_that_breaks_one_rule_is_told_by_that_rule_alone(rule: Rule) -> None:
    assert _breaches(_EXAMPLE, pushed=_PUSHED) == []
    breaches = _breaches(_BROKEN[rule](), pushed=_PUSHED)
    assert {breach.rule for breach in breaches} == {rule}, breaches


def test_a_breach_of_a_large_write_is_told_by_a_short_sentence() -> None:
    key, value = TABLE.pair(3, "a" * 500_000)
    for timestamp in (at(2), at(100)):
        records = _with(_DELETE, ops=(WriteValue(key, timestamp, value, value),))
        breaches = _breaches(records)
        assert breaches
        assert max(len(breach.sentence) for breach in breaches) < 1_000


def test_a_breach_names_the_record_that_breaks_the_rule() -> None:
    (breach,) = _breaches(_BROKEN[Rule.IN_SPAN]())
    assert breach.place == BreachPlace(0, 2)
    assert breach.to_json() == {
        "rule": "in-span",
        "partition": 0,
        "offset": 2,
        "sentence": f"range 8 at index 11: key {TABLE.key(1).hex()}",
        "link": "docs/log-contract.md#in-span",
    }


# ---- other ways to break them

_UNDATED: Final = OpenIntent(txn(5), b"anchor", TABLE.key(1), ZERO)


@pytest.mark.parametrize(
    ("records", "rule", "words"),
    [
        (_with(_EMPTY, ops=None, write_batch=b"x"), None, ""),
        (_with(_number(ScanChunk), raft_index=RaftIndex(15)), Rule.DENSE, "a scan at 15"),
        (_with(_number(RangeEnd), last_index=RaftIndex(12)), Rule.DENSE, "it ends at 12"),
        (_with(_CHILD, gc_threshold=at(8)), Rule.SNAPSHOT, "the GC threshold"),
        (_with(_CHILD, closed=closed(2)), Rule.CLOSED_RISES, "is closed after"),
        (_with(_CHILD, chunks=2), Rule.SNAPSHOT, "do not stand together"),
        (_with(_MERGED, intents=(_UNDATED,)), Rule.READABLE, "has no timestamp"),
        (_with(_MERGED, generation=Generation(2)), Rule.GENERATION, "is not above its parents'"),
        (_with(_MERGED, span=TABLE.split(3)[0]), Rule.LINEAGE, "did not hold just its keys"),
        (_with(0, version=2), Rule.DESCRIPTOR_BYTES, "is in truth version 1 of table 104"),
        ([*_EXAMPLE[:1], *_EXAMPLE[2:]], Rule.PARTITION, "is not broadcast to partition 1"),
        (
            _with(_number(ScanChunk), rows=(_ENTRIES[_number(ScanChunk)].rows[0],) * 2),  # type: ignore[union-attr]
            Rule.SCAN,
            "more than the newest of a key",
        ),
    ],
)
def test_what_else_breaks_a_rule_is_told(records: list[_Record], rule: Rule | None, words: str) -> None:
    breaches = _breaches(records)
    if rule is None:
        assert breaches == []
    else:
        assert any(breach.rule is rule and words in breach.sentence for breach in breaches), breaches


def test_a_row_that_another_commit_of_the_transaction_contradicts_is_told() -> None:
    records = _with(_INTENT, ops=(_op(_INTENT),) * 2)
    number = _written(CommitIntent)
    other = _op(number)._replace(key=TABLE.key(3), timestamp=at(2.5))
    entry = _ENTRIES[number]
    assert isinstance(entry, Command)
    records = _put(number, entry._replace(ops=(*(entry.ops or ()), other)), records)
    assert Rule.COMMIT_TIME in {breach.rule for breach in _breaches(records)}


def test_a_descriptor_with_too_many_columns_is_told() -> None:
    many = tuple(replace(TABLE.descriptor.columns[-1], id=each) for each in range(1, COLUMNS_MAX + 2))
    breaches = _breaches(_put(0, update_of(replace(TABLE.descriptor, columns=many))))
    assert (Rule.DESCRIPTOR_BYTES, True) in {
        (breach.rule, "10001 columns, and may have 10000" in breach.sentence) for breach in breaches
    }


def test_a_descriptor_that_comes_with_two_contents_is_told() -> None:
    other = update_of(TABLE.descriptor)
    renamed = encode_descriptor(TABLE.descriptor).replace(b"t", b"u", 1)
    breaches = _breaches(
        [
            *_put(0, other),
            *(_EXAMPLE[n]._replace(value=encode_entry(other._replace(descriptor=renamed))) for n in range(2)),
        ]
    )
    assert {breach.rule for breach in breaches} == {Rule.DESCRIPTOR_BYTES}


def test_an_initial_range_whose_snapshot_has_intents_is_told() -> None:
    number = _number(Snapshot, lambda entry: entry.reason is SnapshotReason.INITIAL)
    intents = (OpenIntent(txn(9), b"anchor", TABLE.key(9), at(0)),)
    assert Rule.FIRST in {breach.rule for breach in _breaches(_with(number, intents=intents))}


def test_a_snapshot_of_three_parents_is_a_breach_and_ends_nothing() -> None:
    at_one = ClosedTimestamp(Timestamp(1))
    parts = [Span(start, end) for start, end in ((b"a", b"b"), (b"b", b"c"), (b"c", b"d"))]
    parents = [Parent(RangeId(number), Generation(1), RaftIndex(10)) for number in (1, 2, 3)]
    entries: list[Snapshot | RangeEnd] = []
    for parent, span in zip(parents, parts, strict=True):
        entries.append(Snapshot(parent.range_id, Generation(1), RaftIndex(10), span, at_one, ZERO, ZERO))
        entries.append(RangeEnd(parent.range_id, Generation(1), RaftIndex(10)))
    merged = Snapshot(RangeId(9), Generation(5), RaftIndex(10), Span(b"a", b"d"), at_one, ZERO, ZERO)
    entries.append(merged._replace(parents=tuple(parents), reason=SnapshotReason.MERGE))
    records = [_Record(0, 10_000, encode_key(entry.range_id), encode_entry(entry)) for entry in entries]
    assert Rule.LINEAGE in {breach.rule for breach in check_log(_checked(records), LogOptions(1))}
