"""Rows that can be read but not written: the feed that would write them fails, at that row."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandTable, at
from tests.unit.processor.driving import Driven, rows_of
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.lifecycle.control import Failed
from tidegate.changefeed.text import json_text
from tidegate.errors import FeedError
from tidegate.hlc import ZERO
from tidegate.processor.batch import OutputRecord
from tidegate.processor.feeds.emitter import Destination, Emission, Emitter
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.version import Version
from tidegate.rows import Json, JsonValue, Kind, Row

_DOCS: Final = HandTable.of(104, "docs", "id INT, doc JSONB")
_KEYS: Final = FeedOptions(envelope=Envelope.KEY_ONLY)


def _too_deep() -> Json:
    value: JsonValue = None
    for _ in range(sys.getrecursionlimit()):
        value = [value]
    return Json(value)


def _version(index: int) -> Version:
    return Version(b"", at(index), b"", None, False, RangeId(7), RaftIndex(index), 0)


def _emit(options: FeedOptions) -> tuple[list[OutputRecord], FeedError | None]:
    """Three rows, the second of which is nested too deeply."""
    rows = [Row(_DOCS.descriptor, (number,), (number, Json(None))) for number in (1, 2, 3)]
    rows[1] = Row(_DOCS.descriptor, (2,), (2, _too_deep()))
    into: list[OutputRecord] = []
    emitter = Emitter(options, ZERO, {104: Destination("docs", 3)})
    return into, emitter.emit([_version(index) for index in (1, 2, 3)], rows, Emission(into, []))


def test_a_row_that_cannot_be_encoded_is_the_feeds_failure_and_rows_before_it_stand() -> None:
    records, error = _emit(WITH_MARKERS)
    assert [record.key for record in records] == [b"[1]"]
    for part in ("table docs", "nested too deeply", "range 7, raft index 2", at(2).decimal()):
        assert part in str(error)


def test_a_feed_that_does_not_write_what_cannot_be_encoded_goes_on() -> None:
    records, error = _emit(_KEYS)
    assert error is None
    assert [record.key for record in records] == [b"[1]", b"[2]", b"[3]"]


@pytest.mark.parametrize(
    "options",
    [
        FeedOptions(format=Format.AVRO),
        FeedOptions(format=Format.AVRO, envelope=Envelope.UPSERT),
        FeedOptions(envelope=Envelope.UPSERT, connect_schema=True),
        FeedOptions(diff=True),
    ],
    ids=["avro", "avro-upsert", "json-upsert", "diff"],
)
def test_the_error_of_a_row_names_its_table_once(options: FeedOptions) -> None:
    prices = HandTable.of(104, "prices", "id INT, price DECIMAL(4,1)").descriptor
    row = Row(prices, (1,), (1, Decimal("1.25")))
    emitter = Emitter(options, ZERO, {104: Destination("prices", 1)})
    error = emitter.emit([_version(1)], [row], Emission([], []))
    assert str(error).count("table prices") == 1
    assert options.diff or "table prices, column price" in str(error)


@pytest.mark.python_step
@pytest.mark.parametrize("batch", [1, 99])
def test_a_row_that_cannot_be_encoded_fails_its_feed_by_name_and_other_feeds_go_on(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What can be read can be printed: printing takes less of the stack. So the one document is made deeper.
    deep = _too_deep()
    monkeypatch.setitem(
        json_text._BY_KIND,
        Kind.JSONB,
        lambda datum: json_text.json_value(deep.value if datum.value == "deep" else datum.value),
    )
    log = HandLog(partitions=1)
    log.describe(_DOCS)
    handle = log.open_range(1, _DOCS.span)
    for second, document in enumerate(("plain", "deep", "later"), start=1):
        handle.apply(_DOCS.put(second, second, Json(document)), close=second)
    driven = Driven()
    driven.control(
        activation([_DOCS.descriptor], feed_id="whole"), activation([_DOCS.descriptor], _KEYS, feed_id="keys")
    )
    driven.run(log.partitions[0], batch)
    (failed,) = [ack for result in driven.results for ack in result.acks if isinstance(ack, Failed)]
    assert failed.feed_id == "whole"
    assert "nested too deeply" in failed.reason
    assert any("feed whole failed" in cause for cause in driven.causes)
    emitted = {
        feed: [record.key for result in driven.results for record in rows_of(result, FeedId(feed))]
        for feed in ("whole", "keys")
    }
    assert emitted == {"whole": [b"[1]"], "keys": [b"[1]", b"[2]", b"[3]"]}
    assert [feed.feed_id for feed in driven.processor.full_checkpoint().feeds] == ["keys"]
