"""Rows that a kernel refuses stand in their places, and a feed stops at the row at which Python would stop
it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at, update_of
from tests.unit.processor.driving import Driven
from tests.unit.processor.feeds.row_stage import (
    OTHER,
    TABLE,
    NoLogKernel,
    Stage,
    Written,
    by_kernel,
    three_feeds,
    unframed,
    written_versions,
)
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.errors import FeedError, StateError
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import OutputRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.feeds.kernel_rows import BatchEmission, KernelRows
from tidegate.processor.feeds.kernels import Kernel
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.row_kernel import FeedRecords, TablePlan, Taken
from tidegate.processor.feeds.taken_versions import FeedEmission
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.feeds.written_versions import WrittenRows
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import WriteValue
from tidegate.ranges.version import Version


class _OddKernel(NoLogKernel):
    """A kernel that writes rows in its own way: those at odd places. It refuses all others."""

    def __init__(self) -> None:
        self.plans: list[Sequence[TablePlan]] = []

    def plan(self, tables: Sequence[TablePlan]) -> bool:
        self.plans.append(tables)
        versions = [version for table in tables for version in table.versions]
        self._feeds = {lane.feed for version in versions for lane in version.lanes or ()}
        return True

    def make_records(self, versions: Sequence[Version]) -> Taken | None:
        odd = range(1, len(versions), 2)
        records = [OutputRecord("t", 0, b"odd", None, 0, []) for _ in odd]
        feeds = {feed: FeedRecords([*records], [], [*odd]) for feed in self._feeds} if odd else {}
        return Taken(feeds, [*range(0, len(versions), 2)], {104: versions[-1].timestamp})


class _Absent(_OddKernel):
    def make_records(self, versions: Sequence[Version]) -> Taken | None:
        return None


class _Kernels:
    def __init__(self, kernel: Kernel | None, *, checks: bool = False) -> None:
        self.checks = checks
        self._kernel = kernel

    def open(self) -> Kernel | None:
        return self._kernel


def _run(kernels: _Kernels | None, *ops: WriteValue) -> StepResult:
    log = HandLog(1)
    log.describe(TABLE)
    log.open_range(7, TABLE.span).apply(*ops)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels)))
    driven.control(activation([TABLE.descriptor]))
    return driven.step(log.partitions[0])


def _puts(count: int) -> list[WriteValue]:
    return [TABLE.put(number, number, "x") for number in range(2, 2 + count)]


def _keys(result: StepResult) -> list[bytes]:
    return [record.key for records in result.outputs.values() for record in records]


def test_refused_rows_stand_in_their_places() -> None:
    assert _keys(_run(_Kernels(_OddKernel()), *_puts(5))) == [b"[2]", b"odd", b"[4]", b"odd", b"[6]"]


@pytest.mark.parametrize("kernel", [None, _Absent()])
def test_python_takes_what_no_kernel_takes(kernel: Kernel | None) -> None:
    assert _run(_Kernels(kernel), *_puts(5)) == _run(None, *_puts(5))


def test_a_feed_stops_at_a_refused_row_that_python_cannot_read() -> None:
    ops = _puts(5)
    ops[2] = ops[2]._replace(value=b"\0\0\0\0\x0a\xff")
    native, python = _run(_Kernels(_OddKernel()), *ops), _run(None, *ops)
    assert _keys(native) == [b"[2]", b"odd"]
    assert (native.incidents, native.acks, native.changes) == (python.incidents, python.acks, python.changes)


def test_a_kernel_is_told_of_feeds_and_of_each_descriptor_once() -> None:
    kernel = _OddKernel()
    log = HandLog(1)
    log.describe(TABLE)
    log_range = log.open_range(7, TABLE.span)
    for op in _puts(3):
        log_range.apply(op)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=_Kernels(kernel))))
    driven.control(activation([TABLE.descriptor]))
    driven.run(log.partitions[0], batch=1)
    assert [len(tables) for tables in kernel.plans] == [1]
    assert [len(version.lanes or ()) for table in kernel.plans[0] for version in table.versions] == [1]
    log.describe(HandTable(replace(TABLE.descriptor, version=2, modified=at(8))))
    log_range.apply(TABLE.put(9, 9, "y"))
    driven.run(log.partitions[0][-2:])
    assert [len(version.lanes or ()) for table in kernel.plans[1] for version in table.versions] == [1, 1]
    assert len(kernel.plans) == 2


def test_a_checked_kernel_that_differs_ends_the_process_with_both_records() -> None:
    with pytest.raises(StateError, match=r"at 1 of 5: OutputRecord\(.*b'odd'.*b'\[3\]'.*TIDEGATE_KERNEL=off"):
        _run(_Kernels(_OddKernel(), checks=True), *_puts(5))


# ---- the stage alone ----

_WRITTEN: Final = st.builds(Written, st.integers(0, 2), st.integers(1, 6), st.booleans())
_BATCHES: Final = st.lists(_WRITTEN, max_size=10)
_REFUSED: Final = st.frozensets(st.integers(0, 9))
_PLACES: Final = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.booleans()), max_size=3)


def _versions(written: Sequence[Written], first: int = 0) -> list[Version]:
    return [each.version(number) for number, each in enumerate(written, first)]


def _told(emitted: BatchEmission) -> dict[str, list[tuple[bytes, bool]]]:
    """The keys that each feed is given, and whether the kernel has made the record."""
    assert [each.error for each in emitted.feeds] == [None] * len(emitted.feeds)
    return {
        each.feed.id: [(record.key, record.value == b"by the kernel") for record in each.records]
        for each in emitted.feeds
        if each.records
    }


def _expected(
    feeds: Sequence[PartitionFeed], written: Sequence[Written], refused: Iterable[int]
) -> dict[str, list[tuple[bytes, bool]]]:
    by_feed = {
        feed.id: [(b"[%d]" % at, at not in refused) for at, each in enumerate(written) if each.is_of(feed)]
        for feed in feeds
    }
    return {feed_id: records for feed_id, records in by_feed.items() if records}


def _highest(feeds: Sequence[PartitionFeed], written: Sequence[Written]) -> dict[int, Timestamp]:
    """The highest timestamp of each table's versions that any of the feeds wants."""
    highs: dict[int, Timestamp] = {}
    for each in written:
        starts = [feed.start for feed in feeds if 104 + each.table in feed.table_ids]
        if each.table < 2 and not each.omitted and starts and at(each.seconds) > min(starts):
            highs[104 + each.table] = max(at(each.seconds), highs.get(104 + each.table, ZERO))
    return highs


@given(_BATCHES, _REFUSED)
@example([Written(0, 3), Written(1, 5), Written(0, 6), Written(1, 6)], frozenset({1, 2}))
def test_every_feed_is_given_its_versions_in_order_whoever_makes_the_records(
    written: list[Written], refused: frozenset[int]
) -> None:
    stage = Stage(refused)
    feeds = three_feeds(stage)
    emitted = stage.stage.emit(stage.feeds.live, _versions(written))
    assert emitted is not None
    assert _told(emitted) == _expected(feeds, written, refused)
    assert [*_told(emitted)] == [feed.id for feed in feeds if feed.id in _told(emitted)]
    assert stage.highs(emitted) == _highest(feeds, written)


@given(_BATCHES, _REFUSED, _PLACES)
@example([Written(0, 6)] * 6, frozenset({1, 4}), [(1, 2, True), (4, 1, True)])
@example([Written(0, 6)] * 6, frozenset(), [(0, 2, True), (3, 2, False)])
def test_shared_versions_are_made_but_for_rows_that_are_written_by_the_present_plan(
    written: list[Written], refused: frozenset[int], places: list[tuple[int, int, bool]]
) -> None:
    """The bool says that the rows are of the present plan."""
    stage = Stage(refused)
    feeds = three_feeds(stage)
    versions, live = _versions(written), stage.feeds.live
    assert stage.stage.ready(live) is not None
    known, begin, made = list[WrittenRows](), 0, set(range(len(versions)))
    for skipped, length, is_valid in places:
        first = min(begin + skipped, len(versions))
        begin = min(first + length, len(versions))
        rows = stage.kernel.make_records(versions[first:begin])
        assert rows is not None
        known.append(WrittenRows(first, begin, rows, stage.stage.plan_number - (not is_valid)))
        made -= set(range(first, begin)) if is_valid else set()
    stage.kernel.given.clear()
    taken = stage.stage.make_shared_records(live, versions, known)
    assert taken is not None
    assert [number for numbers in stage.kernel.given for number in numbers] == sorted(made)
    assert all(stage.kernel.given)
    expected = _expected(feeds, written, refused)
    emitted = stage.stage.emit_all(live, taken)
    assert _told(emitted) == expected
    assert stage.highs(emitted) == _highest(feeds, written)
    some = stage.stage.emit_all([feeds[2]], taken)
    assert _told(some) == {key: value for key, value in expected.items() if key == "both"}


@given(_BATCHES, _REFUSED, _BATCHES, st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_a_parted_feed_is_given_shared_versions_and_its_own_in_the_order_of_its_delivery(
    written: list[Written],
    refused: frozenset[int],
    own: list[Written],
    is_first: bool,
    is_taken: bool,
    order: Random,
) -> None:
    stage = Stage(refused)
    feeds = three_feeds(stage)
    shared = _versions(written)
    taken = stage.stage.make_shared_records(stage.feeds.live, shared, []) if is_taken else None
    delivered = [*zip(_versions(written + own), written + own, strict=True)]
    delivered = [(shared[at] if at < len(shared) else each, of) for at, (each, of) in enumerate(delivered)]
    order.shuffle(delivered)
    emitted = stage.stage.emit_some(feeds[2], taken, [version for version, _ in delivered], is_first=is_first)
    if emitted is None:
        assert not is_taken
        assert not delivered
        return
    (one,) = emitted.feeds
    assert (one.feed, one.error) == (feeds[2], None)
    assert [(record.key, record.value == b"by the kernel") for record in one.records] == [
        (b"[%d]" % version.raft_index, version.raft_index not in refused)
        for version, of in delivered
        if of.is_of(feeds[2])
    ]
    told = [of for version, of in delivered if is_first or taken is None or not taken.has(version)]
    assert stage.highs(emitted) == _highest(feeds, told)


def test_a_parted_feed_tells_the_highest_timestamps_of_its_own_tables_alone() -> None:
    stage = Stage()
    feeds = three_feeds(stage)
    shared = _versions([Written(0, 6), Written(1, 5), Written(0, 3), Written(2, 6), Written(0, 2)])
    taken = stage.stage.make_shared_records(stage.feeds.live, shared, [])
    first = stage.stage.emit_some(feeds[0], taken, shared, is_first=True)
    assert first is not None
    assert first.highs == {104: at(6)}
    again = stage.stage.emit_some(feeds[0], taken, shared, is_first=False)
    assert again is not None
    assert again.highs == {}
    at_start = _versions([Written(0, 2)])
    taken = stage.stage.make_shared_records(stage.feeds.live, at_start, [])
    none = stage.stage.emit_some(feeds[0], taken, at_start, is_first=True)
    assert none is not None
    assert none.highs == {}, "it starts there"


def test_a_refused_version_of_a_parted_feed_shows_what_it_replaced() -> None:
    stage = Stage({1})
    feed = stage.begin("diff", [TABLE], options=FeedOptions(diff=True))
    old = TABLE.pair(1, "old")[1]
    emitted = stage.stage.emit_some(
        feed, None, [Written(0, 5).version(1)._replace(prev_value=old)], is_first=True
    )
    assert emitted is not None
    (record,) = emitted.feeds[0].records
    assert b'"before": {"id": 1, "v": "old"}' in (record.value or b"")


def test_a_feed_that_has_failed_is_given_nothing_and_others_go_on() -> None:
    stage = Stage({0, 1})
    feeds = three_feeds(stage)
    written = [Written(0, 6), Written(1, 6), Written(0, 5)]
    feeds[2].fail("it has failed")
    emitted = stage.stage.emit(stage.feeds.live, _versions(written))
    assert emitted is not None
    assert _told(emitted) == _expected(feeds[:2], written, {0, 1})


@pytest.mark.parametrize("refused", [frozenset[int](), frozenset({1, 3})])
def test_rows_that_a_scan_found_are_a_feeds_wherever_it_starts_and_read_at_the_time_of_the_scan(
    refused: frozenset[int],
) -> None:
    stage = Stage(refused)
    feeds = three_feeds(stage)
    written = [Written(0, 1), Written(1, 2), Written(2, 3), Written(0, 3, True), Written(1, 4)]
    emitted = stage.stage.emit_scanned(feeds[2], _versions(written), at(5))
    assert emitted is not None
    assert _told(emitted) == {"both": [(b"[%d]" % number, number not in refused) for number in (0, 1, 3, 4)]}
    assert stage.highs(emitted) == {104: at(5), 105: at(5)}
    assert stage.kernels.opened[0].plans[0][0].versions[0].since < ZERO


# ---- versions whose rows are written already ----


_BY_KERNEL, _BY_PYTHON = True, False


def test_written_rows_come_with_what_stood_before_and_behind_them() -> None:
    stage = Stage({20})
    feeds = three_feeds(stage)
    live = stage.feeds.live
    assert stage.stage.ready(live) is not None
    first = written_versions(
        stage, [Written(0, 3), Written(1, 5), Written(0, 6)], [1], [Written(0, 5).version(20)]
    )
    second = written_versions(stage, [Written(0, 4)], [], [])
    shared = [Written(1, 6).version(30), Written(1, 2).version(31)]
    emitted = stage.stage.emit_written(live, [first, second], shared)
    assert emitted is not None
    assert _told(emitted) == {
        "t": [(b"[20]", _BY_PYTHON), *((key, _BY_KERNEL) for key in (b"[1]", b"[3]", b"[1]"))],
        "other": [(b"[2]", _BY_PYTHON), (b"[30]", _BY_KERNEL), (b"[31]", _BY_KERNEL)],
        "both": [
            (b"[20]", _BY_PYTHON),
            (b"[2]", _BY_PYTHON),
            (b"[3]", _BY_KERNEL),
            (b"[30]", _BY_KERNEL),
        ],
    }
    assert [each.feed for each in emitted.feeds] == feeds
    assert stage.highs(emitted) == {104: at(6), 105: at(6)}
    assert stage.kernel.given == [[20], [30, 31]]


def test_written_rows_without_ids_follow_each_other_too() -> None:
    stage = Stage()
    three_feeds(stage)
    live = stage.feeds.live
    assert stage.stage.ready(live) is not None
    parts = [written_versions(stage, [Written(0, 3)], [], []) for _ in range(2)]
    for number, part in enumerate(parts):
        part.rows = Taken({0: FeedRecords([], [unframed(number)], [0])}, [], {})
    emitted = stage.stage.emit_written(live, parts, [])
    assert emitted is not None
    assert [each.unframed for each in emitted.feeds] == [[unframed(0), unframed(1)]]


def test_a_feed_that_has_failed_is_given_nothing_of_what_follows() -> None:
    stage = Stage({20})
    three_feeds(stage)
    live = stage.feeds.live
    assert stage.stage.ready(live) is not None
    damaged = Written(0, 5).version(20)._replace(value=b"\0\0\0\0\x0a\xff")
    parts = [
        written_versions(stage, [Written(0, 3)], [], []),
        written_versions(stage, [Written(0, 6), Written(1, 6)], [], [damaged]),
    ]
    emitted = stage.stage.emit_written(live, parts, [Written(0, 6).version(30)])
    assert emitted is not None
    found = {each.feed.id: (each.records, each.error is None) for each in emitted.feeds}
    assert [(len(records), is_well) for records, is_well in found.values()] == [
        (1, False),
        (1, True),
        (0, False),
    ]


def _unwritten(stage: Stage, what: str) -> BatchEmission | None:
    live = stage.feeds.live
    assert stage.stage.ready(live) is not None
    before = [Written(0, 5).version(20)] if what == "broken before" else []
    written = written_versions(stage, [Written(0, 3)], [], before)
    shared = [Written(0, 6).version(30)] if what == "broken behind" else []
    if what == "another plan":
        written.plan -= 1
    stage.kernel.is_broken = what.startswith("broken")
    if what == "no kernel":
        stage.stage._kernel = None
    return stage.stage.emit_written(live, [written], shared)


@pytest.mark.parametrize("what", ["another plan", "broken before", "broken behind", "no kernel", "nothing"])
def test_python_takeswritten_versions_of_another_plan_and_all_of_them_if_the_kernel_broke(what: str) -> None:
    stage = Stage()
    three_feeds(stage)
    assert (_unwritten(stage, what) is None) == (what != "nothing")


# ---- when a kernel is told its plan, and when there is none ----


def test_a_kernel_is_told_a_plan_anew_only_for_news_of_its_feeds_and_tables() -> None:
    stage = Stage()
    assert stage.stage.plan_number == 0
    three_feeds(stage)
    numbers = [stage.stage.plan_number]

    def told(receivers: Sequence[PartitionFeed]) -> int:
        assert stage.stage.ready(receivers) is stage.kernel
        numbers.append(stage.stage.plan_number)
        assert len(stage.kernel.plans) == numbers[-1]
        return numbers[-1] - numbers[-2]

    assert told(stage.feeds.live) == 1
    assert told(stage.feeds.live) == 0
    stage.rows.learn(update_of(HandTable.of(106, "unwanted").descriptor))
    assert told(stage.feeds.live) == 0, "a table that no feed wants"
    assert told([*stage.feeds.live]) == 1, "other receivers"
    receivers = stage.feeds.live
    assert told(receivers) == 1
    stage.rows.learn(update_of(replace(OTHER.descriptor, version=2, modified=at(9))))
    assert told(receivers) == 1, "a wanted table"
    assert told(receivers) == 0
    stage.feeds.answer(stage.feeds[FeedId("t")])
    assert told(receivers) == 1, "the feeds have changed, and the receivers have not"
    assert len(stage.kernels.opened) == 1


def test_a_plan_has_the_versions_of_wanted_tables_and_a_lane_for_each_of_their_feeds() -> None:
    stage = Stage()
    three_feeds(stage)
    stage.rows.learn(update_of(HandTable.of(106, "unwanted").descriptor))
    assert stage.stage.ready(stage.feeds.live) is not None
    (plan,) = stage.kernel.plans
    assert [(table.table_id, table.start) for table in plan] == [(104, at(2)), (105, at(0))]
    lanes = [[lane.feed for lane in each.lanes or ()] for table in plan for each in table.versions]
    assert lanes == [[0, 2], [1, 2]]
    assert stage.stage.ready([]) is not None
    assert stage.kernel.plans[-1] == []


@pytest.mark.parametrize("what", ["no kernel", "no descriptor", "useless", "broken", "nothing"])
def test_python_takes_all_versions_where_a_kernel_takes_none(what: str) -> None:
    stage = Stage(checks=False)
    feeds = three_feeds(stage)
    if what == "no kernel":
        stage.stage = KernelRows(_Kernels(None), stage.rows, stage.feeds)
    elif what == "no descriptor":
        stage.stage = KernelRows(stage.kernels, PartitionRows(), stage.feeds)
    else:
        assert stage.stage.ready([]) is not None
        stage.kernel.is_useful = what != "useless"
        stage.kernel.is_broken = what == "broken"
    versions, live = _versions([Written(0, 6), Written(1, 6)]), stage.feeds.live
    assert (stage.stage.emit(live, versions) is None) == (what != "nothing")
    assert (stage.stage.make_shared_records(live, versions, []) is None) == (what != "nothing")
    follows = what in ("useless", "broken", "nothing")
    assert (stage.stage.ready(live) is not None) == follows, "it follows the log all the same"
    assert stage.stage.emit_some(feeds[2], None, versions, is_first=True) is None, "they are few"
    assert stage.stage.emit_scanned(feeds[2], versions, at(6)) is None


def test_a_new_descriptor_has_to_wait_for_its_plan_until_the_log_has_earned_it() -> None:
    stage = Stage()
    stage.begin("feed", [TABLE])
    live = stage.feeds.live
    assert stage.stage.ready(live) is not None
    credit = stage.stage.credit
    while credit.pays(1):
        pass
    stage.rows.learn(update_of(replace(TABLE.descriptor, version=2, modified=at(9))))
    assert stage.stage.ready(live) is None
    lanes = 2 + 2  # the versions of wanted tables, and those of the feed's tables
    credit.earn((lanes - 1) * 2_048)
    assert stage.stage.ready(live) is None
    credit.earn(2_048)
    assert (stage.stage.ready(live), stage.stage.plan_number) == (stage.kernel, 2)
    assert not credit.pays(1), "it has paid for all of them"
    stage.begin("second", [TABLE, OTHER])
    assert stage.stage.ready(stage.feeds.live) is not None, "a feed that begins does not have to wait"
    assert credit.pays(3 + 2 + 3)
    assert not credit.pays(1)


# ---- what is compared ----


def _compared(stage: Stage, emitted: BatchEmission, result: StepResult, change: Callable[[], object]) -> None:
    with stage.stage.compared(emitted, result):
        change()


_CHANGES: Final = {
    "the same": None,
    "another record": "differ in records of feed 't', at 0 of 1: ",
    "a record more": "differ in records of feed 't', at 1 of 2: nothing by the kernel",
    "a record less": "differ in records of feed 't', at 0 of 0: .* nothing by Python",
    "one without an id": "differ in records without ids of feed 't'",
    "a failure": "differ in failures of feed 't', at 0 of 1: '' by the kernel, 'it has failed' by Python",
    "another feed": "differ in records of feed 'other'",
    "a higher timestamp": "differ in highest timestamps of feed ''",
}


@pytest.mark.parametrize("what", _CHANGES)
def test_any_difference_between_the_kernel_and_python_ends_the_process(what: str) -> None:
    stage = Stage()
    feeds = three_feeds(stage)
    record, before = by_kernel("t", 1), by_kernel("t", 0)
    of_schemas = unframed(1)
    stage.rows.raise_high(104, at(5))
    emitted = BatchEmission([FeedEmission(feeds[0], [record], [of_schemas], None)], {104: at(3), 105: at(6)})
    result = StepResult(None, outputs={feeds[0].id: [before]}, unframed={feeds[0].id: [of_schemas] * 2})

    def change() -> None:
        if what != "a record less":
            result.records_of(feeds[0].id).append(before if what == "another record" else record)
        if what == "a record more":
            result.records_of(feeds[0].id).append(record)
        elif what == "another feed":
            result.records_of(feeds[1].id).append(record)
        elif what == "a failure":
            feeds[0].fail("it has failed")
        if what != "one without an id":
            result.unframed[feeds[0].id].append(of_schemas)
        stage.rows.raise_high(105, at(7 if what == "a higher timestamp" else 6))

    sentence = _CHANGES[what]
    if sentence is None:
        _compared(stage, emitted, result, change)
    else:
        with pytest.raises(StateError, match=sentence):
            _compared(stage, emitted, result, change)


def test_a_failure_that_both_tell_is_no_difference() -> None:
    """The feed is not active any more, and is compared all the same."""
    stage = Stage()
    feeds = three_feeds(stage)
    error = FeedError("it has failed")
    emitted = BatchEmission([FeedEmission(feeds[0], [], [], error)], {})
    _compared(stage, emitted, StepResult(None), lambda: stage.feeds.fail(feeds[0].id, error))
    gone = BatchEmission([FeedEmission(feeds[0], [by_kernel("t", 1)], [], error)], {})
    with pytest.raises(StateError, match="differ in records of feed 't'"):
        _compared(stage, gone, StepResult(None), lambda: None)


@pytest.mark.parametrize("records", [0, 2])
@pytest.mark.parametrize("others", [0, 2])
def test_only_what_python_adds_is_compared(records: int, others: int) -> None:
    stage = Stage()
    feed = three_feeds(stage)[0]
    result = StepResult(None)
    if records:
        result.outputs[feed.id] = [by_kernel("t", 9)] * records
    if others:
        result.unframed[feed.id] = [unframed(9)] * others
    emitted = BatchEmission([FeedEmission(feed, [by_kernel("t", 1)], [unframed(1)], None)], {})

    def change() -> None:
        result.records_of(feed.id).append(by_kernel("t", 1))
        result.unframed.setdefault(feed.id, []).append(unframed(1))

    _compared(stage, emitted, result, change)
    with pytest.raises(StateError, match="differ in records without ids of feed 't', at 0 of 0"):
        _compared(stage, emitted, result, lambda: result.records_of(feed.id).append(by_kernel("t", 1)))


def test_of_what_differs_a_part_is_shown() -> None:
    stage = Stage()
    feed = three_feeds(stage)[0]
    long = by_kernel("t", 1)._replace(value=b"x" * 600)
    emitted = BatchEmission([FeedEmission(feed, [long], [], None)], {})
    with pytest.raises(StateError) as raised:
        _compared(stage, emitted, StepResult(None), lambda: None)
    assert f"0 of 0: {repr(long)[:500]} by the kernel, nothing by Python" in str(raised.value)
