"""Scans of live ranges that nobody answers keep no other scan of their partition from beginning
(docs/protocols/catch-up.md)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import pytest

from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven, rows_of
from tests.unit.processor.late_feed import LATE, kv, late_feed
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.lifecycle.control import Register
from tidegate.processor.catchup.gap_scans import CatchUpLimits
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import RangeId
from tidegate.raftlog.request import Scan
from tidegate.spans import Span

_BEAT_S: Final = 10
_STANDS_S: Final = 60
_SCANS_WITH_STANDING: Final = 16


class _Ranges:
    """Live ranges of one table, each with a row of second 1 that a late feed misses.

    Range ``n + 1`` has row ``10 * n``. The source answers for those with ``n`` in ``answering`` alone.
    """

    def __init__(self, ranges: int, limit: int, answering: Iterable[int]) -> None:
        self.log = HandLog(partitions=1)
        self.log.describe(PLAIN)
        bounds = [PLAIN.span.start, *(PLAIN.key(10 * number) for number in range(1, ranges)), PLAIN.span.end]
        self._ranges = [
            self.log.open_range(number + 1, Span(*span)) for number, span in enumerate(pairwise(bounds))
        ]
        for number, each in enumerate(self._ranges):
            each.apply(PLAIN.put(1, 10 * number, "first"), close=2)
        config = ProcessorConfig(catch_up=CatchUpLimits(scans=limit))
        self.driven = Driven(PartitionProcessor(0, 1, config))
        self.answering = {*answering}
        self._second, self._read, self._answered = 2, 0, 0
        self._run()
        message = late_feed(cursor=0.5)
        self.driven.control(Register(message.definition), message)
        self._run()

    def _run(self) -> None:
        records = self.log.partitions[0]
        self.driven.run(records[self._read :])
        self._read = len(records)
        self.driven.step(())

    def beats(self, seconds: int) -> None:
        """Let each range say that so much time passes, and the source answer."""
        for _ in range(0, seconds, _BEAT_S):
            self._second += _BEAT_S
            self.log.wait_for(at(self._second))
            for each in self._ranges:
                each.heartbeat(self._second)
            requests = self.requests
            for scan in requests[self._answered :]:
                number = scan.range_id - 1
                if number in self.answering:
                    self._ranges[number].scanned(scan, kv(1, 10 * number, "first"))
            self._answered = len(requests)
            self._run()

    @property
    def requests(self) -> list[Scan]:
        requests = (request for result in self.driven.results for request in result.requests)
        return [request for request in requests if isinstance(request, Scan)]

    @property
    def under_way(self) -> int:
        return sum(lag.scans for lag in self.driven.processor.status().lagging)

    def rows(self) -> set[bytes]:
        return {row.key or b"" for result in self.driven.results for row in rows_of(result, LATE)}


@pytest.mark.parametrize("silent", [1, 4, 9])
def test_ranges_that_answer_are_scanned_however_many_live_ones_do_not(silent: int) -> None:
    ranges = _Ranges(14, limit=2, answering=range(silent, 14))
    assert ranges.under_way == 2
    ranges.beats((silent + 2) * (_STANDS_S + _BEAT_S))
    assert ranges.rows() == {b"[%d]" % (10 * number) for number in range(silent, 14)}
    assert ranges.under_way == silent, "who does not answer is asked again"
    ranges.answering = {*range(14)}
    ranges.beats(_STANDS_S)
    assert ranges.rows() == {b"[%d]" % (10 * number) for number in range(14)}
    assert not ranges.driven.processor.status().lagging


def test_until_a_scan_stands_no_more_than_the_limit_are_under_way() -> None:
    ranges = _Ranges(8, limit=2, answering=())
    for _ in range(0, _STANDS_S - _BEAT_S, _BEAT_S):
        ranges.beats(_BEAT_S)
        assert ranges.under_way == 2
    ranges.beats(2 * _BEAT_S)
    assert ranges.under_way == 4


def test_scans_that_stand_have_a_bound_and_each_range_has_its_turn() -> None:
    number = 3 * _SCANS_WITH_STANDING
    ranges = _Ranges(number, limit=1, answering=())
    most = 0
    for _ in range(number + 2):
        ranges.beats(_STANDS_S + _BEAT_S)
        most = max(most, ranges.under_way)
    assert most == _SCANS_WITH_STANDING
    assert {scan.range_id for scan in ranges.requests} == {RangeId(each + 1) for each in range(number)}
    ranges.answering = {*range(number)}
    ranges.beats(number * 2 * _BEAT_S)
    assert not ranges.driven.processor.status().lagging
    assert ranges.rows() == {b"[%d]" % (10 * each) for each in range(number)}
