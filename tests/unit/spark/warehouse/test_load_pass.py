"""The warehouse loader against histories of rows, markers and repeats, cut anywhere and crashed anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.spark.warehouse.feed_histories import (
    BUCKETS,
    COLUMNS,
    OPTIONS,
    START,
    TOPICS,
    FeedHistory,
    HistorySource,
    Version,
    as_rows,
    as_versions,
    feed_histories,
    history_of,
)
from tests.unit.spark.warehouse.hand_loads import (
    A0,
    A1,
    FIRST,
    IN_A0,
    PETS,
    account,
    all_of,
    below,
    check_closed,
    check_no_leavings,
    directory,
    plain_loader,
    seconds,
    to_now,
)
from tidegate.changefeed.definition.options import OnOversize
from tidegate.changefeed.definition.oversize import Oversize
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.errors import InputError, StateError, TopologyError, UnreadableRow
from tidegate.hlc import Timestamp
from tidegate.spark.warehouse.buckets import NO_BUCKET, Buckets
from tidegate.spark.warehouse.columns import LOGICAL, WALL, Columns, LoadedColumn
from tidegate.spark.warehouse.delta_tables import DeltaFollowers, closed_by_version, newest_rows
from tidegate.spark.warehouse.load import go_on
from tidegate.spark.warehouse.load_pass import Loader, PassReport, run_here
from tidegate.spark.warehouse.manifest import Manifest
from tidegate.spark.warehouse.partition_rows import BucketRows
from tidegate.spark.warehouse.partition_task import LoadTask, PartitionAnswer
from tidegate.spark.warehouse.snapshots import Warehouse
from tidegate.verify import TopicPartition, TopicRecord


class Crash(Exception):
    """The process is gone."""


class Steps:
    """Passes through so many steps, then crashes; ``None`` for never."""

    def __init__(self, left: int | None) -> None:
        self._left = left

    def __call__(self, step: str) -> None:
        """A step is about to be taken."""
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise Crash(step)


def crashing_tasks(steps: Steps, twice: bool) -> Callable[[Sequence[LoadTask]], list[PartitionAnswer]]:
    """Tasks that may crash before each one, and of which each may have been tried before."""

    def run(tasks: Sequence[LoadTask]) -> list[PartitionAnswer]:
        answers = []
        for task in tasks:
            steps("a task")
            if twice:
                run_here([task])
            answers += run_here([task])
        return answers

    return run


def loader(root: str, source: HistorySource, steps: Steps, draw: st.DataObject, *, delta: bool) -> Loader:
    """A loader as a new process has it."""
    records = draw.draw(st.sampled_from([0, 1, 3]), "records")
    tasks = crashing_tasks(steps, draw.draw(st.booleans(), "twice"))
    merged = draw.draw(st.sampled_from([1, 4, 1_000]), "merged rows") if delta else 0
    followers = DeltaFollowers(root, merged, at_step=steps) if delta else None
    return Loader(source, tasks, root, BUCKETS, followers, records, at_step=steps, wait=lambda _: None)


def grow(source: HistorySource, draw: st.DataObject) -> None:
    """Let more of each partition be there. A new leader may name a lower end at first."""
    for place, end in source.ends.items():
        source.ends[place] = draw.draw(
            st.integers(end, len(source.history.records[place])), f"end of {place}"
        )
        source.dips[place] = draw.draw(st.sampled_from([0, 0, 0, 1, 3]), f"dip of {place}")


def check_every_bucket(root: str, history: FeedHistory) -> None:
    """Tables are those of the history at the end of each closed bucket."""
    house = Warehouse(root)
    for bucket in range(FIRST.wall, house.closed.wall + 1, BUCKETS.length_ns):
        for topic in TOPICS:
            assert as_rows(house.rows(topic, Timestamp(bucket))) == history.rows(topic, Timestamp(bucket))


def check_delta(root: str, history: FeedHistory) -> None:
    """Delta's tables hold the same, and each version of current rows is what it says that it is."""
    closed = Warehouse(root).closed
    for topic in TOPICS:
        changes = DeltaTable(f"{root}/{topic}/changes")
        assert as_versions(topic, changes.to_pyarrow_table()) == history.upto(topic, closed)
        current = DeltaTable(f"{root}/{topic}/current")
        for table in (changes, current):
            committed = [bound for _, bound in closed_by_version(table)]
            assert len(set(committed)) == len(committed), "a bound was committed twice"
            assert max(committed, default=closed.wall) == closed.wall
        bounds = dict(closed_by_version(current))
        for version, bound in bounds.items():
            current.load_as_version(version)
            assert as_rows(current.to_pyarrow_table()) == history.rows(topic, Timestamp(bound))


def load_through_crashes(root: str, history: FeedHistory, draw: st.DataObject, *, delta: bool) -> None:
    """Load a history as it grows, by processes that crash, and at the end to its end."""
    source = HistorySource(history)
    for _ in range(draw.draw(st.integers(0, 4), "processes")):
        steps = Steps(draw.draw(st.none() | st.integers(0, 25), "steps"))
        loading = loader(root, source, steps, draw, delta=delta)
        try:
            for _ in range(draw.draw(st.integers(1, 3), "passes")):
                grow(source, draw)
                loading.run_pass()
        except Crash:
            continue
        check_closed(root, history)
    source.dips = {}
    source.ends = {place: len(records) for place, records in history.records.items()}
    to_now(loader(root, source, Steps(None), draw, delta=delta))
    expected = max(history.closed(source.ends), FIRST.wall - BUCKETS.length_ns)
    assert Warehouse(root).closed == Timestamp(expected)


@examples(20)
@given(feed_histories(), st.data())
def test_tables_are_those_of_the_history_at_every_closed_bucket_whatever_crashes(
    history: FeedHistory, draw: st.DataObject
) -> None:
    with directory() as root:
        load_through_crashes(root, history, draw, delta=False)
        check_closed(root, history)
        check_every_bucket(root, history)
        check_no_leavings(root)


@examples(4)
@given(feed_histories(), st.data())
def test_delta_tables_agree_with_the_manifest_whatever_crashes(
    history: FeedHistory, draw: st.DataObject
) -> None:
    with directory() as root:
        load_through_crashes(root, history, draw, delta=True)
        check_closed(root, history)
        check_delta(root, history)


def test_nothing_to_see_before_the_first_load() -> None:
    with directory() as root, pytest.raises(InputError, match="Nothing was ever loaded"):
        Warehouse(root)


def test_a_marker_of_an_earlier_pass_says_nothing_of_rows_that_were_not_read_up_to_it() -> None:
    lines: dict[TopicPartition, list[Version | Timestamp]] = {
        A0: [
            account(IN_A0, 1.5),
            seconds(2),
            account(IN_A0, 2.5),
            seconds(3),
            account(IN_A0, 3.5),
            seconds(5),
        ],
        A1: [seconds(1), seconds(5)],
        PETS: [seconds(5)],
    }
    history = history_of(lines)
    source = all_of(history)
    source.ends[A1] = 1
    with directory() as root:
        assert plain_loader(root, source).run_pass().closed == seconds(1).wall
        source.ends[A1] = 2
        loading = plain_loader(root, source, records=1)
        report = loading.run_pass()
        assert (report.closed, report.more) == (seconds(2).wall, True)
        check_closed(root, history)
        assert to_now(loading).closed == seconds(5).wall
        check_closed(root, history)


def test_a_row_of_a_closed_bucket_that_comes_again_much_later_is_dropped() -> None:
    first, second = account(IN_A0, 0.5, "first"), account(IN_A0, 4.5, "second")
    history = history_of(
        {A0: [first, seconds(1), second, first, seconds(5)], A1: [seconds(1), seconds(5)], PETS: [seconds(5)]}
    )
    source = all_of(history)
    source.ends |= {A0: 2, A1: 1}
    with directory() as root:
        loading = plain_loader(root, source)
        assert loading.run_pass().rows == 1
        source.ends = all_of(history).ends
        report = loading.run_pass()
        assert (report.rows, report.repeats) == (1, 1)
        check_closed(root, history)
        assert as_rows(Warehouse(root).rows("accounts")) == {IN_A0: ("second", second.updated)}


def test_a_bucket_waits_for_every_partition_of_every_topic() -> None:
    history = history_of(
        {A0: [account(IN_A0, 0.5), seconds(9)], A1: [seconds(9)], PETS: [seconds(0.5), seconds(9)]}
    )
    source = all_of(history)
    source.ends[PETS] = 1
    with directory() as root:
        loading = plain_loader(root, source)
        assert loading.run_pass().closed == FIRST.wall
        assert len(Warehouse(root).changes("accounts")) == 0
        source.ends[PETS] = 2
        assert loading.run_pass().closed == seconds(9).wall
        assert len(Warehouse(root).changes("accounts")) == 1


def test_a_bucket_holds_what_is_at_its_end_and_not_what_is_right_above_it() -> None:
    at_end = Version("accounts", IN_A0, seconds(1), "at its end")
    above = Version("accounts", IN_A0, seconds(1).next(), "right above it")
    markers = [seconds(1), seconds(2)]
    history = history_of({A0: [at_end, above, *markers], A1: markers, PETS: markers})
    with directory() as root:
        plain_loader(root, all_of(history)).run_pass()
        house = Warehouse(root)
        assert as_rows(house.rows("accounts", seconds(1))) == {IN_A0: ("at its end", seconds(1))}
        assert as_rows(house.rows("accounts", seconds(2))) == {IN_A0: ("right above it", seconds(1).next())}


def test_two_values_of_one_version_stop_the_load_with_its_offset() -> None:
    one, other = account(IN_A0, 0.5, "one"), account(IN_A0, 0.5, "other")
    history = history_of({A0: [one, other, seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]})
    with directory() as root, pytest.raises(InputError, match=r"offset 1 of accounts\[0\] .*another value"):
        plain_loader(root, all_of(history)).run_pass()


def test_a_row_whose_value_was_left_out_stops_the_load_and_is_taken_for_no_deletion() -> None:
    place = TopicPartition("accounts", 0)
    left_out = Oversize(1_234_567, False, FIRST, FIRST)
    options = replace(OPTIONS, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=999_000)
    rows = BucketRows(place, decoder_for(options), BUCKETS, NO_BUCKET)
    with pytest.raises(UnreadableRow, match=r"offset 4 of accounts\[0\] .* 1234567 bytes was too large"):
        rows.read_row(TopicRecord(*place, 4, b"[1]", b"", 0, [left_out.header()]))


def test_markers_that_fall_stop_the_load() -> None:
    history = history_of({A0: [seconds(2), seconds(1)], A1: [], PETS: []})
    with directory() as root, pytest.raises(InputError, match=r"offset 1 for accounts\[0\] says"):
        plain_loader(root, all_of(history)).run_pass()


def test_records_that_were_deleted_before_they_were_loaded_are_missed() -> None:
    source = all_of(history_of({A0: [account(IN_A0, 0.5), seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]}))
    source.lows[A0] = 1
    with directory() as root, pytest.raises(TopologyError, match=r"accounts\[0\] below offset 1 are deleted"):
        plain_loader(root, source).run_pass()


def test_a_topic_that_was_created_again_is_refused() -> None:
    source = all_of(history_of({A0: [seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]}))
    with directory() as root:
        plain_loader(root, source).run_pass()
        source.ids["pets"] = "another"
        with pytest.raises(TopologyError, match="The topic pets is not the one"):
            plain_loader(root, source).run_pass()


def test_a_topic_that_is_created_again_while_it_is_read_is_refused() -> None:
    source = all_of(history_of({A0: [account(IN_A0, 0.5), seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]}))

    def run(tasks: Sequence[LoadTask]) -> list[PartitionAnswer]:
        source.ids["accounts"] = "another"
        return run_here(tasks)

    with directory() as root:
        with pytest.raises(TopologyError, match="The topic accounts is not the one"):
            Loader(source, run, root, BUCKETS).run_pass()
        assert Warehouse(root).closed < FIRST


def test_a_second_loader_is_noticed_when_it_commits() -> None:
    markers = [seconds(1), seconds(2), seconds(3)]
    source = all_of(history_of({A0: markers, A1: markers, PETS: markers}))
    source.ends = dict.fromkeys(source.ends, 1)
    with directory() as root:
        one, other = plain_loader(root, source), plain_loader(root, source)
        one.run_pass()
        other.run_pass()
        source.ends = dict.fromkeys(source.ends, 2)
        with pytest.raises(StateError, match="Another loader has written"):
            one.run_pass()
        assert Warehouse(root).closed == seconds(1)
        other.run_pass()
        assert Warehouse(root).closed == seconds(2)


@pytest.mark.parametrize("delta", [False, True])
def test_a_second_loader_that_begins_shuts_out_the_first_whose_files_it_removes(delta: bool) -> None:
    lines: dict[TopicPartition, list[Version | Timestamp]] = {
        A0: [account(IN_A0, 0.5), seconds(1), account(IN_A0, 1.5, "b"), seconds(2)],
        A1: [seconds(1), seconds(2)],
        PETS: [seconds(1), seconds(2)],
    }
    source = all_of(history_of(lines))
    whole = source.ends
    source.ends = {A0: 2, A1: 1, PETS: 1}
    with directory() as root:

        def loading(run: Callable[[Sequence[LoadTask]], list[PartitionAnswer]]) -> Loader:
            return Loader(source, run, root, BUCKETS, DeltaFollowers(root) if delta else None)

        def overtaken(tasks: Sequence[LoadTask]) -> list[PartitionAnswer]:
            answers = run_here(tasks)
            ends, source.ends = source.ends, {A0: 2, A1: 1, PETS: 1}
            loading(run_here).run_pass()
            source.ends = ends
            return answers

        loading(run_here).run_pass()
        source.ends = whole
        with pytest.raises(StateError, match="Another loader has written"):
            loading(overtaken).run_pass()
        assert Warehouse(root).closed == seconds(1)
        loading(run_here).run_pass()
        check_closed(root, source.history)
        if delta:
            check_delta(root, source.history)


def test_a_loader_that_was_shut_out_removes_nothing_of_the_other() -> None:
    source = all_of(history_of({A0: [account(IN_A0, 0.5), seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]}))
    with directory() as root:
        one = plain_loader(root, source)
        assert one.run_pass().news
        plain_loader(root, source).run_pass()
        unnamed = next(below(root).glob("accounts/changes/*/*")).with_name("of the other.parquet")
        unnamed.touch()
        with pytest.raises(StateError, match="Another loader has written"):
            one.run_pass()
        assert unnamed.exists()


def test_a_lost_head_ends_the_load_and_nothing_is_removed() -> None:
    source = all_of(history_of({A0: [account(IN_A0, 0.5), seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]}))
    with directory() as root:
        plain_loader(root, source).run_pass()
        head = below(root) / "_tidegate" / "head.json"
        stored = head.read_bytes()
        head.unlink()
        before = sorted(below(root).rglob("*"))
        for _ in range(2):
            with pytest.raises(StateError, match=r"head\.json is missing, and .* Nothing is loaded"):
                plain_loader(root, source).run_pass()
        assert sorted(below(root).rglob("*")) == before
        head.write_bytes(stored)
        plain_loader(root, source).run_pass()
        check_closed(root, source.history)


def test_scans_that_have_succeeded_at_other_times_are_all_loaded() -> None:
    pet = Version("pets", 1, seconds(7), "scan")
    source = all_of(history_of({A0: [Version("accounts", IN_A0, START, "scan")], A1: [], PETS: [pet]}))
    source.starts["pets"] = pet.updated
    source.complete = frozenset(TOPICS)
    with directory() as root:
        for _ in range(2):
            to_now(plain_loader(root, source))
        house = Warehouse(root)
        assert as_rows(house.rows("pets")) == {1: ("scan", pet.updated)}
        assert as_rows(house.rows("accounts")) == {IN_A0: ("scan", START)}


def test_a_file_system_that_is_away_for_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    source = all_of(history_of({A0: [account(IN_A0, 0.5), seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]}))
    ended, troubles = threading.Event(), list[str]()
    original, away = Manifest.write_pages, iter([True])

    def write_pages(self: Manifest, *arguments: Any) -> Any:
        if next(away, False):
            raise OSError("the mount is stale")
        return original(self, *arguments)

    monkeypatch.setattr(Manifest, "write_pages", write_pages)
    with directory() as root:
        go_on(
            plain_loader(root, source),
            0,
            ended,
            lambda _: ended.set(),
            lambda error: troubles.append(str(error)),
        )
        assert len(troubles) == 1
        assert "cannot be reached (the mount is stale)" in troubles[0]
        check_closed(root, source.history)


@pytest.mark.parametrize("key", ["_number", "_number_max", "a.b", ".x", "number"])
def test_the_newest_row_of_a_key_is_found_whatever_its_columns_are_called(key: str) -> None:
    changes = pa.table({WALL: [1, 3, 2], LOGICAL: [0, 0, 0], key: ["k", "k", "l"], "number_max": [7, 8, 9]})
    assert newest_rows(changes, [key]).to_pylist() == [
        {WALL: 2, LOGICAL: 0, key: "l", "number_max": 9},
        {WALL: 3, LOGICAL: 0, key: "k", "number_max": 8},
    ]


def test_another_length_of_buckets_on_the_same_directory_is_refused() -> None:
    source = all_of(history_of({A0: [seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]}))
    with directory() as root:
        plain_loader(root, source).run_pass()
        with pytest.raises(StateError, match="have buckets of 1 s"):
            Loader(source, run_here, root, Buckets(2 * 10**9)).run_pass()


def test_delta_tables_can_be_asked_for_later_and_are_not_left_behind() -> None:
    history = history_of(
        {
            A0: [account(IN_A0, 0.5), seconds(1), account(IN_A0, 1.5), seconds(2)],
            A1: [seconds(2)],
            PETS: [seconds(2)],
        }
    )
    source = all_of(history)
    source.ends[A0] = 2
    with directory() as root:
        plain_loader(root, source).run_pass()
        Loader(source, run_here, root, BUCKETS, DeltaFollowers(root)).run_pass()
        source.ends[A0] = 4
        Loader(source, run_here, root, BUCKETS, DeltaFollowers(root)).run_pass()
        check_delta(root, history)
        with pytest.raises(StateError, match="would be left behind"):
            plain_loader(root, source).run_pass()


def test_a_column_that_is_added_later_is_added_to_the_tables() -> None:
    markers = [seconds(1), seconds(2)]
    history = history_of({A0: [account(IN_A0, 0.5), *markers], A1: markers, PETS: markers})
    grown = account(IN_A0, 1.5).record[1].replace(b'"id"', b'"age": 7, "id"')
    record = TopicRecord(*A0, 2, account(IN_A0, 1.5).record[0], grown, 0)
    history.records[A0][2:] = [record, history.records[A0][2]._replace(offset=3)]
    source = all_of(history)
    source.ends[A0] = 2
    with directory() as root:
        loading = Loader(source, run_here, root, BUCKETS, DeltaFollowers(root))
        loading.run_pass()
        source.ends[A0] = 4
        with pytest.raises(InputError, match="have a member age, and no descriptor"):
            loading.run_pass()
        source.column_sets["accounts"] = Columns(("id",), (*COLUMNS.columns, LoadedColumn("age", "INT8")))
        loading.run_pass()
        rows = Warehouse(root).changes("accounts").sort_by("_wall").to_pylist()
        assert [row["age"] for row in rows] == [None, 7]
        current = DeltaTable(f"{root}/accounts/current").to_pyarrow_table().to_pylist()
        assert [row["age"] for row in current] == [7]


def test_a_time_that_is_no_end_of_a_closed_bucket_is_refused() -> None:
    source = all_of(history_of({A0: [seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]}))
    with directory() as root:
        plain_loader(root, source).run_pass()
        house = Warehouse(root)
        for wrong in (seconds(0.5), seconds(2), seconds(-1), seconds(1).next()):
            with pytest.raises(InputError, match="is not the end of a closed bucket"):
                house.rows("pets", wrong)


def test_a_scan_that_has_succeeded_needs_no_marker() -> None:
    scanned = Version("accounts", IN_A0, START, "scan")
    source = all_of(history_of({A0: [scanned], A1: [], PETS: []}))
    with directory() as root:
        assert plain_loader(root, source).run_pass().news is False
        source.complete = frozenset(TOPICS)
        assert plain_loader(root, source, records=1).run_pass().closed == FIRST.wall
        assert as_rows(Warehouse(root).rows("accounts")) == {IN_A0: ("scan", START)}


def test_a_load_that_goes_on_waits_for_what_is_away_and_brings_delta_tables_up() -> None:
    history = history_of({A0: [account(IN_A0, 0.5), seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]})
    source, ended = all_of(history), threading.Event()
    troubles: list[str] = []
    reports: list[PassReport] = []
    away = iter([True, False])

    def step(name: str) -> None:
        if name == "W7 merge" and next(away, False):
            raise DeltaError("somebody else has committed")

    def heard(report: PassReport) -> None:
        reports.append(report)
        ended.set()

    with directory() as root:
        loading = Loader(source, run_here, root, BUCKETS, DeltaFollowers(root, at_step=step))
        go_on(loading, 0, ended, heard, lambda error: troubles.append(str(error)))
        assert [report.closed for report in reports] == [seconds(1).wall]
        assert len(troubles) == 1
        assert "accounts" in troubles[0]
        assert "The next pass begins by adding them to the Delta tables" in troubles[0]
        check_delta(root, history)


def test_a_scan_that_has_succeeded_holds_back_no_other_feed() -> None:
    pet = Version("pets", 1, START, "scan")
    source = all_of(history_of({A0: [account(IN_A0, 0.5), seconds(3)], A1: [seconds(3)], PETS: [pet]}))
    with directory() as root:
        assert plain_loader(root, source).run_pass().news is False
        source.complete = frozenset({"pets"})
        assert plain_loader(root, source).run_pass().closed == seconds(3).wall
        assert as_rows(Warehouse(root).rows("pets")) == {1: ("scan", START)}
        check_closed(root, source.history)


@pytest.mark.parametrize("torn", [False, True])
def test_files_that_the_driver_does_not_see_as_they_were_written_are_not_committed(torn: bool) -> None:
    source = all_of(history_of({A0: [account(IN_A0, 0.5), seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]}))

    def elsewhere(tasks: Sequence[LoadTask]) -> list[PartitionAnswer]:
        return run_here([replace(task, root=other) for task in tasks])

    def cut(tasks: Sequence[LoadTask]) -> list[PartitionAnswer]:
        answers = run_here(tasks)
        for file in below(root).rglob("*.parquet"):
            file.write_bytes(file.read_bytes()[:-1])
        return answers

    with directory() as root, directory() as other:
        with pytest.raises(StateError, match=r"(is missing|has \d+ bytes) .* do not share file:.*Load into"):
            Loader(source, cut if torn else elsewhere, root, BUCKETS).run_pass()
        assert Warehouse(root).closed < FIRST
        assert not list((below(root) / "_tidegate").glob("pages/*"))
        assert plain_loader(root, source).run_pass().rows == 1
        check_closed(root, source.history)
        check_no_leavings(root)
