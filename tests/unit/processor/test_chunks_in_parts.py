"""A chunk of a scan whose rows are far longer than it is: they come in several steps, and none is missing."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import pytest

from sim.options import StoreOptions
from sim.workloads.bank import Bank, BankOptions
from tests.driven_sim import DrivenSim
from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, HandTable, at, update_of
from tests.logs import Record
from tests.unit.processor.driving import Driven
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.lifecycle.control import Register
from tidegate.hlc import ZERO, Timestamp
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.kernel.traps import TRAPS
from tidegate.processor.batch import OutputRecord, StateTable, StepResult
from tidegate.processor.catchup.gap_scans import CatchUpLimits
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.containment import StepBroke
from tidegate.processor.feeds.feed_control import take_up
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.row_reckoning import RowReckoning
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.log_step import LogStep
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.state_codec import read_position
from tidegate.processor.step_size import RowLimits
from tidegate.raftlog.entry import KeyValue, Offset, ScanChunk
from tidegate.raftlog.request import Scan
from tidegate.ranges import scan as scan_module
from tidegate.spans import Span

_COLUMNS: Final = 300
_WIDE: Final = HandTable.of(
    104, "wide", ", ".join(["id INT", *(f"a_column_with_a_name_{at} STRING" for at in range(_COLUMNS))])
)
_NARROW: Final = HandTable.of(105, "narrow")
_NULLS: Final = (None,) * _COLUMNS
_ROWS: Final = 400
_LIMITS: Final = RowLimits(step_bytes=300_000)
_POSITION: Final = (StateTable.RANGES, POSITION_KEY)
_STORE: Final = StoreOptions(
    partitions=1,
    write_rate=200.0,
    closed_lag_ms=200,
    heartbeat_ms=300,
    snapshot_interval_ms=1_000,
    split_every_ms=2_500,
    merge_every_ms=2_500,
    scan_gap_ms=300,
    scan_chunk_rows=1_000,
)
_ENGINES: Final = pytest.mark.parametrize("mode", list(KernelMode))


class _Engine:
    """Steps a log as engines do, and keeps what comes of it."""

    def __init__(
        self,
        log: HandLog,
        mode: KernelMode,
        catch_up: CatchUpLimits | None = None,
        limits: RowLimits = _LIMITS,
    ) -> None:
        self.log = log
        config = ProcessorConfig(rows=limits, kernel=kernels_for(mode), catch_up=catch_up)
        self.driven = Driven(PartitionProcessor(0, 1, config))

    def run(self, *, whole: bool = False) -> list[StepResult]:
        """Step what is there: to each step is given again what the one before has not taken."""
        first = len(self.driven.results)
        records = self.log.partitions[0][int(self.driven.processor.next_offset or 0) :]
        while True:
            step = self.driven.processor.step if whole else self.driven.processor.step_some
            result = self.driven.note(step(records))
            records = records[result.taken :]
            if not (records or self.driven.processor.ready):
                return self.driven.results[first:]

    def begin(self, scan: InitialScan, table: HandTable = _WIDE) -> Scan:
        """Begin a feed in the present, with a scan or at a cursor; return what it asks for first."""
        options = FeedOptions(
            updated=True, initial_scan=scan, cursor=at(1) if scan is InitialScan.NO else None
        )
        start = at(1) if scan is InitialScan.NO else at(2)
        message = activation([table.descriptor], options, start=start, feed_id=FeedId("late"))
        self.driven.control(Register(message.definition), message)
        request, *_ = (each for result in self.run() for each in result.requests)
        assert isinstance(request, Scan)
        return request

    @property
    def rows(self) -> list[OutputRecord]:
        return [row for result in self.driven.results for rows in result.outputs.values() for row in rows]


def _log() -> tuple[HandLog, HandRange]:
    log = HandLog(partitions=1)
    log.describe(_WIDE)
    opened = log.open_range(1, _WIDE.span)
    opened.apply(_WIDE.put(1, 1, *_NULLS), close=0)
    opened.apply(_WIDE.put(2, 2, *_NULLS), close=2)
    return log, opened


def _found(seconds: float) -> list[KeyValue]:
    return [
        KeyValue(key, at(seconds), value) for key, value in (_WIDE.pair(n, *_NULLS) for n in range(_ROWS))
    ]


def _require_parts(results: Sequence[StepResult], rows: int) -> None:
    sizes = [result.row_bytes for result in results]
    assert sum(sizes) > 8 * _LIMITS.step_bytes
    assert max(sizes) < 1.5 * _LIMITS.step_bytes
    assert sum(len(each) for result in results for each in result.outputs.values()) == rows


@pytest.mark.sampled(4)
@_ENGINES
@pytest.mark.parametrize("scan", [InitialScan.YES, InitialScan.NO])
def test_rows_of_a_scan_come_in_several_steps(scan: InitialScan, mode: KernelMode) -> None:
    traps = TRAPS.count
    log, opened = _log()
    parted, whole = _Engine(log, mode), _Engine(log, KernelMode.OFF)
    for each in (parted, whole):
        each.run()
        request = each.begin(scan)
    opened.scanned(request, *_found(1 if scan is InitialScan.YES else 1.5))
    opened.apply(_WIDE.put(3, 1, *_NULLS), close=3)
    results = parted.run()
    _require_parts(results, _ROWS + 1)
    taken = [result.taken for result in results]
    assert sum(taken) == 2, "the chunk counts once, in the last of its steps"
    assert taken[0] == 0
    whole.run(whole=True)
    assert parted.rows == whole.rows
    assert parted.driven.state == whole.driven.state
    assert not parted.driven.processor.status().with_gaps
    assert TRAPS.count == traps


@_ENGINES
def test_a_restart_amid_a_chunk_loses_nothing(mode: KernelMode) -> None:
    """What was given is durable by its gap: the next scan asks for the rest."""
    log, opened = _log()
    engine = _Engine(log, mode)
    engine.run()
    request = engine.begin(InitialScan.YES)
    opened.scanned(request, *_found(1))
    processor = engine.driven.processor
    records = log.partitions[0][int(processor.next_offset or 0) :]
    for _ in range(3):
        assert engine.driven.note(processor.step_some(records)).taken == 0
    given = len(engine.rows)
    assert 0 < given < _ROWS
    restored = _Engine(log, mode)
    restored.driven = Driven.restored(engine.driven.state)
    again = [each for result in restored.run() for each in result.requests if isinstance(each, Scan)]
    assert not restored.rows, "the chunk answers nobody's request any more"
    assert again[-1].span.start == _WIDE.pair(given, *_NULLS)[0]
    opened.scanned(again[-1], *(row for row in _found(1) if again[-1].span.contains(row.key)))
    restored.run()
    keys = [row.key for row in (*engine.rows, *restored.rows)]
    assert keys == [f"[{number}]".encode() for number in range(_ROWS)]


@_ENGINES
def test_rows_that_heal_a_range_come_in_several_steps(mode: KernelMode) -> None:
    log, opened = _log()
    parted, whole = _Engine(log, mode), _Engine(log, KernelMode.OFF)
    message = activation([_WIDE.descriptor], FeedOptions(updated=True), start=ZERO, feed_id=FeedId("feed"))
    for each in (parted, whole):
        each.driven.control(message)
    opened.index += 5  # entries are missing
    opened.apply(_WIDE.put(4, 2, *_NULLS), close=3)
    opened.snapshot(close=4, high=4)
    for each in (parted, whole):
        requests = [scan for result in each.run() for scan in result.requests if isinstance(scan, Scan)]
    before = len(parted.rows)
    opened.scanned(requests[-1], *_found(3.5))
    opened.apply(_WIDE.put(5, 1, *_NULLS), close=4.5)
    _require_parts(parted.run(), _ROWS + 1)
    whole.run(whole=True)
    assert len(parted.rows) == before + _ROWS + 1
    assert parted.rows == whole.rows
    assert parted.driven.state == whole.driven.state


@_ENGINES
def test_one_key_comes_whole(mode: KernelMode) -> None:
    """All versions of a key are given at once, however long they are."""
    log, opened = _log()
    engine = _Engine(log, mode)
    engine.run()
    request = engine.begin(InitialScan.NO)
    key, value = _WIDE.pair(7, *_NULLS)
    opened.scanned(request, *(KeyValue(key, at(1.5 + n / 10_000), value) for n in range(100)))
    results = engine.run()
    assert len(results) == 1
    assert results[0].row_bytes > 2 * _LIMITS.step_bytes


def _one_key_fits(patch: pytest.MonkeyPatch) -> None:
    """Whatever is asked, there is room for one key."""
    patch.setattr(RowReckoning, "fitting", lambda self, room, feed, rows, first: first + 1)


@_ENGINES
def test_what_stands_beside_a_chunk_is_taken_once(mode: KernelMode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that is not alone in its portion comes whole. Another range breaks and heals before it."""
    found: list[tuple[list[OutputRecord], list[str], object]] = []
    for is_cut in (False, True):
        if is_cut:
            _one_key_fits(monkeypatch)
        log = HandLog(partitions=1)
        log.describe(_NARROW)
        low, high = _NARROW.split(1_000)
        first, second = log.open_range(1, low), log.open_range(2, high)
        first.apply(_NARROW.put(2, 1, "v"), close=2)
        engine = _Engine(log, mode)
        engine.run()
        request = engine.begin(InitialScan.YES, _NARROW)
        second.apply(_NARROW.put(3, 2_000, "v"), close=2)
        second.index += 5  # entries are missing
        second.apply(_NARROW.put(4, 2_001, "v"), close=3)
        second.snapshot(close=4, high=2)
        second.apply(_NARROW.put(5, 2_002, "v"), close=4)
        rows = [KeyValue(key, at(1), value) for key, value in (_NARROW.pair(n, "v") for n in range(9))]
        middle = _NARROW.split(4)[0].end
        first.scanned(request, *rows[:4], span=Span(request.span.start, middle), last=False)
        first.scanned(request, *rows[4:], span=Span(middle, request.span.end))
        engine.run()
        incidents = [each.cause for result in engine.driven.results for each in result.incidents]
        found.append((engine.rows, incidents, engine.driven.state))
    assert found[0] == found[1]
    assert len(found[0][1]) == 1


@_ENGINES
def test_a_chunk_is_read_and_checked_once_however_many_parts_it_has(
    mode: KernelMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, opened = _log()
    engine = _Engine(log, mode)
    engine.run()
    request = engine.begin(InitialScan.YES)
    opened.scanned(request, *_found(1))
    checked: list[ScanChunk] = []

    def fault_of(chunk: ScanChunk) -> str:
        checked.append(chunk)
        return original(chunk)

    original = scan_module.fault_of
    monkeypatch.setattr(scan_module, "fault_of", fault_of)
    _one_key_fits(monkeypatch)
    engine.run()
    assert len(engine.rows) == _ROWS
    assert len(checked) == 1


def test_the_clock_counts_a_chunk_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock waits for so many records before it believes one that is ahead of the others."""
    found: list[object] = []
    for is_cut in (False, True):
        if is_cut:
            _one_key_fits(monkeypatch)
        log = HandLog(partitions=1)
        log.describe(_NARROW)
        opened = log.open_range(1, _NARROW.span)
        opened.apply(_NARROW.put(2, 3, "v"), close=2)
        engine = _Engine(log, KernelMode.OFF)
        engine.run()
        request = engine.begin(InitialScan.YES, _NARROW)
        opened.apply(_NARROW.put(10, 2, "v"), close=10)
        engine.run()
        rows = [KeyValue(key, at(1), value) for key, value in (_NARROW.pair(n, "v") for n in range(20))]
        opened.scanned(request, *rows)
        engine.run()
        for number in range(10):
            opened.apply(_NARROW.put(10, 100 + number, "v"), close=10)
            engine.run()
        found.append(read_position(engine.driven.state[StateTable.RANGES, POSITION_KEY]).clock)
    assert found[0] == found[1]


def test_held_versions_of_one_command_count_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come when the scan comes to their keys, so a feed must not fail by how many come together."""
    for is_cut in (False, True):
        if is_cut:
            _one_key_fits(monkeypatch)
        log = HandLog(partitions=1)
        log.describe(_NARROW)
        opened = log.open_range(1, _NARROW.span)
        opened.apply(_NARROW.put(2, 3, "v"), close=2)
        engine = _Engine(log, KernelMode.OFF, limits=RowLimits(entry_bytes=3_000))
        engine.run()
        request = engine.begin(InitialScan.YES, _NARROW)
        opened.apply(_NARROW.put(3, 2, "x" * 1_800), _NARROW.put(3, 4, "y" * 1_800), close=2.5)
        engine.run()
        rows = [KeyValue(key, at(1), value) for key, value in (_NARROW.pair(n, "v") for n in (1, 3, 5))]
        opened.scanned(request, *rows)
        engine.run()
        assert not engine.driven.causes
        assert sorted(row.key for row in engine.rows) == [b"[%d]" % number for number in range(1, 6)]


def test_an_exception_in_a_step_without_a_record_names_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    log, opened = _log()
    engine = _Engine(log, KernelMode.OFF)
    engine.run()
    request = engine.begin(InitialScan.YES)
    opened.scanned(request, *_found(1))

    def breaks(*_: object) -> None:
        raise ArithmeticError("nobody foresaw it")

    monkeypatch.setattr(LogStep, "ask", breaks)
    with pytest.raises(StepBroke) as broke:
        engine.run()
    assert broke.value.first.offset == broke.value.last.offset == log.partitions[0][-1].offset


def test_rows_of_one_feed_are_reckoned_for_it_alone() -> None:
    """A feed that catches up beside many others holds as much as it would alone."""
    rows, feeds = PartitionRows(), PartitionFeeds(0)
    rows.learn(update_of(_WIDE.descriptor))
    reckoning, key = RowReckoning(rows, feeds), _WIDE.pair(1, *_NULLS)[0]
    reckoned: list[tuple[int, float]] = []
    for number in range(5):
        message = activation([_WIDE.descriptor], start=ZERO, feed_id=FeedId(f"feed-{number}"))
        for each in (Register(message.definition), message):
            take_up(feeds, each, Offset(number), ZERO, rows, ())
        reckoned.append((reckoning.of_feed(feeds.active[0], key, 20), reckoning.longest))
    assert {of_feed for of_feed, _ in reckoned} == {reckoned[0][0]}
    assert reckoned[-1][1] == 5 * reckoned[0][1] > 500


def test_held_versions_are_bounded_by_the_rows_that_they_make() -> None:
    log, opened = _log()
    engine = _Engine(log, KernelMode.OFF, CatchUpLimits(held_row_bytes=200_000))
    engine.run()
    request = engine.begin(InitialScan.YES)
    for number in range(100):
        opened.apply(_WIDE.put(3 + number / 1_000, number, *_NULLS), close=2.5)
    engine.run()
    (found,) = engine.driven.processor.status().with_gaps
    assert found.held_bytes == 0, "they were too much, and the scan holds nothing any more"
    opened.scanned(request)
    again = [each for result in engine.run() for each in result.requests if isinstance(each, Scan)]
    assert (again[-1].after, again[-1].upto) == (at(2), at(3.099))


class _Twins:
    """Two processors of one log: the first takes chunks in random parts, the second takes them whole."""

    def __init__(self, seed: int, mode: KernelMode) -> None:
        self.rng, self._cut = Random(seed), Random(f"{seed}:parts")
        workload = Bank(BankOptions(accounts=40, ranges=3), seed)
        self.sim = DrivenSim(workload, _STORE, seed=seed)
        self.sim.advance(500)
        self._parted, self._whole = (
            Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(each))))
            for each in (mode, KernelMode.OFF)
        )
        self._tables = [*{table.id: table for table in self.sim.tables}.values()]
        self.feeds, self.parts = 0, 0
        self.begin(ZERO, InitialScan.NO)

    def begin(self, start: Timestamp, scan: InitialScan) -> None:
        """Begin a feed in both."""
        self.feeds += 1
        cursor = start if scan is InitialScan.NO and start > ZERO else None
        options = FeedOptions(updated=True, diff=True, initial_scan=scan, cursor=cursor)
        feed_id = FeedId(f"feed-{self.feeds}")
        message = activation(self._tables, options, start=start, feed_id=feed_id)
        for each in (self._parted, self._whole):
            each.control(*([Register(message.definition)] if start > ZERO else []), message)

    @property
    def high(self) -> Timestamp:
        """The highest timestamp of any version so far."""
        return self._whole.processor._state.position.high

    def step(self, record: Record, patch: pytest.MonkeyPatch) -> None:
        """Step a record in both, and compare all that came of it."""
        patch.setattr(
            RowReckoning, "fitting", lambda _, room, feed, rows, at: at + self._cut.choice((1, 1, 2, 5))
        )
        parted, whole = [], []
        rest = [record]
        while rest or self._parted.processor.ready:
            limits = RowLimits(step_bytes=self._cut.choice((1, 500, 64 << 20)))
            self._parted.processor._state.row_limits = limits
            parted.append(self._parted.note(self._parted.processor.step_some(rest)))
            rest = rest[parted[-1].taken :]
        self.parts += len(parted) > 1
        patch.undo()
        whole.append(self._whole.note(self._whole.processor.step_some([record])))
        while self._whole.processor.ready:
            whole.append(self._whole.note(self._whole.processor.step_some(())))
        assert _rows_by_feed(parted) == _rows_by_feed(whole)
        states = [{**each.state, _POSITION: b""} for each in (self._parted, self._whole)]
        assert states[0] == states[1]
        for request in (each for result in whole for each in result.requests):
            self.sim.request(request)


def _rows_by_feed(results: Sequence[StepResult]) -> dict[FeedId, list[str]]:
    """The rows, without the order of different keys: held ones come with the part that has their keys."""
    found: dict[FeedId, list[str]] = {}
    for result in results:
        for feed_id, rows in result.outputs.items():
            found.setdefault(feed_id, []).extend(map(str, rows))
    return {feed_id: sorted(rows) for feed_id, rows in found.items()}


@pytest.mark.parametrize(
    "seed", [60, 61, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(62, 66))]
)
def test_however_chunks_are_cut_rows_and_state_are_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges that split, merge and lose entries, and feeds that begin with scans and in the past."""
    print(f"seed {seed}")
    twins, log = _Twins(seed, KernelMode.ON if seed % 2 else KernelMode.OFF), 0
    for _ in range(20):
        twins.sim.advance(twins.rng.choice((100, 300, 600)))
        (records,) = twins.sim.records()
        for record in records:
            if twins.rng.random() < 0.004:
                continue  # it is lost
            twins.step(record._replace(offset=log), monkeypatch)
            log += 1
            if twins.rng.random() < 0.005:
                twins.begin(twins.high, twins.rng.choice([*InitialScan]))
    assert twins.parts > 3
