"""Kernels of single feeds: a partition has few of them, however many feeds catch up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at, update_of
from tests.unit.processor.driving import Driven
from tests.unit.processor.feeds.row_stage import OTHER, TABLE, Stage, Written, three_feeds
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.schemed import schemed_options
from tidegate.errors import EncodingError
from tidegate.hlc import ZERO, Timestamp
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import WasmKernels, kernels_for
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.feeds.feed_kernels import version_plan
from tidegate.processor.feeds.row_kernel import FeedRecords, Taken
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.version import Version

FEEDS: Final = 7
#: More than the rows that Python takes by itself.
VERSIONS: Final = [
    Version(op.key, op.timestamp, op.value or b"", None, False, RangeId(1), RaftIndex(0), 0)
    for op in (PLAIN.put(5, number, "v") for number in range(40))
]


def test_the_kernels_whose_versions_came_longest_ago_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wasmtime")
    opened: list[Any] = []
    original = WasmKernels.open

    def opening(kernels: WasmKernels) -> Any:
        opened.append(original(kernels))
        return opened[-1]

    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(KernelMode.ON))))
    driven.control(*(activation([PLAIN.descriptor], feed_id=f"f{number}") for number in range(FEEDS)))
    log = HandLog(1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span).heartbeat(2)
    driven.step(log.partitions[0])
    monkeypatch.setattr(WasmKernels, "open", opening)
    state = driven.processor._state
    assert state.kernel is not None
    feeds = list(state.feeds.active)
    assert len(feeds) == FEEDS
    of_feeds = state.kernel.of_feeds
    for feed in feeds:
        taken = of_feeds.make_records(feed, VERSIONS)
        assert taken is not None
    assert len(opened) == FEEDS
    of_feeds.make_records(feeds[-1], VERSIONS)
    of_feeds.make_records(feeds[-4], VERSIONS)
    assert len(opened) == FEEDS, "the last four are there"
    of_feeds.make_records(feeds[0], VERSIONS)
    assert len(opened) == FEEDS + 1
    of_feeds.make_records(feeds[-4], VERSIONS)
    assert len(opened) == FEEDS + 1, "what came later is kept"
    of_feeds.make_records(feeds[-3], VERSIONS)
    assert len(opened) == FEEDS + 2, "what came longest ago is not"


# ---- with a plain kernel ----


def _some(count: int, *, omitted: bool = False, seconds: int = 6) -> list[Version]:
    return [Written(0, seconds, omitted).version(number) for number in range(count)]


def _keys(taken: Taken | None) -> list[bytes] | None:
    """The keys of the records for the one feed; ``None`` if Python has to take all versions."""
    if taken is None:
        return None
    return [record.key for record in (taken.feeds.get(0) or FeedRecords([], [], [])).records]


def _of_all(count: int) -> list[bytes]:
    return [b"[%d]" % number for number in range(count)]


@pytest.mark.parametrize(("checks", "least"), [(False, 32), (True, 1)])
def test_python_takes_a_few_versions_itself_unless_all_are_compared(checks: bool, least: int) -> None:
    stage = Stage(checks=checks)
    feed, kernels = stage.begin("feed", [TABLE]), stage.stage.of_feeds
    assert kernels.make_records(feed, _some(least - 1)) is None
    assert stage.kernels.opened == []
    assert _keys(kernels.make_records(feed, _some(least))) == _of_all(least)
    assert _keys(kernels.make_records(feed, _some(least), at(6))) == _of_all(least)


def test_what_a_writer_wants_omitted_is_given_to_an_initial_scan_alone() -> None:
    stage = Stage()
    feed, kernels = stage.begin("feed", [TABLE]), stage.stage.of_feeds
    versions = _some(2, omitted=True) + _some(1)
    assert _keys(kernels.make_records(feed, versions)) == [b"[0]"]
    assert _keys(kernels.make_records(feed, versions, at(6))) == [b"[0]", b"[1]", b"[0]"]


@pytest.mark.parametrize("what", ["useless", "broken", "none"])
def test_python_takes_all_where_a_feeds_kernel_takes_nothing(what: str) -> None:
    stage = Stage()
    feed, kernels = stage.begin("feed", [TABLE]), stage.stage.of_feeds
    if what == "none":
        stage.kernels.has_none = True
    else:
        assert kernels.make_records(feed, _some(1)) is not None
        stage.kernel.is_useful, stage.kernel.is_broken = what != "useless", what == "broken"
        stage.rows.learn(update_of(TABLE.widened(9).descriptor))
    assert kernels.make_records(feed, _some(1)) is None


def test_a_feeds_kernel_is_told_a_plan_anew_only_for_news_of_its_tables_and_when_feeds_change() -> None:
    stage = Stage()
    feed, kernels = stage.begin("feed", [TABLE]), stage.stage.of_feeds

    def plans() -> int:
        assert _keys(kernels.make_records(feed, _some(1))) == [b"[0]"]
        (kernel,) = stage.kernels.opened
        return len(kernel.plans)

    assert [plans(), plans()] == [1, 1]
    stage.rows.learn(update_of(OTHER.widened(9).descriptor))
    assert [plans(), plans()] == [1, 1]
    stage.rows.learn(update_of(TABLE.widened(9).descriptor))
    assert [plans(), plans()] == [2, 2]
    stage.begin("another", [OTHER])
    assert [plans(), plans()] == [3, 3]


def test_a_plan_waits_for_credit_of_all_its_lanes() -> None:
    """Live rows need a lane for each version of the feed's tables, and those of a scan one for each table."""
    for scanned_at, lanes in ((None, 3), (at(6), 2)):
        stage = Stage()
        feed, kernels = stage.begin("feed", [TABLE, OTHER]), stage.stage.of_feeds
        stage.rows.learn(update_of(TABLE.widened(5).descriptor))
        credit = stage.stage.credit
        while credit.pays(1):
            pass
        credit.earn((lanes - 1) * 2_048)
        assert kernels.make_records(feed, _some(1), scanned_at) is None
        credit.earn(2_048)
        assert _keys(kernels.make_records(feed, _some(1), scanned_at)) == [b"[0]"]
        assert not credit.pays(1)
        assert _keys(kernels.make_records(feed, _some(1), scanned_at)) == [b"[0]"], "it has its plan"


def test_kernels_of_feeds_that_miss_nothing_any_more_are_given_up() -> None:
    stage = Stage()
    feeds, kernels = three_feeds(stage), stage.stage.of_feeds
    for feed in feeds:
        for scanned_at in (None, at(6)):
            kernels.make_records(feed, _some(1), scanned_at)
    assert {feed_id for feed_id, _ in kernels._planned} == {"other", "both"}, "four are kept"
    kernels.keep([feeds[2].id])
    assert {feed_id for feed_id, _ in kernels._planned} == {"both"}
    opened = len(stage.kernels.opened)
    kernels.make_records(feeds[2], _some(1))
    assert len(stage.kernels.opened) == opened
    kernels.make_records(feeds[1], _some(1))
    assert len(stage.kernels.opened) == opened + 1


def _planned(stage: Stage) -> list[tuple[int, Timestamp, list[tuple[object, ...]]]]:
    """The tables of the last plan with their versions: number, since when, and the starts of the lanes."""
    return [
        (
            table.table_id,
            table.start,
            [
                (each.table.version, each.since, each.lanes and [lane.start for lane in each.lanes])
                for each in table.versions
            ],
        )
        for table in stage.kernels.opened[-1].plans[-1]
    ]


def test_a_plan_has_the_versions_of_the_feeds_tables_that_rows_may_be_read_by() -> None:
    stage = Stage()
    feed, kernels = stage.begin("feed", [OTHER, TABLE], 2), stage.stage.of_feeds
    stage.begin("earlier", [OTHER], 1)
    damaged = update_of(TABLE.widened(4).descriptor)._replace(descriptor=b"\xff")
    with pytest.raises(EncodingError):
        stage.rows.learn(damaged)
    stage.rows.learn(update_of(replace(TABLE.descriptor, version=3, modified=at(5))))
    kernels.make_records(feed, _some(1))
    assert _planned(stage) == [
        (104, at(2), [(1, at(0), [at(2)]), (1, at(4), None), (3, at(5), [at(2)])]),
        (105, at(1), [(1, at(0), [at(2)])]),
    ]
    never = Timestamp(-1)
    for seconds, version in ((3, 1), (5, 3)):
        kernels.make_records(feed, _some(1), at(seconds))
        assert _planned(stage) == [
            (104, never, [(version, never, [ZERO])]),
            (105, never, [(1, never, [ZERO])]),
        ]
        for table in stage.kernels.opened[-1].plans[-1]:
            assert [lane.scanned_at for each in table.versions for lane in each.lanes or ()] == [at(seconds)]
    for unread in (at(4), ZERO):
        kernels.make_records(feed, _some(1), unread)
        assert _planned(stage)[0] == (104, never, [])


def test_python_writes_the_rows_of_a_version_for_which_a_feed_has_no_encoder() -> None:
    oid = HandTable.of(104, "t", "id INT, v OID")
    stage = Stage()
    json, avro = stage.begin("json", [oid]), stage.begin("avro", [oid], options=schemed_options())
    other, failed = stage.begin("other", [OTHER]), stage.begin("failed", [oid])
    failed.fail("it has failed")
    told = {
        tuple(feed.id for feed in receivers): version_plan(oid.descriptor, at(1), receivers).lanes
        for receivers in ([json], [json, avro], [other, failed, json], [failed, other])
    }
    lanes = {key: lanes and [(lane.feed, lane.to.topic) for lane in lanes] for key, lanes in told.items()}
    assert lanes == {
        ("json",): [(0, "t")],
        ("json", "avro"): None,
        ("other", "failed", "json"): [(2, "t")],
        ("failed", "other"): (),
    }
