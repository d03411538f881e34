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
from tidegate.raftlog.request import Scan
from tidegate.spans import Span

_BEAT_S: Final = 20
_STANDS_S: Final = 900
_SCANS_WITH_STANDING: Final = 16


class _Ranges:
    """Live ranges of one table, each with a row of second 1 that a late feed misses.

    Range ``n + 1`` has row ``10 * n``. The source answers for those with ``n`` in ``answering`` alone. Its
    answers are read ``late_s`` after the requests.
    """

    def __init__(self, ranges: int, limit: int, answering: Iterable[int], late_s: int = 0) -> None:
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
        self._late = late_s // _BEAT_S
        self._asked: list[int] = []
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
            self._asked.append(len(self.requests))
            due = self._asked[-1 - self._late] if self._late < len(self._asked) else 0
            for scan in self.requests[self._answered : due]:
                number = scan.range_id - 1
                if number in self.answering:
                    self._ranges[number].scanned(scan, kv(1, 10 * number, "first"))
            self._answered = due
            self._run()

    @property
    def requests(self) -> list[Scan]:
        requests = (request for result in self.driven.results for request in result.requests)
        return [request for request in requests if isinstance(request, Scan)]

    @property
    def under_way(self) -> int:
        return sum(each.scans for each in self.driven.processor.status().with_gaps)

    def rows(self) -> set[bytes]:
        return {row.key or b"" for result in self.driven.results for row in rows_of(result, LATE)}


@pytest.mark.parametrize("silent", [1, 4, 9])
def test_ranges_that_answer_are_scanned_however_many_live_ones_do_not(silent: int) -> None:
    ranges = _Ranges(14, limit=2, answering=range(silent, 14))
    assert ranges.under_way == 2
    ranges.beats((silent // 2 + 1) * (_STANDS_S + 5 * _BEAT_S))
    assert ranges.rows() == {b"[%d]" % (10 * number) for number in range(silent, 14)}
    assert ranges.under_way == silent, "who does not answer is asked again"
    ranges.answering = {*range(14)}
    ranges.beats(10 * _BEAT_S)
    assert ranges.rows() == {b"[%d]" % (10 * number) for number in range(14)}
    assert not ranges.driven.processor.status().with_gaps


def test_a_scan_that_is_passed_over_gives_its_place_soon() -> None:
    """The other place goes on, so later requests are answered."""
    ranges = _Ranges(60, limit=2, answering=range(1, 60))
    ranges.beats(20 * _BEAT_S)
    assert len(ranges.rows()) > 30, "two scans at a time, after a minute"


def test_until_a_scan_stands_no_more_than_the_limit_are_under_way() -> None:
    ranges = _Ranges(8, limit=2, answering=())
    for _ in range(0, _STANDS_S - 2 * _BEAT_S, _BEAT_S):
        ranges.beats(_BEAT_S)
        assert ranges.under_way == 2
    ranges.beats(4 * _BEAT_S)
    assert ranges.under_way == 4


def test_scans_that_stand_have_a_bound() -> None:
    number = 2 * _SCANS_WITH_STANDING
    ranges = _Ranges(number, limit=1, answering=())
    ranges.beats((_SCANS_WITH_STANDING + 2) * (_STANDS_S + _BEAT_S))
    assert ranges.under_way == _SCANS_WITH_STANDING
    ranges.answering = {*range(number)}
    ranges.beats(number * 2 * _BEAT_S)
    assert not ranges.driven.processor.status().with_gaps
    assert ranges.rows() == {b"[%d]" % (10 * each) for each in range(number)}


def test_a_partition_that_is_far_behind_its_log_asks_for_no_more_scans_than_it_takes_answers() -> None:
    """Answers stand at the end of the log. A scan whose answer is on its way is no scan that stands."""
    late_s = 600
    ranges = _Ranges(12, limit=2, answering=range(12), late_s=late_s)
    for _ in range(0, 7 * late_s, _BEAT_S):
        ranges.beats(_BEAT_S)
        assert ranges.under_way <= 2
    assert ranges.rows() == {b"[%d]" % (10 * each) for each in range(12)}
