"""Logs whose keys carry a tenant's prefix: the rows have none, and the checkpoints speak of the same keys."""

from __future__ import annotations

from typing import Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at
from tests.unit.processor.driving import Driven, active, timestamp_of
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.processor.reference import OutputPartition, ReferenceEngine
from tidegate.raftlog.entry import RangeId, SnapshotReason
from tidegate.raftlog.request import Scan
from tidegate.rows import TableCodec
from tidegate.rows.table_key import prefix_end
from tidegate.spans import EVERYTHING, Span

_TABLE: Final = HandTable.of(104, "plain", tenant=5)
_FEED: Final = activation([_TABLE.descriptor])
_BELOW, _ABOVE = _TABLE.split(100)


def _log(*spans: Span) -> HandLog:
    """A partition with a range for each span; the first and the last row of the table, closed up to 9."""
    log = HandLog(partitions=1)
    log.describe(_TABLE)
    for number, span in enumerate(spans, start=1):
        opened = log.open_range(number, span)
        rows = [_TABLE.put(seconds, key, "x") for seconds, key in ((3, 1), (4, 200))]
        opened.apply(*(row for row in rows if span.contains(row.key)), close=9)
    return log


_LAYOUTS: Final = {
    "a range for the table": (_TABLE.span,),
    "split": (_BELOW, _ABOVE),
    "the whole tenant": (Span(_TABLE.prefix, prefix_end(_TABLE.prefix)),),
    "to the end of everything": (_BELOW, Span(_ABOVE.start, EVERYTHING.end)),
}


@pytest.mark.parametrize("spans", _LAYOUTS.values(), ids=_LAYOUTS)
def test_a_tenants_log_gives_rows_and_checkpoints_of_their_keys(spans: tuple[Span, ...]) -> None:
    driven = active(_FEED)
    driven.run(_log(*spans).partitions[0])
    assert [(record.key, timestamp_of(record)) for record in driven.rows] == [
        (b"[1]", at(3)),
        (b"[200]", at(4)),
    ]
    assert {item.range_id: item.resolved for item in driven.checkpoints.values()} == {
        RangeId(number): at(9) for number in range(1, len(spans) + 1)
    }
    codec = TableCodec(_TABLE.descriptor)
    for number in (1, 200):
        key = codec.encode_key({"id": number})
        assert any(item.span.contains(key) for item in driven.checkpoints.values())


@pytest.mark.parametrize("spans", _LAYOUTS.values(), ids=_LAYOUTS)
def test_a_tenants_log_gives_markers(spans: tuple[Span, ...]) -> None:
    engine = ReferenceEngine(1, [_FEED])
    engine.step(0, _log(*spans).partitions[0])
    assert engine.high_water(FeedId("feed")) == at(9)
    decoder = JsonDecoder(_FEED.definition.options.envelope)
    for partition in range(_FEED.targets[0].partitions):
        last = engine.output[OutputPartition("plain", partition)][-1]
        decoded = decoder.decode(last.key, last.value)
        assert isinstance(decoded, MarkerRecord)
        assert decoded.resolved == at(9)


def test_checkpoints_follow_a_range_whose_span_changes() -> None:
    log = HandLog(partitions=1)
    log.describe(_TABLE)
    handle = log.open_range(1, _TABLE.span)
    handle.apply(_TABLE.put(3, 1, "x"), close=5)
    handle.generation, handle.span = 2, _BELOW
    handle.snapshot(close=5, reason=SnapshotReason.SPLIT)
    handle.heartbeat(7)
    driven = active(_FEED)
    driven.run(log.partitions[0], batch=1)
    checkpoint = driven.checkpoints[RangeId(1)]
    assert checkpoint.resolved == at(7)
    assert checkpoint.span == Span(*(key.removeprefix(_TABLE.prefix) for key in _BELOW))


def test_a_restored_tenants_range_gives_its_checkpoint() -> None:
    driven = active(_FEED)
    driven.run(_log(_TABLE.span).partitions[0])
    restored = Driven.restored(driven.state)
    assert [item.resolved for item in restored.processor.full_checkpoint().ranges] == [at(9)]


def test_unseen_rows_of_a_tenants_range_are_scanned_for_by_its_own_keys() -> None:
    log = HandLog(partitions=1)
    log.describe(_TABLE)
    log.open_range(1, _TABLE.span, close=8, high=9)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    (scan,) = [request for result in driven.results for request in result.requests]
    assert isinstance(scan, Scan)
    assert scan.span == _TABLE.span
