"""Ranges that are over and never said so (docs/protocols/catch-up.md#silent): no feed waits for them for
ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven, rows_of
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Register
from tidegate.hlc import ZERO
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.table.silence import SILENT_MS
from tidegate.raftlog.entry import KeyValue, RangeId, Trigger
from tidegate.raftlog.request import Scan

_LATE: Final = FeedId("late")
_LOW, _HIGH = PLAIN.split(100)
_SILENT_S: Final = SILENT_MS // 1000
_BEAT_S: Final = 5


class _Late:
    """Ranges with the halves of a table and one of another; a feed that begins with a scan at second 3.

    The log partition that is read is the only one, or has all but the upper half (``apart``).
    """

    def __init__(self, *, apart: bool = False) -> None:
        self.log = HandLog(partitions=2 if apart else 1)
        self.log.describe(PLAIN, OTHER)
        self.low = self.log.open_range(1, _LOW)
        self.high = self.log.open_range(2, _HIGH)
        self.other = self.log.open_range(3, OTHER.span)
        self.low.apply(PLAIN.put(1, 1, "low"), close=2)
        self.high.apply(PLAIN.put(1, 200, "high"), close=2)
        self.other.heartbeat(2)
        self.driven = Driven(PartitionProcessor(1, 2) if apart else None)
        self._partition = int(apart)
        self.second = 3
        self._read = 0

    def begin(self) -> None:
        """Activate the feed, and let its scans be asked for."""
        self.run()
        options = replace(WITH_MARKERS, initial_scan=InitialScan.YES)
        message = activation([PLAIN.descriptor], options, start=at(3), feed_id=_LATE)
        self.driven.control(Register(message.definition), message)
        self.run()

    def run(self, batch: int = 50) -> None:
        """Read what was written since."""
        records = self.log.partitions[self._partition]
        self.driven.run(records[self._read :], batch)
        self._read = len(records)
        self.driven.step(())

    def beats(self, seconds: int, *ranges: HandRange, batch: int = 50) -> None:
        """Let only these ranges say that time passes, for so long."""
        for _ in range(0, seconds, _BEAT_S):
            self.second += _BEAT_S
            self.log.wait_for(at(self.second))
            for range_ in ranges:
                range_.heartbeat(self.second)
        self.run(batch)

    def restart(self) -> None:
        results = self.driven.results
        self.driven = Driven.restored(self.driven.state)
        self.driven.results = results
        self.run()

    def scan_of(self, range_id: int) -> Scan:
        """The last request for rows of a range."""
        requests = [request for result in self.driven.results for request in result.requests]
        return [each for each in requests if isinstance(each, Scan) and each.range_id == range_id][-1]

    @property
    def rows(self) -> list[bytes]:
        return [row.key or b"" for result in self.driven.results for row in rows_of(result, _LATE)]

    def waits(self) -> bool:
        """Whether the feed misses rows."""
        return bool(self.driven.processor.status().with_gaps)

    def left(self) -> list[RangeId]:
        """The ranges that are quarantined."""
        return [each.range_id for each in self.driven.processor.status().quarantined]

    def named(self) -> dict[RangeId, float]:
        """The ranges of the checkpoint that names the feed, and up to where they are complete; none while
        no checkpoint does."""
        checkpoint = self.driven.processor.full_checkpoint()
        if _LATE not in {feed.feed_id for feed in checkpoint.feeds}:
            return {}
        return {each.range_id: each.resolved.wall_ms for each in checkpoint.ranges}


def _row(number: int, text: str, seconds: float = 1) -> KeyValue:
    key, value = PLAIN.pair(number, text)
    return KeyValue(key, at(seconds), value)


def _merged_unheard() -> _Late:
    """The range with the lower half has taken over the upper one, and nothing of that was read."""
    late = _Late()
    late.low.index += 2
    late.low.generation, late.low.span = 2, PLAIN.span
    late.low.snapshot(close=2, high=1)
    late.begin()
    late.low.scanned(late.scan_of(1), _row(1, "low"), _row(200, "high"))
    return late


@pytest.mark.parametrize("step_s", [_BEAT_S, 100, 10_000], ids=lambda step_s: f"{step_s} s a batch")
def test_a_range_that_is_over_and_never_said_so_keeps_no_later_feed_waiting(step_s: int) -> None:
    late = _merged_unheard()
    for _ in range(0, _SILENT_S - 100, step_s):
        late.beats(min(step_s, _SILENT_S - 100), late.low, late.other)
    assert late.waits()
    assert late.named() == {}
    late.beats(200, late.low, late.other)
    assert not late.waits()
    assert late.left() == [2]
    assert late.named() == {RangeId(1): at(late.second).wall_ms}
    assert late.rows == [b"[1]", b"[200]"]
    assert "nothing of it was read" in late.driven.causes[-1]


def test_a_range_whose_last_record_is_a_trigger_keeps_no_later_feed_waiting() -> None:
    late = _Late()
    late.high.apply(close=2, trigger=Trigger.MERGE)
    late.low.index += 2
    late.low.generation, late.low.span = 2, PLAIN.span
    late.low.snapshot(close=2, high=1)
    late.begin()
    late.low.scanned(late.scan_of(1), _row(1, "low"), _row(200, "high"))
    late.beats(_SILENT_S - 100, late.low, late.other)
    assert late.waits()
    late.beats(200, late.low, late.other)
    assert late.left() == [2]
    assert late.named() == {RangeId(1): at(late.second).wall_ms}


def test_a_range_that_is_heard_is_waited_for_however_long_it_takes_to_answer() -> None:
    late = _Late()
    late.begin()
    late.low.scanned(late.scan_of(1), _row(1, "low"))
    late.beats(3 * _SILENT_S, late.low, late.high, late.other)
    assert late.waits()
    assert late.left() == []
    late.high.scanned(late.scan_of(2), _row(200, "high"))
    late.run()
    assert not late.waits()
    assert late.rows == [b"[1]", b"[200]"]


def test_a_range_that_was_left_and_comes_back_gives_the_feed_everything_before_a_marker() -> None:
    late = _Late()
    late.begin()
    late.low.scanned(late.scan_of(1), _row(1, "low"))
    late.beats(_SILENT_S + 100, late.low, late.other)
    assert late.left() == [2]
    assert set(late.named()) == {1}, "no checkpoint has the keys of the range that was left"
    late.high.heartbeat(late.second)
    late.run()
    assert set(late.named()) == {1}
    late.high.index += 1
    late.high.snapshot(close=late.second, high=500)
    late.run()
    answered: list[Scan] = []
    while (scan := late.scan_of(2)) not in answered:
        answered.append(scan)
        assert late.named() == {}
        history = (_row(200, "high"), _row(200, "missed", 500))
        wanted = [row for row in history if (scan.after or ZERO) < row.timestamp <= scan.upto]
        late.high.scanned(scan, *(wanted if scan.all_versions else wanted[-1:]))
        late.run()
    assert len(answered) > 1, "what the feed lacks is scanned for beside what the range does"
    late.beats(2 * _BEAT_S, late.low, late.high, late.other)
    assert not late.waits()
    assert set(late.named()) == {1, 2}
    texts = [row.value for result in late.driven.results for row in rows_of(result, _LATE)]
    assert [b"high" in (text or b"") for text in texts][-2:] == [True, False], "in order"


@pytest.mark.parametrize("batch", [50, 10_000])
def test_a_range_that_is_heard_while_it_waits_for_another_partition_is_not_left(batch: int) -> None:
    """None of its entries is applied, they stay in its backlog; and a step may read many minutes of them."""
    late = _Late(apart=True)
    late.begin()
    assert late.scan_of(1).span == _LOW
    late.low.merge(late.high, close=late.second)
    late.run()
    late.beats(3 * _SILENT_S, late.low, late.other, batch=batch)
    assert [each.range_id for each in late.driven.processor.status().parked] == [1]
    assert late.left() == []
    assert late.waits()


def test_where_nothing_is_read_no_range_is_left() -> None:
    late = _Late()
    late.begin()
    late.log.wait_for(at(10 * _SILENT_S))
    late.low.scanned(late.scan_of(1), _row(1, "low"))
    late.run()
    assert late.waits()
    assert late.left() == []


def test_a_silence_lasts_over_restarts() -> None:
    late = _merged_unheard()
    for _ in range(_SILENT_S // 50 - 2):
        late.beats(50, late.low, late.other)
        late.restart()
    assert late.left() == []
    late.beats(200, late.low, late.other)
    assert late.left() == [2]
    assert not late.waits()


def test_a_range_that_was_heard_before_a_restart_is_not_left_soon_after_it() -> None:
    late = _Late()
    late.begin()
    late.low.scanned(late.scan_of(1), _row(1, "low"))
    late.beats(3 * _SILENT_S, late.low, late.high, late.other)
    late.restart()
    late.beats(_SILENT_S - 100, late.low, late.other)
    assert late.left() == []
    assert late.waits()
