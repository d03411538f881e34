"""A step takes as much of the log as its rows have room for, and nothing depends on where it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at
from tests.logs import Record
from tests.unit.kernel.histories import History, history
from tests.unit.kernel.log_histories import log_history
from tests.unit.processor.driving import Driven, StoredState
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.encoding.row_width import row_width, table_lengths
from tidegate.hlc import ZERO
from tidegate.kernel import partition_kernel
from tidegate.kernel.followed_records import FOLLOWED
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.kernel.traps import TRAPS
from tidegate.processor import step_size
from tidegate.processor.batch import OutputRecord, StateChange, StateTable, StepResult, UnframedRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.row_reckoning import RowReckoning
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.state_codec import read_position
from tidegate.processor.step_size import RowLimits, StepPace, sizes_before
from tidegate.processor.written_records import rows_size
from tidegate.rows import Datum

_COLUMNS: Final = 300
_WIDE: Final = HandTable.of(
    104, "wide", ", ".join(["id INT", *(f"a_column_with_a_name_{at} STRING" for at in range(_COLUMNS))])
)
_NARROW: Final = HandTable.of(105, "narrow")
_WIDE_FEED: Final = FeedId("wide")
_NARROW_FEED: Final = FeedId("narrow")
_ENGINES: Final = pytest.mark.parametrize("mode", list(KernelMode))
_AVRO: Final = FeedOptions(format=Format.AVRO, confluent_schema_registry="http://r")
_OPTIONS: Final = (
    FeedOptions(updated=True),
    FeedOptions(envelope=Envelope.DEBEZIUM, connect_schema=True),
    FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="schema,source"),
    FeedOptions(extra_headers='{"a": "' + "x" * 15_000 + '"}'),
)


def _driven(
    limits: RowLimits, mode: KernelMode = KernelMode.OFF, options: FeedOptions = _OPTIONS[0]
) -> Driven:
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(rows=limits, kernel=kernels_for(mode))))
    driven.control(
        activation([_WIDE.descriptor], options, start=ZERO, feed_id=_WIDE_FEED),
        activation([_NARROW.descriptor], options, start=ZERO, feed_id=_NARROW_FEED),
    )
    return driven


def _log(rows: int, per_entry: int = 1) -> Sequence[Record]:
    """Rows of both tables; those of the wide one are short in the log and long as JSON."""
    log = HandLog(partitions=1)
    for table in (_WIDE, _NARROW):
        log.describe(table)
    wide, narrow = log.open_range(7, _WIDE.span), log.open_range(8, _NARROW.span)
    for first in range(0, rows, per_entry):
        seconds = 1 + first / 100
        puts = (_WIDE.put(seconds, each, *[None] * _COLUMNS) for each in range(first, first + per_entry))
        wide.apply(*(each._replace(prev_value=b"") for each in puts), close=seconds - 0.001)
        narrow.apply(_NARROW.put(seconds, first, "v")._replace(prev_value=b""), close=seconds - 0.001)
    return log.partitions[0]


def _steps(driven: Driven, records: Sequence[Record]) -> Iterator[StepResult]:
    """Step all records, as engines do."""
    while True:
        result = driven.note(driven.processor.step_some(records))
        yield result
        records = records[result.taken :]
        if not records:
            break
    while driven.processor.ready:
        yield driven.note(driven.processor.step_some(()))


def _without_offsets(driven: Driven) -> StoredState:
    """The state, but for where the last step of each range ended."""
    found: StoredState = {}
    for (table, key), value in driven.state.items():
        if key == POSITION_KEY:
            found[table, key] = b"%d" % read_position(value).offset
        elif table is StateTable.RANGES:
            row = pb.Range()
            row.ParseFromString(value[1:])
            row.ClearField("offset")
            found[table, key] = row.SerializeToString(deterministic=True)
        else:
            found[table, key] = value
    return found


def _by_feed(driven: Driven) -> dict[FeedId, list[OutputRecord]]:
    found: dict[FeedId, list[OutputRecord]] = {}
    for result in driven.results:
        for feed_id, rows in result.outputs.items():
            found.setdefault(feed_id, []).extend(rows)
    return found


@pytest.mark.sampled(4)
@_ENGINES
@pytest.mark.parametrize("options", _OPTIONS)
def test_rows_that_are_far_longer_than_the_log_make_steps_shorter(
    options: FeedOptions, mode: KernelMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the first step, which has the descriptors."""
    monkeypatch.setattr(step_size, "_FIRST", 2_000)
    limits = RowLimits(step_bytes=500_000)
    driven, whole = _driven(limits, mode, options), _driven(limits, mode, options)
    results = [*_steps(driven, _log(400))]
    sizes = [result.row_bytes for result in results]
    assert sum(sizes) > 6 * limits.step_bytes
    assert all(limits.step_bytes <= size <= 2.5 * limits.step_bytes for size in sizes[:-1])
    whole.run(_log(400))
    assert _by_feed(driven) == _by_feed(whole)
    assert _without_offsets(driven) == _without_offsets(whole)


@_ENGINES
def test_a_backlog_goes_on_while_the_log_fills_each_step(
    mode: KernelMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_size, "_FIRST", 1)
    limits, count = RowLimits(step_bytes=20_000), 50
    log = HandLog(partitions=1)
    log.describe(_WIDE)
    parent = log.open_range(2, _WIDE.span)
    parent.apply(_WIDE.put(2, 50, *[None] * _COLUMNS), close=1)
    child = parent.split(_WIDE.key(100), 3, close=3)
    for number in range(count):
        child.apply(_WIDE.put(5 + number / 1_000, 100 + number, *[None] * _COLUMNS), close=4)
    described, begun, put, trigger, *left = [*log.partitions[0]]
    born, *late = left[-count - 1 :]
    for number in range(200):
        parent.apply(_WIDE.put(6 + number / 1_000, number % 100, *[None] * _COLUMNS), close=5)
    order = [described, begun, born, *late, put, trigger, *left[: -count - 1], *log.partitions[0][-200:]]
    records = [record._replace(offset=offset) for offset, record in enumerate(order)]
    driven = _driven(limits, mode)
    results = [*_steps(driven, records)]
    of_child = [sum(int(row.key[1:-1]) >= 100 for row in _by_feed_of(result)) for result in results]
    live = [len(_by_feed_of(result)) - old for result, old in zip(results, of_child, strict=True)]
    assert (sum(of_child), sum(live)) == (count, 201)
    last_of_child = max(at for at, rows in enumerate(of_child) if rows)
    assert sum(live[last_of_child + 1 :]) > 50, "the backlog was applied long before the log's end"


def _by_feed_of(result: StepResult) -> Sequence[OutputRecord]:
    return [row for rows in result.outputs.values() for row in rows]


@_ENGINES
def test_a_step_that_ends_amid_a_batch_is_not_at_the_batchs_end(
    mode: KernelMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the batch has offsets after its last record, of a transaction's end."""
    monkeypatch.setattr(step_size, "_FIRST", 300)
    log = _log(50)
    driven = _driven(RowLimits(step_bytes=2_000), mode)
    result = driven.note(driven.processor.step_some(log, len(log) + 3))
    assert 0 < result.taken < len(log)
    assert driven.processor.next_offset == log[result.taken].offset
    assert result.offset == log[result.taken - 1].offset
    rest = log[result.taken :]
    while rest:
        result = driven.note(driven.processor.step_some(rest, len(log) + 3))
        rest = rest[result.taken :]
    assert driven.processor.next_offset == len(log) + 3


@pytest.mark.sampled(4)
@_ENGINES
@pytest.mark.parametrize("first", [1, 2_000])
def test_a_backlog_of_long_rows_is_applied_in_several_steps(
    first: int, mode: KernelMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range whose parent was read behind it goes on at once, with all that it has put off."""
    monkeypatch.setattr(step_size, "_FIRST", first)
    limits, count = RowLimits(step_bytes=200_000), 300
    log = HandLog(partitions=1)
    log.describe(_WIDE)
    parent = log.open_range(2, _WIDE.span)
    parent.apply(_WIDE.put(2, 150, *[None] * _COLUMNS), close=1)
    child = parent.split(_WIDE.key(100), 3, close=3)
    for number in range(count):
        child.apply(_WIDE.put(5 + number / 1_000, 100 + number, *[None] * _COLUMNS), close=4)
    records = [*log.partitions[0]]
    described, begun, put, trigger, *left, born = records[: len(records) - count]
    order = [described, begun, born, *records[-count:], put, trigger, *left]
    records = [record._replace(offset=offset) for offset, record in enumerate(order)]
    driven, whole = _driven(limits, mode), _driven(limits, mode)
    driven.step(records[:3])
    assert driven.processor.status().parked
    sizes = [result.row_bytes for result in _steps(driven, records[3:])]
    assert sum(sizes) > 10 * limits.step_bytes
    assert max(sizes) <= 2 * limits.step_bytes
    whole.run(records)
    assert _by_feed(driven) == _by_feed(whole)


@_ENGINES
def test_rows_that_are_as_long_as_the_log_are_all_of_one_step(mode: KernelMode) -> None:
    driven = _driven(RowLimits(), mode)
    (result,) = _steps(driven, _log(400))
    assert result.taken == len(_log(400))


@_ENGINES
@pytest.mark.parametrize("options", [*_OPTIONS, _AVRO])
def test_what_rows_have_is_counted_about_as_it_is(options: FeedOptions, mode: KernelMode) -> None:
    driven = _driven(RowLimits(), mode, options)
    for result in _steps(driven, _log(20)):
        rows = [row for each in result.outputs.values() for row in each]
        unframed = [row for each in result.unframed.values() for row in each]
        size = rows_size(rows) + rows_size(unframed)
        assert size
        assert 0.9 * size < result.row_bytes < 1.1 * size


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", [KernelMode.OFF, KernelMode.ON])
@pytest.mark.parametrize("make", [history, log_history])
@pytest.mark.parametrize("seed", range(8))
def test_nothing_depends_on_where_a_step_ends(
    make: Callable[[int], History], seed: int, mode: KernelMode
) -> None:
    """Random histories in steps of a few rows, in the same steps by `step`, and in steps of whole batches."""
    print(f"seed {seed}")
    past = make(seed)
    parts, same, whole = (
        Driven(PartitionProcessor(0, 1, ProcessorConfig(rows=limits, kernel=kernels_for(mode))))
        for limits in (RowLimits(step_bytes=300), RowLimits(), RowLimits())
    )
    half = len(past.records) // 2
    for messages, records in ((past.feeds, past.records[:half]), ([past.later], past.records[half:])):
        for driven in (parts, same, whole):
            driven.control(*messages)
        whole.step(records)
        for result in _steps(parts, records):
            expected = same.step(records[: result.taken])
            assert _but_changes(result) == _but_changes(expected)
            assert set(map(_of_ranges, result.changes)) == set(map(_of_ranges, expected.changes))
            records = records[result.taken :]
    assert _of_all_ranges(parts) == _of_all_ranges(same)
    assert _by_key(_by_feed(parts)) == _by_key(_by_feed(whole))
    assert _by_key_of_unframed(_unframed(parts)) == _by_key_of_unframed(_unframed(whole))


def _but_changes(result: StepResult) -> list[object]:
    """All of a result but its changes. A range that waits may have its turn before or behind the others of a
    step, so rows have an order for each key alone.
    """
    rest = replace(result, changes=[], incidents=[], outputs={}, unframed={})
    incidents = sorted(result.incidents, key=str)
    return [rest, incidents, _by_key(result.outputs), _by_key_of_unframed(result.unframed)]


def _by_key(outputs: Mapping[FeedId, Sequence[OutputRecord]]) -> dict[FeedId, list[OutputRecord]]:
    return {feed: sorted(rows, key=lambda row: (row.topic, row.key)) for feed, rows in outputs.items()}


def _by_key_of_unframed(
    outputs: Mapping[FeedId, Sequence[UnframedRecord]],
) -> dict[FeedId, list[UnframedRecord]]:
    return {feed: sorted(rows, key=lambda row: (row.to.topic, row.key)) for feed, rows in outputs.items()}


def _of_ranges(change: StateChange) -> StateChange | None:
    """A change, but for times of tables: those of a table are not kept on when its last feed has failed."""
    is_kept = change.table is not StateTable.DESCRIPTORS and change.key != POSITION_KEY
    return change if is_kept else None


def _of_all_ranges(driven: Driven) -> set[StateChange | None]:
    return {_of_ranges(StateChange(table, key, value)) for (table, key), value in driven.state.items()}


def _unframed(driven: Driven) -> dict[FeedId, list[UnframedRecord]]:
    found: dict[FeedId, list[UnframedRecord]] = {}
    for result in driven.results:
        for feed_id, rows in result.unframed.items():
            found.setdefault(feed_id, []).extend(rows)
    return found


@_ENGINES
def test_a_feed_fails_alone_for_which_one_entry_makes_too_many_bytes(mode: KernelMode) -> None:
    driven = _driven(RowLimits(entry_bytes=200_000), mode)
    for _ in _steps(driven, _log(100, per_entry=100)):
        pass
    (incident,) = (each for result in driven.results for each in result.incidents)
    assert incident.feed_id == _WIDE_FEED
    assert "table wide: one entry of the log makes more than 200000 bytes of rows" in incident.cause
    assert "range 7" in incident.cause
    assert len(_by_feed(driven)[_NARROW_FEED]) == 1
    assert [feed.feed_id for feed in driven.processor.full_checkpoint().feeds] == [_NARROW_FEED]


@pytest.mark.sampled(4)
@_ENGINES
@pytest.mark.parametrize("size", [1, 40])
def test_a_feed_fails_at_the_same_row_however_the_log_is_cut(size: int, mode: KernelMode) -> None:
    found = []
    for limits in (RowLimits(entry_bytes=60_000), RowLimits(step_bytes=1_000, entry_bytes=60_000)):
        driven = _driven(limits, mode)
        for first in range(0, 100, size):
            for _ in _steps(driven, _log(100, per_entry=10)[first : first + size]):
                pass
        (incident,) = (each.cause for result in driven.results for each in result.incidents)
        found.append((incident, _by_feed(driven)))
    assert found[0] == found[1]


@_ENGINES
def test_many_entries_that_are_long_together_fail_nobody(mode: KernelMode) -> None:
    driven, expected = _driven(RowLimits(entry_bytes=20_000), mode), _driven(RowLimits())
    driven.run(_log(60))
    expected.run(_log(60))
    assert not driven.causes
    assert _by_feed(driven) == _by_feed(expected)


@pytest.mark.parametrize("mode", [KernelMode.OFF, KernelMode.ON])
@pytest.mark.parametrize("most", [1, 50_000])
def test_rows_beyond_what_a_kernel_gives_are_pythons(
    mode: KernelMode, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _driven(RowLimits())
    expected.run(_log(50))
    monkeypatch.setattr(partition_kernel, "OUTPUT_BYTES_MAX", most)
    driven = _driven(RowLimits(entry_bytes=20_000), mode)
    driven.run(_log(50))
    assert _by_feed(driven) == _by_feed(expected)
    assert driven.state == expected.state


def _widths() -> RowReckoning:
    """Return the reckoning of a partition without feeds."""
    return RowReckoning(PartitionRows(), PartitionFeeds(0))


@given(st.lists(st.tuples(st.integers(0, 3 << 20), st.floats(0, 2.0**40)), max_size=12))
def test_a_portion_has_room_for_the_rows_that_it_made_before(portions: list[tuple[int, float]]) -> None:
    pace = StepPace(_widths(), RowLimits())
    for log_bytes, ratio in portions:
        before = pace.log_bytes
        pace.note(log_bytes, int(log_bytes * ratio))
        assert 1 <= pace.log_bytes <= min(1 << 20, max(4 * before, 4 << 16))
        assert pace.log_bytes == 1 or pace.log_bytes * int(log_bytes * ratio) <= max(1, log_bytes) * (
            64 << 20
        )


def test_a_short_portion_grows_again() -> None:
    pace = StepPace(_widths(), RowLimits())
    assert pace.log_bytes == 64 << 10
    pace.note(1_000, 1_000_000)
    assert pace.log_bytes == 67_108
    pace.note(1, 1 << 25)
    assert pace.log_bytes == 2
    pace.note(1, 1 << 27)
    assert pace.log_bytes == 1
    for _ in range(22):
        pace.note(1_000, 1_000)
    assert pace.log_bytes == 1 << 20


@pytest.mark.parametrize("options", [FeedOptions(), *_OPTIONS, _AVRO])
def test_a_guess_of_how_wide_rows_are_is_not_far_off(options: FeedOptions) -> None:
    driven = _driven(RowLimits(), options=options)
    driven.run(_log(1))
    for table, feed_id in ((_WIDE, _WIDE_FEED), (_NARROW, _NARROW_FEED)):
        rows = [row for result in driven.results for row in result.outputs.get(feed_id, ())]
        unframed = [row for result in driven.results for row in result.unframed.get(feed_id, ())]
        size = rows_size(rows) + rows_size(unframed)
        fixed = row_width(table_lengths(table.descriptor), options).fixed
        assert size / 4 < fixed + 20 < 4 * size


@_ENGINES
def test_a_burst_behind_a_quiet_log_makes_no_long_step(mode: KernelMode) -> None:
    """Four feeds want the wide table. The kernel has memory for what it is given at a time."""
    traps = TRAPS.count
    limits = RowLimits(step_bytes=2_000_000)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(rows=limits, kernel=kernels_for(mode))))
    for number in range(4):
        driven.control(activation([_WIDE.descriptor], start=ZERO, feed_id=FeedId(f"feed-{number}")))
    log = HandLog(partitions=1)
    log.describe(_WIDE)
    one = log.open_range(7, _WIDE.span)
    for number in range(20_000):
        one.heartbeat(1 + number / 10_000)
    for number in range(300):
        one.apply(_WIDE.put(5 + number / 1_000, number, *[None] * _COLUMNS), close=4)
    sizes = [result.row_bytes for result in _steps(driven, log.partitions[0])]
    assert sum(sizes) > 5 * limits.step_bytes
    assert max(sizes) < 2.5 * limits.step_bytes
    assert TRAPS.count == traps


@pytest.mark.long
def test_an_entry_of_very_long_rows_is_no_trap() -> None:
    """A column's name has 200 KB. An entry of 400 rows has 12 KB, and 480 MB of rows for six feeds."""
    key, value = _NARROW.descriptor.columns[:2]
    table = HandTable(replace(_NARROW.descriptor, columns=(key, replace(value, name="n" * 200_000))))
    log = HandLog(partitions=1)
    log.describe(table)
    one = log.open_range(7, table.span)
    one.apply(*(table.put(2, number, "v") for number in range(400)), close=1)
    one.apply(table.put(3, 1, "w"), close=2)
    traps, followed = TRAPS.count, FOLLOWED.count
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(KernelMode.ON))))
    for number in range(6):
        driven.control(activation([table.descriptor], start=ZERO, feed_id=FeedId(f"feed-{number}")))
    sizes = [result.row_bytes for result in _steps(driven, log.partitions[0])]
    assert [round(size / 200_000) for size in sizes if size] == [pytest.approx(6 * 400, rel=0.001), 6]
    assert TRAPS.count == traps
    assert FOLLOWED.count == followed + 1, "the kernel takes the entry behind the long one"


def _labels() -> tuple[HandTable, HandTable, FeedOptions, list[Datum]]:
    table = HandTable.of(104, "t", f"id INT, v s('{'x' * 10_000}','b')")
    return table, table, FeedOptions(), ["x" * 10_000]


def _arrays_of_labels() -> tuple[HandTable, HandTable, FeedOptions, list[Datum]]:
    table = HandTable.of(104, "t", f"id INT, v s('{'x' * 1_000}','b')[]")
    labels: tuple[Datum, ...] = ("x" * 1_000,) * 20
    return table, table, _AVRO, [labels]


def _own_names(options: FeedOptions) -> tuple[HandTable, HandTable, FeedOptions, list[Datum]]:
    table = HandTable(replace(_NARROW.descriptor, database="d" * 5_000))
    return table, table, options, ["v"]


def _older_version() -> tuple[HandTable, HandTable, FeedOptions, list[Datum]]:
    """Rows are of the wide version, and the newest one is narrow."""
    newest = HandTable(replace(_NARROW.descriptor, id=_WIDE.descriptor.id, version=2, modified=at(50_000)))
    return _WIDE, newest, FeedOptions(), [None] * _COLUMNS


@pytest.mark.sampled(4)
@_ENGINES
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(_labels, id="labels"),
        pytest.param(_arrays_of_labels, id="arrays of labels"),
        pytest.param(partial(_own_names, FeedOptions(envelope=Envelope.DEBEZIUM)), id="debezium"),
        pytest.param(
            partial(_own_names, FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="source")),
            id="source",
        ),
        pytest.param(_older_version, id="an older version"),
    ],
)
def test_what_makes_rows_long_is_reckoned_before_the_first_of_them(
    case: Callable[[], tuple[HandTable, HandTable, FeedOptions, list[Datum]]], mode: KernelMode
) -> None:
    """A burst behind a quiet log, of rows that are long by something else than names of columns."""
    table, newest, options, values = case()
    limits = RowLimits(step_bytes=500_000)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(rows=limits, kernel=kernels_for(mode))))
    driven.control(activation([table.descriptor], options, start=ZERO, feed_id=FeedId("feed")))
    log = HandLog(partitions=1)
    log.describe(table)
    if newest is not table:
        log.describe(newest)
    one = log.open_range(7, table.span)
    for number in range(20_000):
        one.heartbeat(1 + number / 10_000)
    for number in range(400):
        one.apply(table.put(5 + number / 1_000, number, *values)._replace(prev_value=b""), close=4)
    sizes = [result.row_bytes for result in _steps(driven, log.partitions[0])]
    assert not driven.causes
    assert sum(sizes) > 3 * limits.step_bytes
    assert max(sizes) < 2.5 * limits.step_bytes


@_ENGINES
@pytest.mark.parametrize("options", [_OPTIONS[0], _AVRO], ids=["json", "avro"])
@pytest.mark.parametrize("less", [0, 1])
def test_an_entry_has_the_same_bytes_however_its_rows_are_made(
    options: FeedOptions, less: int, mode: KernelMode
) -> None:
    """Many short rows, whose headers are longer and longer."""
    log = HandLog(partitions=1)
    log.describe(_NARROW)
    one = log.open_range(8, _NARROW.span)
    one.apply(*(_NARROW.put(1, number, "v") for number in range(1_200)), close=0.5)
    exact = _narrow(RowLimits(), KernelMode.OFF, options)
    exact.run(log.partitions[0])
    size = sum(result.row_bytes for result in exact.results)
    driven = _narrow(RowLimits(entry_bytes=size - less), mode, options)
    driven.run(log.partitions[0])
    assert bool(driven.causes) == bool(less)
    if not less:
        assert [result.outputs for result in driven.results] == [result.outputs for result in exact.results]


def _narrow(limits: RowLimits, mode: KernelMode, options: FeedOptions) -> Driven:
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(rows=limits, kernel=kernels_for(mode))))
    driven.control(activation([_NARROW.descriptor], options, start=ZERO, feed_id=_NARROW_FEED))
    return driven


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=20))
def test_a_portion_is_as_long_as_it_may_be(sizes: list[int]) -> None:
    records = [Record(at, None, b"x" * size if size else None, 0) for at, size in enumerate(sizes)]
    pace, before = StepPace(_widths(), RowLimits()), sizes_before(records)
    assert before == [sum(sizes[:at]) for at in range(len(sizes) + 1)]
    first = 0
    while first < len(records):
        end = pace.portion_end(before, first)
        assert end > first
        assert end == first + 1 or sum(sizes[first:end]) <= pace.log_bytes
        assert end == len(records) or sum(sizes[first : end + 1]) > pace.log_bytes
        first = end
