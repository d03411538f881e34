"""The warehouse loader where its tables cannot go on, or would become others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence

import pytest
from deltalake import DeltaTable, Schema

from tests.unit.spark.warehouse.feed_histories import (
    BUCKETS,
    COLUMNS,
    TOPICS,
    HistorySource,
    Version,
    history_of,
)
from tests.unit.spark.warehouse.hand_loads import (
    A0,
    A1,
    IN_A0,
    PETS,
    account,
    all_of,
    below,
    check_closed,
    directory,
    plain_loader,
    seconds,
    to_now,
)
from tidegate.changefeed.definition.options import Format
from tidegate.errors import InputError, SettingsError, StateError, StoreAway, TopologyError
from tidegate.hlc import Timestamp
from tidegate.spark.platform.file_systems import Place
from tidegate.spark.warehouse import load_pass, snapshots
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.spark.warehouse.delta_tables import DeltaFollowers, current_schema
from tidegate.spark.warehouse.load_pass import Loader, run_here
from tidegate.spark.warehouse.manifest import LoadedTable
from tidegate.spark.warehouse.partition_task import LoadTask, PartitionAnswer
from tidegate.spark.warehouse.snapshots import Warehouse
from tidegate.verify import TopicPartition, TopicRecord


def test_an_end_that_is_lower_for_a_moment_closes_no_bucket_early() -> None:
    lines: dict[TopicPartition, list[Version | Timestamp]] = {
        A0: [
            account(IN_A0, 0.5, "a"),
            account(IN_A0, 1.5, "b"),
            seconds(2),
            account(IN_A0, 2.5, "c"),
            seconds(9),
        ],
        A1: [seconds(1), seconds(9)],
        PETS: [seconds(9)],
    }
    history = history_of(lines)
    source = all_of(history)
    whole = source.ends
    source.ends = whole | {A0: 3, A1: 1}
    waited: list[float] = []

    def passes(wait_s: float) -> None:
        waited.append(wait_s)
        source.ends = whole

    with directory() as root:
        assert plain_loader(root, source).run_pass().closed == seconds(1).wall
        source.ends = whole | {A0: 1}
        assert to_now(plain_loader(root, source, wait=passes)).closed == seconds(9).wall
        assert len(waited) == 1
        check_closed(root, history)


def test_a_topic_that_was_cut_below_what_was_read_ends_the_load() -> None:
    source = all_of(history_of({A0: [account(IN_A0, 0.5), seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]}))
    with directory() as root:
        assert plain_loader(root, source).run_pass().news
        source.ends[A0] = 1
        with pytest.raises(TopologyError, match=r"accounts\[0\] ends at offset 1, and was read to 2: .* cut"):
            plain_loader(root, source).run_pass()
        assert Warehouse(root).closed == seconds(1)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (Columns(("name",), COLUMNS.columns), "primary key of accounts was id and is name"),
        (
            Columns(("id",), (LoadedColumn("id", "INT8"), LoadedColumn("name", "BYTES"))),
            "name of accounts was",
        ),
    ],
)
def test_rows_of_another_key_or_type_are_not_loaded_though_their_columns_are_known(
    changed: Columns, sentence: str
) -> None:
    lines: dict[TopicPartition, list[Version | Timestamp]] = {
        A0: [account(IN_A0, 0.5), seconds(1), account(IN_A0, 1.5), seconds(2)],
        A1: [seconds(1), seconds(2)],
        PETS: [seconds(1), seconds(2)],
    }
    history = history_of(lines)
    source = all_of(history)
    whole = source.ends

    def altered(tasks: Sequence[LoadTask]) -> list[PartitionAnswer]:
        source.column_sets["accounts"] = changed
        return run_here(tasks)

    with directory() as root:
        source.ends = {A0: 2, A1: 1, PETS: 1}
        assert plain_loader(root, source).run_pass().closed == seconds(1).wall
        source.ends = whole
        with pytest.raises(InputError, match=sentence):
            Loader(source, altered, root, BUCKETS).run_pass()
        source.ends = {A0: 2, A1: 1, PETS: 1}
        with pytest.raises(InputError, match=sentence):
            plain_loader(root, source).run_pass()  # before there are rows
        assert Warehouse(root).closed == seconds(1)
        check_closed(root, history)


def with_delta(root: str, source: HistorySource) -> Loader:
    """A loader that keeps Delta tables."""
    return Loader(source, run_here, root, BUCKETS, DeltaFollowers(root))


def one_row() -> HistorySource:
    """A row of ``accounts``, and markers to second 1."""
    return all_of(history_of({A0: [account(IN_A0, 0.5), seconds(1)], A1: [seconds(1)], PETS: [seconds(1)]}))


SPACED = Columns(("id",), (*COLUMNS.columns, LoadedColumn("a b", "STRING")))


@pytest.mark.parametrize("left", ["changes", "current"])
def test_tables_of_an_earlier_load_are_not_gone_on_with(left: str) -> None:
    source = one_row()
    with directory() as root:
        with_delta(root, source).run_pass()
        shutil.rmtree(below(root) / "_tidegate")
        for topic in TOPICS:
            shutil.rmtree(below(root) / topic / ("current" if left == "changes" else "changes"))
        with pytest.raises(StateError, match=rf"head\.json is missing, and .*/accounts/{left} is there"):
            with_delta(root, source).run_pass()


@pytest.mark.parametrize("begun", [False, True])
def test_a_delta_table_of_something_else_is_not_taken_over(begun: bool) -> None:
    source = one_row()
    with directory() as root, directory() as other:
        with_delta(other, source).run_pass()
        plain_loader(root, source).run_pass()
        if begun:
            with_delta(root, source).run_pass()
            shutil.rmtree(below(root) / "pets" / "current")
        shutil.copytree(below(other) / "pets" / "current", below(root) / "pets" / "current")
        with pytest.raises(
            StateError, match=r"pets/current/? is a Delta table that this load has not written"
        ):
            with_delta(root, source).run_pass()
        if not begun:
            plain_loader(root, source).run_pass()


def test_a_delta_table_that_was_created_by_a_load_that_died_is_gone_on_with() -> None:
    source = one_row()
    with directory() as root:
        plain_loader(root, source).run_pass()
        for topic in TOPICS:
            table = LoadedTable(topic, "", 1, "1", Format.JSON, COLUMNS)
            DeltaTable.create(f"{root}/{topic}/current", Schema.from_arrow(current_schema(table)))
        with_delta(root, source).run_pass()
        assert len(DeltaTable(f"{root}/accounts/current").to_pyarrow_table()) == 1


def test_a_plain_load_goes_on_after_delta_was_refused() -> None:
    source = one_row()
    source.column_sets = dict.fromkeys(TOPICS, SPACED)
    with directory() as root:
        with pytest.raises(InputError, match="have neither spaces"):
            with_delta(root, source).run_pass()
        assert not (below(root) / "_tidegate").exists()
        plain_loader(root, source).run_pass()
        with pytest.raises(InputError, match="have neither spaces"):
            with_delta(root, source).run_pass()
        source.ids["pets"] = "another"
        source.column_sets = dict.fromkeys(TOPICS, COLUMNS)
        with pytest.raises(TopologyError, match="The topic pets is not the one"):
            with_delta(root, source).run_pass()
        source.ids["pets"] = "id of pets"
        plain_loader(root, source).run_pass()
        assert Warehouse(root).closed == seconds(1)


def test_a_column_that_no_delta_table_can_have_is_refused_before_its_rows_are_committed() -> None:
    source = one_row()
    named = account(IN_A0, 1.5).record
    grown = named[1].replace(b'"id"', b'"a b": "c", "id"')
    marker = source.history.records[A1][0]
    source.history.records[A0].append(TopicRecord(*A0, 2, named[0], grown, 0))
    two = json.dumps({"resolved": seconds(2).decimal()}).encode()
    for place, records in source.history.records.items():
        records.append(
            marker._replace(topic=place.topic, partition=place.partition, offset=len(records), value=two)
        )
    with directory() as root:
        assert with_delta(root, source).run_pass().closed == seconds(1).wall
        source.ends = all_of(source.history).ends
        source.column_sets["accounts"] = SPACED
        with pytest.raises(InputError, match="have neither spaces"):
            with_delta(root, source).run_pass()
        assert Warehouse(root).closed == seconds(1)


def test_a_feed_that_began_without_a_scan_has_changes_and_no_rows() -> None:
    source = one_row()
    source.scanned = False
    with directory() as root:
        with pytest.raises(InputError, match=r"began without a scan.*without --delta"):
            with_delta(root, source).run_pass()
        assert plain_loader(root, source).run_pass().rows == 1
        house = Warehouse(root)
        assert len(house.changes("accounts")) == 1
        with pytest.raises(InputError, match=r"Feed 1 of accounts began without a scan.*`changes`"):
            house.rows("accounts")
        with pytest.raises(InputError, match=r"began without a scan.*without --delta"):
            with_delta(root, source).run_pass()
        plain_loader(root, source).run_pass()


def test_tables_that_an_earlier_version_took_for_whole_are_told() -> None:
    source = one_row()
    with directory() as root:
        with_delta(root, source).run_pass()
        source.scanned = False
        with pytest.raises(InputError, match=r"began without a scan.*without --delta"):
            with_delta(root, source).run_pass()


def test_a_file_system_that_cannot_be_opened_is_a_sentence() -> None:
    for uri in ("nowhere://host/path", "abfss://x"):
        with pytest.raises(SettingsError, match=rf"file system of {uri} cannot be opened on this machine"):
            with_delta(uri, one_row()).run_pass()
        with pytest.raises(SettingsError, match=rf"file system of {uri} cannot be opened on this machine"):
            Warehouse(uri)


def test_a_file_system_that_is_away_when_a_load_begins_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(uri: str) -> Place:
        raise OSError("the name node does not answer")

    with directory() as root:
        loading = with_delta(root, one_row())
        for module in (load_pass, snapshots):
            monkeypatch.setattr(module, "opened_by_arrow", away)
        with pytest.raises(StoreAway, match=r"cannot be reached \(the name node does not answer\)"):
            loading.run_pass()
        with pytest.raises(StoreAway, match=r"cannot be reached \(the name node does not answer\)"):
            Warehouse(root)
        monkeypatch.undo()
        assert loading.run_pass().closed == seconds(1).wall
