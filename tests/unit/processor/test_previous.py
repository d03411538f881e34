"""The row before, from the log to the record: asked for, not held, and read by its own version."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at
from tests.logs import Record
from tests.unit.processor.driving import Driven, active, rows_of
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.lifecycle.control import Failed
from tidegate.processor.batch import SOURCE_HEADER
from tidegate.raftlog.entry import WriteValue
from tidegate.rows import Column, Family, Json, parse_sql_type

_DIFF: Final = FeedOptions(diff=True, resolved_interval_ns=0)
_DEBEZIUM: Final = FeedOptions(envelope=Envelope.DEBEZIUM, resolved_interval_ns=0)
_WIDE: Final = HandTable(
    replace(
        PLAIN.descriptor,
        version=2,
        modified=at(5),
        columns=(*PLAIN.descriptor.columns, Column(3, "w", parse_sql_type("INT"))),
        families=(Family(0, "primary", (1, 2, 3)),),
    )
)


def _over(written: WriteValue, previous: WriteValue | None) -> WriteValue:
    """The write as a log that holds previous values has it."""
    return written._replace(prev_value=b"" if previous is None else previous.value)


def _life() -> tuple[Record, ...]:
    """A row is made, changed and deleted; another row is deleted that was never there."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    made, changed = PLAIN.put(1, 1, "a"), PLAIN.put(2, 1, "b")
    log.open_range(1, PLAIN.span).apply(
        _over(made, None),
        _over(changed, made),
        _over(PLAIN.delete(3, 1), changed),
        _over(PLAIN.delete(4, 2), None),
        close=4,
    )
    return log.partitions[0]


@pytest.mark.parametrize("batch", [1, 99])
def test_records_show_what_each_row_replaced(batch: int) -> None:
    driven = active(activation([PLAIN.descriptor], _DIFF))
    driven.run(_life(), batch)
    assert [record.value for record in driven.rows] == [
        b'{"after": {"id": 1, "v": "a"}, "before": null}',
        b'{"after": {"id": 1, "v": "b"}, "before": {"id": 1, "v": "a"}}',
        b'{"after": null, "before": {"id": 1, "v": "b"}}',
        b'{"after": null, "before": null}',
    ]


@pytest.mark.parametrize("batch", [1, 99])
def test_each_deletion_is_followed_by_its_tombstone_with_the_same_place_time_and_headers(batch: int) -> None:
    driven = active(activation([PLAIN.descriptor], _DEBEZIUM))
    driven.run(_life(), batch)
    has_value = [(record.key, record.value is not None) for record in driven.rows]
    one, two = b'{"id": 1}', b'{"id": 2}'
    assert has_value == [(one, True), (one, True), (one, True), (one, False), (two, True), (two, False)]
    for deletion, tombstone in (driven.rows[2:4], driven.rows[4:6]):
        assert tombstone == deletion._replace(value=None)


def test_a_feed_that_needs_previous_values_fails_by_name_where_the_log_does_not_hold_them() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    made = PLAIN.put(1, 1, "a")
    log.open_range(1, PLAIN.span).apply(_over(made, None), PLAIN.put(2, 1, "b"), close=2)
    driven = Driven()
    driven.control(
        activation([PLAIN.descriptor], _DIFF, feed_id="needing"),
        activation([PLAIN.descriptor], feed_id="plain"),
    )
    driven.run(log.partitions[0])
    (failed,) = [ack for result in driven.results for ack in result.acks if isinstance(ack, Failed)]
    assert failed.feed_id == "needing"
    for part in ("table plain", "envelope=wrapped with diff", "the log does not hold it", at(2).decimal()):
        assert part in failed.reason
    rows = {
        feed: [record.value for result in driven.results for record in rows_of(result, FeedId(feed))]
        for feed in ("needing", "plain")
    }
    assert rows["needing"] == [b'{"after": {"id": 1, "v": "a"}, "before": null}']
    assert len(rows["plain"]) == 2


@pytest.mark.parametrize("batch", [1, 99])
@pytest.mark.parametrize("needing", [_DIFF, _DEBEZIUM, FeedOptions(envelope=Envelope.ENRICHED)])
def test_a_previous_value_that_cannot_be_read_fails_only_the_feeds_that_need_it(
    needing: FeedOptions, batch: int
) -> None:
    """What a feed writes does not depend on which other feeds there are."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    made = PLAIN.put(1, 1, "a")
    garbled = PLAIN.put(2, 1, "b")._replace(prev_value=b"\x00\x00\x00\x00\x63odd")
    log.open_range(1, PLAIN.span).apply(
        _over(made, None), garbled, _over(PLAIN.put(3, 1, "c"), garbled), close=3
    )
    alone = active(activation([PLAIN.descriptor], feed_id="plain"))
    alone.run(log.partitions[0], batch)
    assert len(alone.rows) == 3
    beside = Driven()
    beside.control(
        activation([PLAIN.descriptor], replace(needing, topic_prefix="d-"), feed_id="needing"),
        activation([PLAIN.descriptor], feed_id="plain"),
    )
    beside.run(log.partitions[0], batch)
    (failed,) = [ack for result in beside.results for ack in result.acks if isinstance(ack, Failed)]
    assert failed.feed_id == "needing"
    for part in ("table plain", "it cannot be read (table plain, key ", at(2).decimal()):
        assert part in failed.reason
    plain, beside_it = (
        [record for result in each.results for record in rows_of(result, FeedId("plain"))]
        for each in (alone, beside)
    )
    assert beside_it == plain
    assert len([record for result in beside.results for record in rows_of(result, FeedId("needing"))]) == 1


def test_the_row_before_an_added_column_is_shown_with_the_columns_that_its_successor_has() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    rows = log.open_range(1, PLAIN.span)
    made = PLAIN.put(3, 1, "a")
    rows.apply(_over(made, None))
    log.describe(_WIDE)
    rows.apply(_over(_WIDE.put(6, 1, "a", 7), made), close=6)
    driven = active(activation([PLAIN.descriptor], _DIFF))
    driven.run(log.partitions[0])
    assert driven.causes == []
    assert driven.rows[-1].value == (
        b'{"after": {"id": 1, "v": "a", "w": 7}, "before": {"id": 1, "v": "a", "w": null}}'
    )


def test_a_columns_headers_stand_beside_the_provenance() -> None:
    traced = HandTable.of(106, "traced", "id INT, h JSONB")
    log = HandLog(partitions=1)
    log.describe(traced)
    log.open_range(1, traced.span).apply(
        traced.put(1, 1, Json({"trace": "abc"})), traced.put(2, 2, None), traced.delete(3, 1), close=3
    )
    options = FeedOptions(headers_json_column_name="h", resolved_interval_ns=0)
    driven = active(activation([traced.descriptor], options))
    driven.run(log.partitions[0])
    lasting = [[pair for pair in record.headers if pair[0] != SOURCE_HEADER] for record in driven.rows]
    assert lasting == [[("trace", b"abc")], [], []]
    assert [record.value for record in driven.rows] == [
        b'{"after": {"id": 1}}',
        b'{"after": {"id": 2}}',
        b'{"after": null}',
    ]


@pytest.mark.parametrize("written_as", [Format.JSON, Format.AVRO])
def test_the_headers_of_a_feed_are_on_every_row_and_tombstone(written_as: Format) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    made = PLAIN.put(3, 1, "a")
    log.open_range(1, PLAIN.span).apply(_over(made, None), _over(PLAIN.delete(4, 1), made), close=5)
    options = FeedOptions(
        format=written_as, envelope=Envelope.DEBEZIUM, extra_headers='{"k": "v"}', resolved_interval_ns=0
    )
    driven = active(activation([PLAIN.descriptor], options))
    driven.run(log.partitions[0])
    assert driven.causes == []
    unframed = [row for result in driven.results for rows in result.unframed.values() for row in rows]
    headers = [record.headers for record in driven.rows] + [record.headers for record in unframed]
    assert [[name for name, _ in each] for each in headers] == [[SOURCE_HEADER, "k"]] * 3
    assert [each[1] for each in headers] == [("k", b"v")] * 3


@pytest.mark.parametrize(
    "options",
    [
        FeedOptions(key_column="nope", unordered=True),
        FeedOptions(headers_json_column_name="nope", resolved_interval_ns=0),
    ],
    ids=["key_column", "headers_json_column_name"],
)
def test_a_column_that_the_table_lacks_fails_the_feed_by_name(options: FeedOptions) -> None:
    driven = active(activation([PLAIN.descriptor], options))
    driven.run(_life())
    (failed,) = [ack for result in driven.results for ack in result.acks if isinstance(ack, Failed)]
    assert "required column nope not present on table plain" in failed.reason
    assert "its columns are id, v" in failed.reason
