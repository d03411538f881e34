"""Logs that have lost their beginning, and hold what others had scanned: scans of these are the store's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.feeds import activation
from tests.hand_log import at
from tests.logs import Record
from tests.unit.processor.logs import PLAIN
from tests.unit.spark.backfill.scans_of_logs import SCAN, batch_of, faults_of_scan, rows_of_scan
from tests.unit.spark.backfill.shortened_log import PARTITIONS, ShortenedLog
from tidegate.client.expectations import expected_versions
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.hlc import MAX, ZERO, ZERO_CLOSED, Timestamp
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    Command,
    Entry,
    Generation,
    HistoryMutation,
    KeyValue,
    RaftIndex,
    RangeId,
    ScanChunk,
    Snapshot,
    Trigger,
    WriteValue,
)
from tidegate.rows import Catalog
from tidegate.rows.table_key import table_span
from tidegate.spans import Span
from tidegate.spark.backfill.newest_rows import ScanAt, find_versions
from tidegate.spark.backfill.scanned_keys import ScannedKeys, base_of, find_chunks


def _shown(log: ShortenedLog, scan: ScanAt) -> set[tuple[str, bytes, bytes | None, int]]:
    return {(row.topic, row.key, row.value, row.timestamp_ms) for row in rows_of_scan(scan, log)}


def _owed(log: ShortenedLog, scan: ScanAt) -> set[tuple[str, bytes, bytes | None, int]]:
    catalog = Catalog()
    for table in log.tables:
        catalog.add(table)
    topics = {target.table_id: target.topic for target in scan.targets}
    return {
        (each.topic, each.key, each.value, each.timestamp.wall_ms)
        for each in expected_versions(log.history, catalog, SCAN, topics, start=scan.start)
        if each.scanned_at is not None
    }


def _looked_at(seed: int) -> int:
    """Return how many scans of the log of a seed were held to the store's history."""
    log = ShortenedLog(seed)
    highest = base_of(log.scanned, log.keys, MAX)
    complete = log.complete_above(highest) if highest > ZERO else ZERO
    times = [each.timestamp for each in log.history if each.timestamp <= complete]
    looked = 0
    for start in (complete, *log.rng.sample(times, min(4, len(times)))):
        base = base_of(log.scanned, log.keys, start)
        if ZERO < base < log.complete_above(base):
            scan = log.scan(start, base)
            assert _shown(log, scan) == _owed(log, scan), f"seed {seed}, {start} from {base}"
            looked += 1
    return looked


@pytest.mark.long
@pytest.mark.parametrize("first", [0, 10])
def test_a_scan_of_a_log_with_a_base_is_the_stores(first: int) -> None:
    looked = sum(map(_looked_at, range(first, first + 10)))
    assert looked > 10, "hardly any of these logs held enough"


def test_keys_of_which_some_were_in_no_scan_have_no_base() -> None:
    left, right = Span(b"a", b"m"), Span(b"m", b"z")
    scanned = [ScannedKeys(left, Timestamp(5)), ScannedKeys(left, Timestamp(7))]
    assert base_of(scanned, [left, right], MAX) == ZERO
    whole = [*scanned, ScannedKeys(Span(b"f", b"z"), Timestamp(6))]
    assert base_of(whole, [left, right], MAX) == Timestamp(6)
    assert base_of(whole, [left, right], Timestamp(6)) == Timestamp(5)
    assert base_of(whole, [left, right], Timestamp(5)) == ZERO


_BASE: Final = at(10)


class HandScan:
    """A scan at second 12 of a log whose base is second 10, and what entries show for it."""

    def __init__(self, base: Timestamp = _BASE) -> None:
        feed = activation([PLAIN.descriptor], SCAN, start=at(12))
        self._scan = ScanAt(KafkaConnection(), feed.definition, feed.targets, at(12), (), PARTITIONS, base)

    def shows(self, *entries: Entry) -> list[Timestamp]:
        """The versions that count."""
        return [Timestamp(row["wall"], row["logical"]) for row in self._found(entries)]

    def faults(self, *entries: Entry) -> list[str]:
        """Return why there can be no scan, of what Spark leaves of each key."""
        newest: dict[bytes, dict[str, Any]] = {}
        for row in self._found(entries):
            newest[row["key"]] = max(newest.get(row["key"], row), row, key=lambda row: row["wall"])
        return [row["fault"] for row in newest.values() if row["fault"]]

    def _found(self, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        records = [
            Record(number, encode_key(RangeId(3)), encode_entry(entry), 0)
            for number, entry in enumerate(entries)
        ]
        (found,) = find_versions(self._scan, [batch_of(0, records)])
        return list(found.to_pylist())


def _committed(seconds: float) -> Entry:
    key, value = PLAIN.pair(1, "one")
    return Command(RangeId(3), Generation(1), RaftIndex(1), (WriteValue(key, at(seconds), value),), None)


def _chunk(upto: float, *seconds: float, after: float | None = None, all_versions: bool = False) -> Entry:
    key, value = PLAIN.pair(1, "one")
    rows = tuple(KeyValue(key, at(each), value) for each in seconds)
    since = None if after is None else at(after)
    where = RangeId(3), Generation(1), RaftIndex(1)
    return ScanChunk(*where, 1, PLAIN.span, since, at(upto), all_versions, rows, True)


def test_what_was_before_the_base_is_what_scans_since_then_say() -> None:
    assert HandScan().shows(_chunk(10, 5)) == [at(5)]
    assert HandScan().shows(_chunk(12, 5), _committed(11)) == [at(5), at(11)]


@pytest.mark.parametrize(
    "entry",
    [
        _committed(5),
        _committed(10),
        _chunk(9, 5),
        _chunk(11, 5, after=4),
        _chunk(11, 5, all_versions=True),
        _chunk(11, 5, 12),
        _chunk(11, 5, 6),
    ],
    ids=[
        "a commit",
        "one at the base",
        "an older scan",
        "a part of the past",
        "all versions",
        "a row that it cannot have",
        "two versions of a key",
    ],
)
def test_what_may_have_been_deleted_in_what_is_lost_does_not_count(entry: Entry) -> None:
    assert HandScan().shows(entry) == []


def test_of_scans_that_show_less_than_the_newest_of_all_keys_nothing_is_known() -> None:
    def keys(entry: Entry) -> int:
        record = Record(0, encode_key(RangeId(3)), encode_entry(entry), 0)
        (found,) = find_chunks(PARTITIONS, [table_span(PLAIN.descriptor.id)], [batch_of(0, [record])])
        return len(found.to_pylist())

    counts = [keys(entry) for entry in (_chunk(9), _chunk(9, after=4), _chunk(9, all_versions=True))]
    assert counts == [1, 0, 0]


def _told(seconds: float, raft_index: int) -> Snapshot:
    """A Snapshot that says when data of its range changed outside the op log."""
    return Snapshot(
        RangeId(3),
        Generation(1),
        RaftIndex(9),
        PLAIN.span,
        ZERO_CLOSED,
        at(5),
        ZERO,
        last_mutation=HistoryMutation(RaftIndex(raft_index), at(seconds)),
    )


def _elsewhere(raft_index: int) -> Entry:
    """A command that changed data of no watched key."""
    mutated = (Span(b"\x01", b"\x02"),)
    where = RangeId(3), Generation(1), RaftIndex(raft_index)
    return Command(*where, (), None, Trigger.HISTORY_MUTATION, b"", mutated)


@pytest.mark.parametrize(
    ("entries", "counts"),
    [
        ([_told(11, 7)], True),
        ([_told(11, 7), _told(11, 7)], True),
        ([_told(13, 7)], True),
        ([_told(10, 7)], False),
        ([_told(11, 7), _elsewhere(7)], False),
        ([_elsewhere(7), _told(11, 7)], False),
        ([_elsewhere(6), _told(11, 7)], True),
        ([_told(11, 0)], True),
        ([_told(11, 0), _elsewhere(7)], True),
    ],
    ids=[
        "in a hole",
        "told twice",
        "behind the scan",
        "before the chunks",
        "of other keys",
        "told behind it",
        "another one",
        "of a parent",
        "of a parent, whatever the range did",
    ],
)
def test_a_change_that_only_a_snapshot_tells_of_counts_above_the_base(
    entries: list[Entry], counts: bool
) -> None:
    scan = HandScan()
    assert bool(scan.faults(*entries)) is counts
    if counts:
        assert "range 3 changed rows outside its op log at" in scan.faults(*entries)[0]


@pytest.mark.long
def test_no_scan_is_made_of_a_log_that_hides_a_change_above_its_base() -> None:
    """All versions of a quiet range may stand below the base: then the survey cannot know."""
    looked = 0
    for seed in range(8):
        log = ShortenedLog(seed, mutates=True)
        for start in log.rng.sample([each.timestamp for each in log.history], 8):
            base = base_of(log.scanned, log.keys, start)
            if ZERO < base < max(log.told) and base < log.complete_above(base):
                assert faults_of_scan(log.scan(start, base), log), f"seed {seed}, {start} from {base}"
                looked += 1
    assert looked > 3, "hardly any of these logs held enough"


def test_of_a_log_that_holds_everything_the_survey_tells() -> None:
    assert not HandScan(base=ZERO).faults(_told(11, 7))


def test_what_a_snapshot_of_other_keys_tells_does_not_count() -> None:
    elsewhere = _told(11, 7)._replace(span=Span(b"\x01", b"\x02"))
    assert not HandScan().faults(elsewhere)
