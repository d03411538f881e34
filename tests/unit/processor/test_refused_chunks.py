"""A piece of an answer that has rows which it cannot have: none of it counts, and it is asked for again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven, StoredState
from tests.unit.processor.late_feed import Late, kv, late_feed, live_row
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.moving.broken_range import Broken, row_of, scans_in
from tidegate.changefeed.definition.options import InitialScan
from tidegate.raftlog.entry import KeyValue, RangeId
from tidegate.raftlog.request import Scan
from tidegate.ranges.scan import SCAN_REPEAT_MS
from tidegate.spans import Span

_MIDDLE: Final = PLAIN.key(100)
_LOW, _HIGH = Span(PLAIN.span.start, _MIDDLE), Span(_MIDDLE, PLAIN.span.end)
#: A row that the lower half of a scan above second 6 up to 8 cannot have.
_FAULTS: Final[dict[str, tuple[KeyValue, str]]] = {
    "outside its span": (row_of(8, 100, "stray"), "outside its span"),
    "at what it begins above": (row_of(6, 2, "early"), "as was asked"),
    "behind its end": (row_of(9, 2, "late"), "as was asked"),
    "twice": (row_of(8, 1, "again"), "comes twice"),
}


@pytest.mark.parametrize("batch", [1, 99])
@pytest.mark.parametrize("fault", _FAULTS)
def test_a_range_that_heals_takes_nothing_of_it_and_asks_again_later(fault: str, batch: int) -> None:
    row, named = _FAULTS[fault]
    broken = Broken()
    scan = broken.heal()
    place = len(broken.log.partitions[0])
    broken.range.scanned(scan, row_of(8, 1, "missed"), row, span=_LOW, last=False)
    broken.range.scanned(scan, row_of(7, 100, "missed too"), span=_HIGH)
    broken.range.heartbeat(10)
    broken.run(batch)
    assert broken.times == [at(5)]
    assert scans_in(broken.driven) == [scan]
    incidents = [incident for result in broken.driven.results for incident in result.incidents]
    (refused,) = [incident for incident in incidents if "refused" in incident.cause]
    assert (refused.offset, refused.range_id) == (place, RangeId(1))
    assert f"request {scan.request_id}" in refused.cause
    assert row.key.hex() in refused.cause
    assert named in refused.cause
    assert broken.driven.processor.status().refused_chunks == 1
    broken.beat_at(10 + SCAN_REPEAT_MS / 1000 + 1)
    again = scans_in(broken.driven)[-1]
    assert again == scan._replace(request_id=again.request_id)
    broken.range.scanned(again, row_of(8, 1, "missed"), row_of(7, 100, "missed too"))
    broken.run(batch)
    assert broken.times == [at(5), at(8), at(7), at(10)]
    assert not broken.quarantined


def test_what_was_refused_is_counted_over_a_restart() -> None:
    broken = Broken()
    scan = broken.heal()
    broken.range.scanned(scan, row_of(8, 100, "stray"), span=_LOW, last=False)
    broken.run()
    stored: StoredState = broken.driven.state
    assert Driven.restored(stored).processor.status().refused_chunks == 1


@pytest.mark.parametrize("number", [1, 200])
def test_a_feed_that_catches_up_is_given_nothing_of_it_and_then_all(number: int) -> None:
    late = Late(late_feed(cursor=1))
    (scan,) = late.scans
    late.range.scanned(scan, kv(2, 1, "second"), kv(1, number, "passed already"))
    late.range.heartbeat(3)
    late.run()
    assert late.rows == []
    assert late.has_gaps
    assert late.scans == [scan]
    assert late.driven.processor.status().refused_chunks == 1
    late.log.wait_for(at(4 + SCAN_REPEAT_MS / 1000))
    late.range.heartbeat(4 + SCAN_REPEAT_MS / 1000)
    late.run()
    late.range.scanned(late.scans[-1], kv(2, 1, "second"), kv(2, 200, "other"))
    late.run()
    assert late.rows == [live_row(1, 2), live_row(200, 2)]
    assert not late.has_gaps


def test_two_versions_of_a_key_are_refused_where_the_newest_was_asked_for() -> None:
    late = Late(late_feed(scan=InitialScan.YES, start=2))
    (scan,) = late.scans
    assert not scan.all_versions
    late.range.scanned(scan, kv(1, 1, "first"), kv(2, 1, "second"), kv(2, 200, "other"))
    late.run()
    assert late.rows == []
    assert any("second version of its key" in cause for cause in late.driven.causes)


def _other_request(log: HandLog, plain: HandRange, scan: Scan) -> None:
    plain.scanned(scan._replace(request_id=scan.request_id + 2), row_of(8, 100, "stray"), span=_LOW)


def _covered_already(log: HandLog, plain: HandRange, scan: Scan) -> None:
    plain.scanned(scan, row_of(8, 1, "missed"), span=_LOW, last=False)
    plain.scanned(scan, row_of(8, 100, "stray"), span=_LOW, last=False)


@pytest.mark.parametrize("passes_over", [_other_request, _covered_already])
def test_what_is_passed_over_anyway_is_not_looked_into(
    passes_over: Callable[[HandLog, HandRange, Scan], None],
) -> None:
    broken = Broken()
    passes_over(broken.log, broken.range, broken.heal())
    broken.run()
    assert broken.driven.processor.status().refused_chunks == 0
