"""A kernel goes on after records that it refuses. It is given each record a bounded number of times.

What it leaves behind is what Python leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, at, closed, intent
from tests.logs import Record
from tests.unit.kernel.gap_histories import GapLockstep
from tests.unit.kernel.histories import Lockstep
from tests.unit.kernel.log_histories import log_history
from tests.unit.processor.driving import Driven, rows_of
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.table.breakages import HIGH, LOW
from tidegate.changefeed.lifecycle.control import Register
from tidegate.errors import StateError
from tidegate.kernel import log_message, partition_kernel
from tidegate.kernel.instance import Instance
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import LogRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.containment import Input, InputPlace
from tidegate.processor.feeds.log_kernel import Followed, MovedRange
from tidegate.processor.plain_records import PlainRecords, _Ends
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.step_size import RowLimits, StepPace
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import Entry, Generation, Heartbeat, RaftIndex, RangeId
from tidegate.raftlog.request import Scan
from tidegate.ranges.intent_queue import IntentQueue

pytest.importorskip("wasmtime")

_FEED = activation([PLAIN.descriptor])


def _log(count: int, each: int, *, bytes_each: int = 1) -> Sequence[Record]:
    """The rows of a live range, and between so many of them records of a range in a hole: none, one or two.

    The kernel refuses records of a range in a hole.
    """
    log = HandLog(1)
    log.describe(PLAIN)
    live, broken = log.open_range(1, LOW), log.open_range(2, HIGH)
    broken.unreadable()
    for number in range(count):
        if number % each:
            live.apply(PLAIN.put(1 + number / 100, 1 + number % 9, "v" * bytes_each))
        for _ in range(number // each % 3 if number % each == 0 else 0):
            broken.heartbeat(2)
    live.heartbeat(1 + count / 100)
    return log.partitions[0]


def _driven(mode: KernelMode, limits: RowLimits | None = None) -> Driven:
    config = ProcessorConfig(kernel=kernels_for(mode), rows=limits or RowLimits())
    driven = Driven(PartitionProcessor(0, 1, config))
    driven.control(_FEED)
    return driven


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", [KernelMode.ON, KernelMode.CHECK])
@pytest.mark.parametrize("each", [7, 40, 110, 300])
def test_a_batch_with_many_refused_records_is_taken_as_by_python(each: int, mode: KernelMode) -> None:
    records = _log(4_000, each)
    on, off = _driven(mode), _driven(KernelMode.OFF)
    for driven in (on, off):
        driven.step(records[:5])
        driven.step(records[5:])
    assert on.rows == off.rows
    assert on.state == off.state
    assert on.causes == off.causes
    assert on.checkpoints == off.checkpoints


@pytest.mark.sampled(4)
@pytest.mark.parametrize("each", [2, 20, 110, 400, 2_000])
@pytest.mark.parametrize("bytes_each", [1, 2_000])
def test_the_kernel_reads_a_small_multiple_of_a_batch(
    each: int, bytes_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, driven, given = _log(8_000, each, bytes_each=bytes_each), _driven(KernelMode.ON), 0
    follow = PlainRecords._follow

    def noting(self: PlainRecords, kernel: object, rest: Sequence[LogRecord]) -> object:
        nonlocal given
        given += sum(map(_bytes, rest))
        return follow(self, kernel, rest)  # type: ignore[arg-type]

    driven.step(records[:5])
    monkeypatch.setattr(PlainRecords, "_follow", noting)
    driven.step(records[5:])
    # Nine times all of a portion, while refusals are free. Then about three times, and the shortest rounds.
    assert given < (9 + 3 + 1) * sum(map(_bytes, records))


def _bytes(record: LogRecord) -> int:
    return 64 + len(record.key or b"") + len(record.value or b"")


@pytest.mark.parametrize("batch", [1, 1_000])
def test_python_takes_only_what_the_kernel_refuses(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    records, driven = _log(500, 100), _driven(KernelMode.ON)
    by_python: list[LogRecord] = []
    apply = PlainRecords.apply_records

    def noting(self: PlainRecords, some: Sequence[LogRecord], receivers: Any, take: Any) -> None:
        def noted(given: Sequence[LogRecord]) -> None:
            by_python.extend(given)
            take(given)

        apply(self, some, receivers, noted)

    driven.step(records[:5])
    monkeypatch.setattr(PlainRecords, "apply_records", noting)
    driven.run(records[5:], batch)
    broken = [record for record in records[5:] if record.key == encode_key(RangeId(2))]
    assert len(broken) == 4
    assert [record for record in by_python if record not in broken] == []


# ---- rounds ----


class _Rounds:
    """What a kernel is given in each round of a step, and what Python takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[int] = []
        self.sizes: list[int] = []
        self.by_python: list[int] = []
        follow, apply = PlainRecords._follow, PlainRecords.apply_records

        def following(plain: PlainRecords, kernel: Any, records: Sequence[LogRecord]) -> Any:
            self.given.append(len(records))
            found = follow(plain, kernel, records)
            self.sizes.append(0 if found is None else found[1].size)
            return found

        def applying(plain: PlainRecords, records: Sequence[LogRecord], receivers: Any, take: Any) -> None:
            def taking(some: Sequence[LogRecord]) -> None:
                self.by_python.append(len(some))
                take(some)

            apply(plain, records, receivers, taking)

        monkeypatch.setattr(PlainRecords, "_follow", following)
        monkeypatch.setattr(PlainRecords, "apply_records", applying)


def _rows_amid_refused(*counts: int) -> Sequence[Record]:
    """So many rows, then so many records that a kernel refuses, and so on in turn."""
    log = HandLog(1)
    log.describe(PLAIN)
    live, broken = log.open_range(1, LOW), log.open_range(2, HIGH)
    broken.unreadable()
    for place, count in enumerate(counts):
        for number in range(count):
            if place % 2:
                broken.heartbeat(2)
            else:
                live.apply(PLAIN.put(1 + place + number / 1_000, number % 9, "v"))
    return log.partitions[0]


_BEFORE: Final = 4


@pytest.mark.parametrize(
    ("counts", "rounds", "rest"),
    [
        ((30,), [30], []),
        ((0, 30), [30 - number for number in range(9)], [21]),
        ((99, 30), [129, *(29 - number for number in range(8))], [21]),
        ((100, 30), [130, *(29 - number for number in range(9))], [20]),
        ((100, 20, 100, 20), [240, *(139 - number for number in range(8)), 73], [130]),
    ],
)
def test_a_kernel_is_given_as_many_rounds_as_refusals_are_free_and_earned(
    counts: Sequence[int], rounds: Sequence[int], rest: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the free ones are given all of the rest."""
    records, driven = _rows_amid_refused(*counts), _driven(KernelMode.ON)
    driven.step(records[:_BEFORE])
    seen = _Rounds(monkeypatch)
    driven.step(records[_BEFORE:])
    assert seen.given == rounds
    assert seen.by_python == [*[1] * (len(rounds) if rest else 0), *rest]


def test_a_round_that_is_earned_has_about_twice_the_bytes_of_the_last_one() -> None:
    sizes = [10_000, 10_000, 20_000, 10_000, 10_000, 100, 100, 9_000, 100]
    records = [Record(number, b"k" * 16, b"v" * (size - 80), 0) for number, size in enumerate(sizes)]
    ends = _Ends(records)
    assert ends.next(0, all_of_it=True) == 9
    assert ends.next(2, all_of_it=False) == 5, "40 KB behind 20 KB"
    assert ends.next(4, all_of_it=False) == 9, "60 KB behind 30 KB"
    assert ends.next(5, all_of_it=False) == 9
    assert ends.next(6, all_of_it=False) == 7, "8 KB at least, and the next record has 9"
    assert ends.next(7, all_of_it=False) == 8, "one record at least"
    assert ends.next(8, all_of_it=False) == 9


def test_the_bytes_of_a_round_count_keys_values_and_a_little_for_each_record() -> None:
    for key, value in ((b"k" * 1_000, None), (None, b"v" * 1_000), (b"k" * 500, b"v" * 500)):
        ends = _Ends([Record(number, key, value, 0) for number in range(100)])
        assert ends.next(0, all_of_it=False) == 7, "7 of 1,064 bytes in 8 KB"


@pytest.mark.parametrize(("over", "by_python"), [(0, [1]), (1, [11])])
def test_python_takes_the_rest_where_rows_have_more_than_twice_the_bytes_of_an_entry(
    over: int, by_python: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    records = _rows_amid_refused(10, 1, 10)
    seen = _Rounds(monkeypatch)
    driven = _driven(KernelMode.ON)
    driven.step(records[:_BEFORE])
    driven.step(records[_BEFORE:])
    size = seen.sizes[-2]
    assert size > 100
    assert size % 2 == 0
    monkeypatch.setattr(StepPace, "log_bytes", 1 << 20)
    driven = _driven(KernelMode.ON, RowLimits(entry_bytes=size // 2 - over))
    driven.step(records[:_BEFORE])
    del seen.by_python[:]
    driven.step(records[_BEFORE:])
    assert seen.by_python == by_python


@pytest.mark.parametrize("refused", [False, True])
def test_python_takes_all_where_records_are_to_be_passed_over(
    refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, driven = _rows_amid_refused(10), _driven(KernelMode.ON)
    driven.step(records[:_BEFORE])
    if refused:
        driven.processor.pass_over({InputPlace(Input.LOG, 7): "it is odd"})
    seen = _Rounds(monkeypatch)
    driven.step(records[_BEFORE:])
    assert bool(seen.given) is not refused
    assert (len(driven.rows) == 10) is not refused


# ---- what is left behind ----


@pytest.mark.parametrize("mode", [KernelMode.ON, KernelMode.CHECK])
@pytest.mark.parametrize("seed", [0, 1, 3, 5, 7, 8])
def test_steps_over_random_logs_are_those_of_python(seed: int, mode: KernelMode) -> None:
    print(f"seed {seed}")
    Lockstep(mode).run(log_history(seed, 120))


@pytest.mark.parametrize("mode", [KernelMode.ON, KernelMode.CHECK])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_steps_over_random_logs_while_feeds_miss_versions_are_those_of_python(
    seed: int, mode: KernelMode
) -> None:
    print(f"seed {seed}")
    GapLockstep(mode).run_seed(seed, 25)


#: Slips of a kernel, each with what a checked step says of it.
_SLIPS: Final[dict[str, Callable[[Followed], Followed]]] = {
    "range 1": lambda found: found._replace(
        ranges=[each._replace(high=each.high.next()) for each in found.ranges]
    ),
    "transaction": lambda found: found._replace(txns=[each._replace(refs=9) for each in found.txns]),
    "the log clock": lambda found: found._replace(clock=found.clock._replace(time_ms=7)),
    "the horizon": lambda found: found._replace(believed=found.believed + 1),
    "versions": lambda found: found._replace(places=found.places[:-1]),
    "rows": lambda found: found._replace(rows=found.rows._replace(highs={})),
}


def _few() -> Sequence[Record]:
    log = HandLog(1)
    log.describe(PLAIN)
    live = log.open_range(1, PLAIN.span)
    live.apply(PLAIN.put(1, 1, "v"), intent(1, 2), close=0.5)
    live.apply(PLAIN.put(3, 2, "w"), close=1)
    return log.partitions[0]


@pytest.mark.parametrize("slip", _SLIPS)
def test_a_checked_step_says_in_what_a_kernel_differs(slip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = log_message.read_followed
    driven, records = _driven(KernelMode.CHECK), _few()
    driven.step(records[:2])
    monkeypatch.setattr(partition_kernel, "read_followed", lambda *args: _SLIPS[slip](read(*args)))
    with pytest.raises(StateError, match=f"the kernel and Python differ in {slip}.*: .* by Python"):
        driven.step(records[2:])


def test_a_checked_step_counts_versions_that_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    read = log_message.read_followed
    driven, records = _driven(KernelMode.CHECK), _few()
    driven.step(records[:2])
    monkeypatch.setattr(partition_kernel, "read_followed", lambda *args: _SLIPS["versions"](read(*args)))
    monkeypatch.setattr(Instance, "versions", _trap)
    with pytest.raises(StateError, match="the kernel and Python differ in versions: 1 by the kernel, 2 by"):
        driven.step(records[2:])


def _trap(*_: object) -> Any:
    raise RuntimeError("wasm trap: unreachable")


def test_a_checked_step_compares_versions_as_they_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    read = log_message.read_versions
    monkeypatch.setattr(partition_kernel, "read_versions", lambda *args: read(*args)[::-1])
    driven, records = _driven(KernelMode.CHECK), _few()
    driven.step(records[:2])
    with pytest.raises(StateError, match="the kernel and Python differ in versions as told"):
        driven.step(records[2:])


# ---- what is left behind, case by case ----


_LATE: Final = replace(WITH_MARKERS, cursor=at(1))


def _misses(driven: Driven) -> None:
    """A feed begins at second 1, and misses what was written above it."""
    late = activation([PLAIN.descriptor], _LATE, start=at(1), feed_id="late")
    driven.control(Register(late.definition), late)


class _Three:
    """The same partition by a kernel, by Python, and by both, which are compared. All read one range."""

    def __init__(self) -> None:
        self.log = HandLog(1)
        self.log.describe(PLAIN)
        self.range = self.log.open_range(1, PLAIN.span)
        self.range.apply(PLAIN.put(2, 1, "two"), close=3)
        self.all = [_driven(mode) for mode in (KernelMode.OFF, KernelMode.ON, KernelMode.CHECK)]
        self.step()

    def step(self) -> StepResult:
        """Step what is new. All results are equal, and all states."""
        read = int(self.all[0].processor.next_offset or 0)
        python, *others = (driven.step(self.log.partitions[0][read:]) for driven in self.all)
        assert all(other == python for other in others)
        assert all(driven.state == self.all[0].state for driven in self.all)
        return python

    def beat(self, seconds: float, *, ahead: int = 0) -> None:
        self.log.wait_for(at(seconds))
        self.range.heartbeat(seconds - 1, self.range.index + ahead)


def test_when_a_range_was_heard_is_noted_while_it_has_gaps() -> None:
    three = _Three()
    for driven in three.all:
        _misses(driven)
    (scan,) = three.step().requests
    assert isinstance(scan, Scan)
    for seconds in (10, 14, 18):
        three.beat(seconds)
        three.step()
    (state,) = three.all[1].processor._ranges
    assert state.gaps
    assert state.heard_ms is not None
    assert state.heard_ms > 10_000
    three.range.scanned(scan)
    for seconds in (22, 26):
        three.beat(seconds)
    three.step()
    assert not state.gaps
    three.beat(30)
    three.step()


def _slipping(change: Callable[[MovedRange], MovedRange], monkeypatch: pytest.MonkeyPatch) -> None:
    read = log_message.read_followed

    def slipped(*args: Any) -> Followed:
        found = read(*args)
        return found._replace(ranges=[*map(change, found.ranges)])

    monkeypatch.setattr(partition_kernel, "read_followed", slipped)


def test_when_a_range_with_gaps_was_heard_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    three = _Three()
    driven = three.all[2]
    _misses(driven)
    driven.step(())
    three.beat(10)
    _slipping(lambda moved: moved._replace(heard_ms=moved.heard_ms + 1), monkeypatch)
    with pytest.raises(StateError, match="differ in range 1"):
        driven.step(three.log.partitions[0][-1:])


def test_a_heartbeat_that_waits_is_noted_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    three = _Three()
    three.beat(10, ahead=3)
    three.step()
    three.range.apply(PLAIN.put(11, 1, "one"))
    three.step()
    (state,) = three.all[1].processor._ranges
    assert state.pending_heartbeat is not None
    three.range.apply(PLAIN.put(11, 1, "two"))
    three.range.apply(PLAIN.put(11, 1, "three"))
    three.step()
    assert state.resolver.closed == at(9)
    three.beat(12, ahead=3)
    _slipping(
        lambda moved: moved._replace(pending=moved.pending and moved.pending._replace(closed=at(10))),
        monkeypatch,
    )
    with pytest.raises(StateError, match="differ in range 1"):
        three.all[2].step(three.log.partitions[0][-1:])


def test_a_time_that_was_believed_is_believed_though_the_clock_falls() -> None:
    three = _Three()
    day = 86_400

    def write(entry: Entry, stamped: float) -> StepResult:
        three.log.write_bytes(0, encode_key(RangeId(1)), encode_entry(entry), at(stamped).wall_ms)
        return three.step()

    def put(seconds: float, stamped: float) -> StepResult:
        three.range.index += 1
        return write(three.range.command(PLAIN.put(seconds, 1, "v")), stamped)

    beat = Heartbeat(RangeId(1), Generation(1), closed(2 * day), RaftIndex(three.range.index))
    write(beat, 2 * day)
    put(2 * day + 10, 2 * day + 10)
    for _ in range(5):  # the fifth record of an earlier time is heard
        write(beat._replace(covers=RaftIndex(three.range.index)), 10)
    assert three.all[0].processor._ranges.table.clock.time_ms == at(10).wall_ms
    assert len([*rows_of(put(3 * day - 10, 10))]) == 1


def test_versions_that_a_kernel_cannot_tell_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    three = _Three()
    for driven in three.all:
        _misses(driven)
    three.step()
    three.range.apply(PLAIN.put(5, 1, "five"), PLAIN.put(5, 2, "five"), close=3)
    with monkeypatch.context() as patched:
        patched.setattr(Instance, "versions", _trap)
        assert len([*rows_of(three.step())]) == 2


@pytest.mark.parametrize("write", [True, False])
def test_a_range_that_goes_on_is_lost_to_nobody_who_claims_it(write: bool) -> None:
    three = _Three()
    for driven in three.all:
        driven.processor._ranges.table.touch(RangeId(1)).claimed_since_ms = 1
    if write:
        three.range.apply(PLAIN.put(5, 1, "five"))
    else:
        three.range.heartbeat(4)
    three.step()
    for driven in three.all:
        (state,) = driven.processor._ranges
        assert state.claimed_since_ms is None


def test_transactions_that_are_not_in_memory_are_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    three = _Three()
    seen = _Rounds(monkeypatch)
    spilled = True
    monkeypatch.setattr(IntentQueue, "spilled", property(lambda _: spilled))
    three.range.apply(PLAIN.put(5, 1, "five"))
    three.step()
    assert sum(seen.by_python) == 2
    spilled = False
    three.range.apply(PLAIN.put(6, 1, "six"))
    three.step()
    assert sum(seen.by_python) == 3, "the third partition compares"
