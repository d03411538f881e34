"""The warehouse loader where its tables cannot go on, or would become others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.spark.warehouse.feed_histories import BUCKETS, COLUMNS, Version, history_of
from tests.unit.spark.warehouse.hand_loads import (
    A0,
    A1,
    IN_A0,
    PETS,
    account,
    all_of,
    check_closed,
    directory,
    plain_loader,
    seconds,
    to_now,
)
from tidegate.errors import InputError, TopologyError
from tidegate.hlc import Timestamp
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.spark.warehouse.load_pass import Loader, run_here
from tidegate.spark.warehouse.partition_task import LoadTask, PartitionAnswer
from tidegate.spark.warehouse.snapshots import Warehouse
from tidegate.verify import TopicPartition


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
        with pytest.raises(InputError, match=sentence):
            plain_loader(root, source).run_pass()
        assert Warehouse(root).closed == seconds(1)
        check_closed(root, history)
