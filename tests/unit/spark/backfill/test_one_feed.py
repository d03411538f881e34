"""The survey of a log, whose rounds are run in this process: how far it is complete
(docs/protocols/backfill.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from pyarrow import fs

import tidegate.spark.backfill.one_feed
from sim.plan import OutcomeMix
from sim.workloads.random import RandomOptions, RandomTransactions
from tests.driven_sim import DrivenSim, Finite
from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, at, update_of
from tests.logs import Record, eventful_store
from tests.unit.processor.driving import active
from tests.unit.processor.logs import PLAIN
from tests.unit.spark.in_process import InProcess
from tidegate.changefeed.lifecycle.control import Activate, KnownTable
from tidegate.client.kafka.cluster import Bounds
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed, PartitionCheckpoint, RangeCheckpoint
from tidegate.processor.checkpoint import encode_checkpoint
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.push_policy import PushPolicy
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Generation, Offset, RangeId, Snapshot, SnapshotReason, Trigger
from tidegate.rows import TableDescriptor
from tidegate.rows.table_key import index_span
from tidegate.spans import Span
from tidegate.spark.backfill.newest_rows import rows_by
from tidegate.spark.backfill.one_feed import OneFeed, run_over, survey, watching
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.task import partition_task
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.spark.platform.kafka_source import SLICE_MS, sliced

_PARTITIONS: Final = 3
_ARROW_RECORDS: Final = 500
_MINUTES: Final = 20
_HEARD_NS: Final = 10 * 10**9  # a heartbeat, and what closed timestamps stay behind


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_long_log_whose_ranges_split_and_merge_all_the_time_is_complete(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges wait for others of other partitions for so long, by the time of the log, and no longer."""
    print("seed", seed)
    sim = _long_log(seed)
    moves = [
        entry.reason
        for records in sim.partitions
        for record in records
        if isinstance(entry := decode_entry(record.key, record.value), Snapshot)
    ]
    assert moves.count(SnapshotReason.SPLIT) > 10
    assert moves.count(SnapshotReason.MERGE) > 5
    survey = _survey(sim.tables, sim.partitions, _slices(sim.partitions), tmp_path, monkeypatch)
    assert survey.failure == ""
    assert survey.complete_to(ZERO) >= Timestamp(sim.now_ns - _HEARD_NS)


@pytest.mark.parametrize("generations", [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("fast_first", [True, False])
def test_of_two_ranges_that_claim_the_same_keys_the_slower_one_counts(
    generations: tuple[int, int], fast_first: bool
) -> None:
    """A source that goes wrong: rows of the slower one may be in no part of the log that is read."""
    feed = _watching(_long_log(1, minutes=0).tables[:1])
    (span,) = feed.targets[0].spans
    walls = (100, 50) if fast_first else (50, 100)
    survey = OneFeed(feed, 2)
    survey.note_answers(
        [
            _checkpoint(feed, number, span, generation, wall)
            for number, (generation, wall) in enumerate(zip(generations, walls, strict=True))
        ]
    )
    assert survey.complete_to(ZERO) <= Timestamp(50)


_FIRST, _SECOND = (index_span(PLAIN.descriptor.id, number) for number in (1, 2))
#: The table once index 2 is its primary index: ``ALTER PRIMARY KEY``.
_ALTERED: Final = replace(PLAIN.descriptor, version=2, modified=at(20), primary_index_id=2)


def _built(index: Span, *versions: TableDescriptor) -> Surveyed:
    """A log of 30 seconds in whose tenth a file of versions came to the keys of an index."""
    log = HandLog(partitions=1)
    for version in versions:
        log.write(update_of(version))
    plain = log.open_range(1, PLAIN.span)
    plain.apply(PLAIN.put(5, 1, "one"), close=9)
    plain.index += 1
    built = plain.command(trigger=Trigger.ADD_SSTABLE)
    log.write(built._replace(mutated=(index,), at_write_timestamp=True, write_timestamp=at(10)))
    plain.apply(PLAIN.put(29, 1, "two"), close=30)
    return Surveyed(log, versions)


class Surveyed:
    """A log written by hand, and the surveys that are run over it."""

    def __init__(self, log: HandLog, versions: Sequence[TableDescriptor]) -> None:
        self._log = log.partitions
        self._rows = rows_by(map(update_of, versions))
        self.watched: list[tuple[Span, ...]] = []

    def survey(self, start: Timestamp | None = None) -> OneFeed:
        feed = activation([PLAIN.descriptor], replace(WITH_MARKERS, resolved_interval_ns=None))
        known = [KnownTable(each.table, each.table_id) for each in feed.targets]
        return survey(self._run, feed.definition, known, self._rows, ZERO, start)

    def _run(self, watching: Activate) -> OneFeed:
        self.watched.append(watching.targets[0].spans)
        found = OneFeed(watching, 1)
        driven = active(watching)
        driven.run(self._log[0])
        for result in driven.results:
            found.note_answers([Answer(0, "ack", ack.to_bytes()) for ack in result.acks])
            if result.checkpoint is not None:
                found.note_answers([Answer(0, "checkpoint", encode_checkpoint(result.checkpoint))])
        return found


@pytest.mark.parametrize(
    ("index", "versions", "hides"),
    [
        (_FIRST, [PLAIN.descriptor], True),
        (_SECOND, [PLAIN.descriptor], False),
        (_SECOND, [PLAIN.descriptor, _ALTERED], True),
        (_FIRST, [PLAIN.descriptor, _ALTERED], True),
        (_SECOND, [], True),
    ],
    ids=["the primary index", "CREATE INDEX", "ALTER PRIMARY KEY", "one that was primary", "nobody knows"],
)
def test_an_index_that_is_built_hides_rows_only_where_rows_are_read_from_it(
    index: Span, versions: Sequence[TableDescriptor], hides: bool
) -> None:
    found = _built(index, *versions).survey()
    assert bool(found.failure) is hides
    assert hides or found.complete_to(ZERO) == at(30)


@pytest.mark.parametrize("start", [None, 40, 30, 29])
def test_at_a_moment_before_the_first_descriptor_all_keys_are_watched(start: int | None) -> None:
    """Of rows from then nobody knows in which index they stand."""
    late = replace(PLAIN.descriptor, modified=at(30))
    surveyed = _built(_SECOND, late)
    found = surveyed.survey(None if start is None else at(start))
    whole = start == 29
    assert surveyed.watched == [(_FIRST,)] + [(PLAIN.span,)] * whole
    assert bool(found.failure) is whole


def test_a_range_of_another_index_holds_the_scan_since_progress_is_of_whole_tables() -> None:
    feed = _watching([PLAIN.descriptor])
    assert feed.targets[0].spans == (_FIRST,)
    above = Span(_SECOND.end, PLAIN.span.end)
    below = Span(PLAIN.span.start, _FIRST.start)
    found = OneFeed(feed, 4)
    found.note_answers([_checkpoint(feed, 0, _FIRST, 1, 100)])
    assert found.complete_to(ZERO) == ZERO
    parts = enumerate((below, Span(_FIRST.end, _SECOND.start), _SECOND, above), start=1)
    rest = [(number, span) for number, span in parts if span.start < span.end]
    found.note_answers(
        [_checkpoint(feed, number, span, 1, 50 if span == _SECOND else 100) for number, span in rest]
    )
    assert found.complete_to(ZERO) == Timestamp(50)


def test_slices_cover_everything_once_and_in_order() -> None:
    bounds = {0: Bounds(3, 20), 1: Bounds(0, 5), 2: Bounds(7, 7)}
    firsts = {(1, 0): 4, (2, 0): 10, (5, 0): 9, (1, 1): 0, (5, 1): 2}
    found = sliced(firsts, bounds)
    for partition, (low, end) in bounds.items():
        assert found[0][partition].low == low
        assert found[-1][partition].end == end
        assert all(before[partition].end == after[partition].low for before, after in pairwise(found))
    assert [each[0] for each in found] == [Bounds(3, 9), Bounds(9, 9), Bounds(9, 20)]


def test_a_log_whose_records_were_all_aborted_is_one_slice() -> None:
    bounds = {0: Bounds(3, 20), 1: Bounds(5, 5)}
    assert sliced({}, bounds) == [bounds]


def _long_log(seed: int, minutes: int = _MINUTES) -> DrivenSim:
    workload = RandomTransactions(
        RandomOptions(tables=1, ranges=3, keys=40, outcomes=OutcomeMix(restart=0.15, abort=0.1)), seed
    )
    store = replace(
        eventful_store(_PARTITIONS),
        heartbeat_ms=3_000,
        snapshot_interval_ms=60_000,
        split_every_ms=25_000,
        merge_every_ms=40_000,
    )
    sim = DrivenSim(Finite(workload, 200), store, seed=seed)
    sim.advance(minutes * 60_000)
    sim.deliver()
    sim.records()
    return sim


def _watching(tables: Sequence[TableDescriptor]) -> Activate:
    feed = activation(tables, replace(WITH_MARKERS, resolved_interval_ns=None))
    known = [KnownTable(each.table, each.table_id) for each in feed.targets]
    return watching(feed.definition, known, rows_by(update_of(table) for table in tables))


def _survey(
    tables: Sequence[TableDescriptor],
    log: Sequence[Sequence[Record]],
    slices: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> OneFeed:
    monkeypatch.setattr(tidegate.spark.backfill.one_feed, "BatchDriver", InProcess)
    monkeypatch.setattr(partition_task.PartitionTask, "_log_start", lambda _: 0)
    monkeypatch.setattr(
        partition_task,
        "_read_again",
        lambda _, number, offsets: [log[number][offsets.start : offsets.stop]] if offsets else [],
    )
    config = ProcessorConfig(push=PushPolicy(enabled=False))
    root = (tmp_path / "work").as_uri()
    query = Query(root, KafkaConnection(), "raftlog", len(log), root, config, whole_checkpoints_only=True)
    return run_over(slices, query, _watching(tables), "")


def test_a_directory_that_cannot_be_removed_at_the_end_is_told_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck:
        """The file system of this machine, which removes no directory."""

        def delete_dir(self, path: str) -> None:
            raise OSError("Directory not empty")

        def __getattr__(self, name: str) -> Any:
            return getattr(fs.LocalFileSystem(), name)

    root = str(tmp_path)
    monkeypatch.setattr(tidegate.spark.backfill.one_feed, "opened", lambda *_: (Stuck(), root))
    query = Query("run", KafkaConnection(), "raftlog", 1, root, ProcessorConfig())
    assert run_over([], query, _watching([PLAIN.descriptor]), "").rows == 0
    assert f"the directory {root} of a backfill" in caplog.text
    assert "Directory not empty" in caplog.text


def _slices(log: Sequence[Sequence[Record]]) -> list[Mapping[int, Sequence[Record]]]:
    firsts: dict[tuple[int, int], int] = {}
    for partition, records in enumerate(log):
        for record in records:
            firsts.setdefault((record.timestamp // SLICE_MS, partition), record.offset)
    bounds = {partition: Bounds(0, len(records)) for partition, records in enumerate(log)}
    return [
        {number: log[number][low:end] for number, (low, end) in each.items()}
        for each in sliced(firsts, bounds)
    ]


def _checkpoint(feed: Activate, number: int, span: Span, generation: int, wall: int) -> Answer:
    resolved = ResolvedTimestamp(Timestamp(wall))
    found = RangeCheckpoint(RangeId(number + 2), Generation(generation), span, resolved)
    active = ActiveFeed(feed.feed_id, feed.definition.epoch)
    checkpoint = PartitionCheckpoint(number, Offset(10), (active,), (found,), 100_000, ())
    return Answer(number, "checkpoint", encode_checkpoint(checkpoint))
