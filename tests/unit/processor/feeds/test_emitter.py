"""Rows that can be read but not written: the feed that would write them fails, at that row."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from decimal import Decimal
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandTable, at
from tests.unit.processor.driving import Driven, rows_of
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.lifecycle.control import Failed
from tidegate.changefeed.text import json_text
from tidegate.errors import FeedError, RowError
from tidegate.hlc import ZERO
from tidegate.processor.batch import OutputRecord
from tidegate.processor.feeds import emitter as emitter_module
from tidegate.processor.feeds.emitter import Destination, Emission, Emitter
from tidegate.processor.feeds.version_rows import Decoded, TableRowError
from tidegate.processor.written_records import row_size
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


# ---- how many bytes the rows of one entry may have ----


@dataclass(frozen=True)
class _Counted:
    """A record that is counted in: the range and the index of its entry, and its bytes."""

    range_id: int
    index: int
    size: int


def _too_many_at(counted: Sequence[_Counted], most: int, *, singly: bool) -> tuple[int | None, int]:
    """The first record at which an entry has too many bytes, if any; and the bytes up to it."""
    of_entry = total = 0
    before: tuple[int, int] | None = None
    for place, (range_id, index, size) in enumerate(map(astuple, counted)):
        goes_on = before == (range_id, index) and index != 0 and not singly
        of_entry = of_entry + size if goes_on else size
        before, total = (range_id, index), total + size
        if of_entry > most:
            return place, total
    return None, total


def _count(into: Emission, counted: Sequence[_Counted]) -> tuple[int | None, str]:
    for place, (range_id, index, size) in enumerate(map(astuple, counted)):
        version = _version(1)._replace(range_id=RangeId(range_id), raft_index=RaftIndex(index))
        try:
            into.count(version, size)
        except RowError as error:
            return place, str(error)
    return None, ""


_COUNTED: Final = st.builds(_Counted, st.sampled_from((7, 8)), st.integers(0, 2), st.integers(0, 6))


@given(st.lists(_COUNTED, max_size=8), st.integers(4, 12), st.booleans())
@example([_Counted(7, 1, 5), _Counted(7, 1, 5), _Counted(7, 2, 10)], 10, False)
@example([_Counted(7, 1, 5), _Counted(7, 1, 5), _Counted(7, 1, 1)], 10, False)
@example([_Counted(7, 1, 5), _Counted(8, 1, 5), _Counted(8, 1, 6)], 10, False)
@example([_Counted(7, 1, 9), _Counted(8, 1, 9), _Counted(7, 2, 9)], 10, False)
@example([_Counted(7, 0, 9), _Counted(7, 0, 9)], 10, False)
@example([_Counted(7, 1, 9), _Counted(7, 1, 9), _Counted(7, 1, 11)], 10, True)
def test_the_rows_of_one_entry_are_bounded_together_and_those_of_no_entry_each(
    counted: list[_Counted], most: int, singly: bool
) -> None:
    into = Emission([], [], most, singly)
    place, error = _count(into, counted)
    assert (place, into.size) == _too_many_at(counted, most, singly=singly)
    assert (f"one entry of the log makes more than {most} bytes" in error) == (place is not None)


# ---- which rows are a feed's ----

_PLAIN: Final = HandTable.of(104, "plain")
_OTHER: Final = HandTable.of(105, "other")


_TOMBSTONES: Final = (
    FeedOptions(envelope=Envelope.DEBEZIUM, diff=True),
    FeedOptions(envelope=Envelope.DEBEZIUM, diff=True, format=Format.AVRO),
)


def _row(number: int, of: HandTable = _PLAIN) -> Row:
    return Row(of.descriptor, (number,), (number, "v"))


def _versions_and_rows() -> tuple[list[Version], list[Decoded]]:
    """Around a start at second 3: one at it, one that is omitted, and some of another table or of none."""
    versions = [_version(index) for index in range(1, 10)]
    versions[4] = versions[4]._replace(omit_in_rangefeeds=True)
    of_other = TableRowError(105, versions[7], RowError("it is damaged"))
    rows = [*map(_row, range(1, 6)), _row(6, _OTHER), None, of_other, _row(9)]
    return versions, rows


@pytest.mark.parametrize(("scanned", "emitted"), [(False, [4, 9]), (True, [1, 2, 3, 4, 5, 9])])
def test_a_feed_is_given_rows_of_its_tables_above_its_start_or_all_that_a_scan_found(
    scanned: bool, emitted: list[int]
) -> None:
    into = Emission([], [])
    emitter = Emitter(WITH_MARKERS, at(3), {104: Destination("plain", 3)})
    assert emitter.emit(*_versions_and_rows(), into, scanned=scanned) is None
    assert [record.key for record in into.records] == [b"[%d]" % number for number in emitted]
    size = sum(row_size(record.key, record.value, record.headers) for record in into.records)
    assert into.size == size


def test_a_feed_stops_at_the_first_row_of_its_tables_that_cannot_be_read() -> None:
    versions, rows = _versions_and_rows()
    into = Emission([], [])
    both = {104: Destination("plain", 3), 105: Destination("other", 3)}
    emitter = Emitter(WITH_MARKERS, at(3), both)
    assert emitter.emit(versions, rows, into) is rows[7]
    assert [record.key for record in into.records] == [b"[4]", b"[6]"]
    assert Emitter(WITH_MARKERS, at(8), both).emit(versions, rows, Emission([], [])) is None


@pytest.mark.parametrize("options", _TOMBSTONES, ids=["json", "avro"])
@pytest.mark.parametrize("index", [0, 11], ids=["scanned", "of an entry"])
def test_the_tombstone_behind_a_deletion_has_its_key_and_headers_and_counts(
    options: FeedOptions, index: int
) -> None:
    into = Emission([], [])
    version = _version(5)._replace(raft_index=RaftIndex(index), ordinal=2)
    gone = Row(_PLAIN.descriptor, (1,), None, previous=(1, "old"))
    emitter = Emitter(options, ZERO, {104: Destination("plain", 3)})
    assert emitter.emit([version], [gone], into) is None
    first, tombstone = into.unframed if options.format is Format.AVRO else into.records
    assert first.value is not None
    assert tombstone == first._replace(value=None)
    headers = [("tidegate-source", b"7/11/2")] if index else []
    assert (first.headers, first.timestamp_ms) == (headers, at(5).wall_ms)
    assert into.size == sum(row_size(each.key, each.value, each.headers) for each in (first, tombstone))
    into.entry_bytes = into.size - 1
    assert (emitter.emit([version], [gone], Emission([], [], into.entry_bytes)) is None) == (index == 0)


@pytest.mark.parametrize("options", [WITH_MARKERS, FeedOptions(format=Format.AVRO)], ids=["json", "avro"])
def test_a_row_whose_value_has_more_bytes_than_a_row_may_have_fails_its_feed(
    options: FeedOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Emitter(options, ZERO, {104: Destination("plain", 3)})
    emitted = Emission([], [])
    assert feed.emit([_version(1)], [_row(1)], emitted) is None
    (record,) = emitted.records or emitted.unframed
    assert record.value is not None
    monkeypatch.setattr(emitter_module, "ROW_BYTES_MAX", len(record.value))
    assert feed.emit([_version(1)], [_row(1)], Emission([], [])) is None
    monkeypatch.setattr(emitter_module, "ROW_BYTES_MAX", len(record.value) - 1)
    error = feed.emit([_version(1)], [_row(1)], Emission([], []))
    assert "the row is too large: its value becomes more than" in str(error)
