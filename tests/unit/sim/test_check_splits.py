"""The contract checker finds what is wrong with splits, merges, scans, and entries that are skipped."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import pytest

from sim.check import check_history, check_log, check_scans
from sim.log.sink import WrittenRecord
from sim.options import StoreOptions
from sim.workloads.random import RandomOptions
from tests.driven_sim import DrivenSim
from tests.strategies import SimCase, drive_case
from tidegate.hlc import ZERO_CLOSED, Timestamp
from tidegate.logcheck.breach import Rule
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    Command,
    Entry,
    Generation,
    RaftIndex,
    RangeEnd,
    RangeId,
    ScanChunk,
    Snapshot,
    SnapshotReason,
    Trigger,
    WriteValue,
)
from tidegate.raftlog.request import Scan
from tidegate.spans import Span

_PARTITIONS = 3
_CASE = SimCase(
    seed=4,
    options=StoreOptions(
        partitions=_PARTITIONS,
        write_rate=200,
        closed_lag_ms=100,
        heartbeat_ms=100,
        request_gap_ms=100,
        resolve_delay_ms=500,
        scan_chunk_rows=3,
        skip_every_ms=500,
        opless_every_ms=500,
    ),
    workload=RandomOptions(tables=1, ranges=2),
    transactions=400,
    push_every=1,
)


@cache
def _driven() -> DrivenSim:
    driven, rng = drive_case(_CASE), Random(5)
    for number in range(15):
        driven.run(5)
        driven.split_somewhere(rng)
        driven.run(5)
        if number % 3:
            driven.merge_somewhere(rng)
    driven.finish()
    for number, range_ in enumerate(driven.ranges):
        driven.scan(Scan(range_.id, number, range_.span, None, range_.closed, True, True))
    driven.advance(200)
    return driven


@cache
def _entries() -> list[Entry]:
    return [decode_entry(record.key, record.value) for record in _log()]


def _log() -> list[WrittenRecord]:
    return list(_driven().log)


def _last(matches: Callable[[Entry], bool]) -> tuple[int, Entry]:
    """The last record whose entry matches: its number, and the entry."""
    for number, entry in reversed(list(enumerate(_entries()))):
        if matches(entry):
            return number, entry
    raise LookupError("the log has no such entry")


def _replaced(number: int, entry: Entry) -> list[WrittenRecord]:
    records = _log()
    records[number] = records[number]._replace(value=encode_entry(entry))
    return records


def _inserted(number: int, entry: Entry, range_id: RangeId) -> list[WrittenRecord]:
    records = _log()
    like = records[number - 1]
    record = WrittenRecord(
        range_id % _PARTITIONS, encode_key(range_id), encode_entry(entry), like.record_time_ms
    )
    return [*records[:number], record, *records[number:]]


def _last_child() -> tuple[int, Snapshot]:
    """The last first snapshot of a range that came from a split."""
    number, entry = _last(
        lambda entry: (
            isinstance(entry, Snapshot)
            and bool(entry.parents)
            and entry.parents[0].range_id != entry.range_id
        )
    )
    assert isinstance(entry, Snapshot)
    return number, entry


def _last_end() -> tuple[int, RangeEnd]:
    number, entry = _last(lambda entry: isinstance(entry, RangeEnd))
    assert isinstance(entry, RangeEnd)
    return number, entry


def _last_scan() -> tuple[int, ScanChunk]:
    number, entry = _last(lambda entry: isinstance(entry, ScanChunk) and len(entry.rows) > 1)
    assert isinstance(entry, ScanChunk)
    return number, entry


def _without_the_child() -> list[WrittenRecord]:
    number, _ = _last_child()
    records = _log()
    child = records[number].key
    return [record for record in records if record.key != child]


def _child_of_another_index() -> list[WrittenRecord]:
    number, child = _last_child()
    parent = child.parents[0]
    return _replaced(
        number, child._replace(parents=(parent._replace(last_index=RaftIndex(parent.last_index - 1)),))
    )


def _child_with_its_parents_generation() -> list[WrittenRecord]:
    number, child = _last_child()
    return _replaced(number, child._replace(generation=child.parents[0].generation))


def _child_with_keys_of_its_sibling() -> list[WrittenRecord]:
    number, child = _last_child()
    return _replaced(number, child._replace(span=Span(child.span.start[:-1], child.span.end)))


def _child_below_what_was_closed() -> list[WrittenRecord]:
    number, child = _last_child()
    return _replaced(number, child._replace(closed=ZERO_CLOSED))


def _child_below_what_was_written() -> list[WrittenRecord]:
    number, child = _last_child()
    return _replaced(number, child._replace(high=Timestamp(1)))


def _split_without_trigger() -> list[WrittenRecord]:
    number, entry = _last(lambda entry: isinstance(entry, Command) and entry.trigger is Trigger.SPLIT)
    assert isinstance(entry, Command)
    return _replaced(number, entry._replace(trigger=Trigger.NONE))


def _trigger_without_split() -> list[WrittenRecord]:
    number, entry = _last(lambda entry: isinstance(entry, Command) and entry.trigger is Trigger.NONE)
    assert isinstance(entry, Command)
    return _replaced(number, entry._replace(trigger=Trigger.SPLIT))


def _merge_that_forgets_an_intent() -> list[WrittenRecord]:
    number, entry = _last(
        lambda entry: (
            isinstance(entry, Snapshot) and entry.reason is SnapshotReason.MERGE and bool(entry.intents)
        )
    )
    assert isinstance(entry, Snapshot)
    return _replaced(number, entry._replace(intents=entry.intents[1:]))


def _command_of_an_older_generation() -> list[WrittenRecord]:
    number, entry = _last(lambda entry: isinstance(entry, Command) and entry.generation > 1)
    assert isinstance(entry, Command)
    return _replaced(number, entry._replace(generation=Generation(entry.generation - 1)))


def _end_at_another_index() -> list[WrittenRecord]:
    number, end = _last_end()
    return _replaced(number, end._replace(last_index=RaftIndex(end.last_index + 1)))


def _command_after_the_end() -> list[WrittenRecord]:
    number, end = _last_end()
    late = Command(end.range_id, end.generation, RaftIndex(end.last_index + 1), (), None)
    return _inserted(number + 1, late, end.range_id)


def _raft_snapshots_without_their_reason() -> list[WrittenRecord]:
    records = _log()
    for number, entry in enumerate(_entries()):
        if isinstance(entry, Snapshot) and entry.reason is SnapshotReason.RAFT_SNAPSHOT:
            periodic = entry._replace(reason=SnapshotReason.PERIODIC)
            records[number] = records[number]._replace(value=encode_entry(periodic))
    return records


def _scan_above_what_is_closed() -> list[WrittenRecord]:
    number, chunk = _last_scan()
    return _replaced(number, chunk._replace(upto=Timestamp(chunk.upto.wall + 10**12)))


def _scan_out_of_order() -> list[WrittenRecord]:
    number, chunk = _last_scan()
    return _replaced(number, chunk._replace(rows=chunk.rows[::-1]))


def _scan_outside_the_range() -> list[WrittenRecord]:
    number, chunk = _last_scan()
    return _replaced(number, chunk._replace(span=Span(b"\x01", chunk.span.end)))


def _version_that_a_scan_should_have_told() -> list[WrittenRecord]:
    number, chunk = _last_scan()
    row = chunk.rows[0]
    late = Command(
        chunk.range_id,
        chunk.generation,
        RaftIndex(chunk.raft_index + 1),
        (WriteValue(row.key, row.timestamp, b"late"),),
        None,
    )
    return _inserted(number + 1, late, chunk.range_id)


@pytest.mark.sampled(4)
@pytest.mark.long
@pytest.mark.parametrize(
    ("mutate", "rule"),
    [
        (_without_the_child, Rule.LINEAGE),
        (_child_of_another_index, Rule.LINEAGE),
        (_child_with_its_parents_generation, Rule.GENERATION),
        (_child_with_keys_of_its_sibling, Rule.LINEAGE),
        (_child_below_what_was_closed, Rule.CLOSED_RISES),
        (_child_below_what_was_written, Rule.SNAPSHOT),
        (_split_without_trigger, Rule.TRIGGER),
        (_trigger_without_split, Rule.TRIGGER),
        (_merge_that_forgets_an_intent, Rule.SNAPSHOT),
        (_command_of_an_older_generation, Rule.GENERATION),
        (_end_at_another_index, Rule.DENSE),
        (_command_after_the_end, Rule.END),
        (_raft_snapshots_without_their_reason, Rule.DENSE),
        (_scan_above_what_is_closed, Rule.SCAN),
        (_scan_out_of_order, Rule.SCAN),
        (_scan_outside_the_range, Rule.IN_SPAN),
        (_version_that_a_scan_should_have_told, Rule.SCAN),
    ],
)
def test_a_single_fault_is_found_and_named(mutate: Callable[[], list[WrittenRecord]], rule: Rule) -> None:
    assert rule in {breach.rule for breach in check_log(mutate(), _PARTITIONS)}


def test_the_log_without_a_fault_has_no_breach() -> None:
    driven = _driven()
    assert check_log(driven.log, _PARTITIONS) == []
    assert check_history(driven.log, driven.history, driven.skipped) == []
    assert check_scans(driven.log, driven.history) == []


def test_skipped_versions_count_only_where_the_log_lacks_them() -> None:
    driven = _driven()
    history, skipped = list(driven.history), list(driven.skipped)
    assert skipped
    assert [breach.rule for breach in check_history(driven.log, history, skipped[1:])] == [Rule.HISTORY]
    logged = next(version for version in history if version not in skipped)
    assert [breach.rule for breach in check_history(driven.log, history, [*skipped, logged])] == [
        Rule.HISTORY
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[1:],
        lambda rows: (rows[0]._replace(value=b"another"), *rows[1:]),
        lambda rows: (rows[0]._replace(prev_value=b"another"), *rows[1:]),
        lambda rows: (rows[0]._replace(timestamp=rows[0].timestamp.prev()), *rows[1:]),
    ],
)
def test_a_scan_that_tells_another_history_is_found(change: Callable[..., object]) -> None:
    number, entry = _last(
        lambda entry: isinstance(entry, ScanChunk) and len(entry.rows) > 1 and bool(entry.rows[0].value)
    )
    assert isinstance(entry, ScanChunk)
    records = _replaced(number, entry._replace(rows=change(entry.rows)))  # type: ignore[arg-type]
    assert {breach.rule for breach in check_scans(records, _driven().history)} == {Rule.SCAN}
