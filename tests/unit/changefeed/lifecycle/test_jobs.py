"""Job records keep their bytes, and fold into one view of every feed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import DEFINITION, FEED, TARGET, job_records
from tidegate.changefeed.definition.feed import FIRST_EPOCH, Engine, FeedEpoch, FeedId, FeedState
from tidegate.changefeed.definition.stored_json import STORED_VERSION
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    Part,
    ProgressRecord,
    SpansRecord,
    StateRecord,
    TakeoverRecord,
    read_job_record,
    record_key,
)
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.changefeed.lifecycle.output_topic import OutputTopic, TopicOrigin
from tidegate.errors import ForeignRecord, StateError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.spans import Span

STATE = StateRecord(FEED, FIRST_EPOCH, FeedState.RUNNING, Timestamp(7, 1), (TARGET,), {1: 5, 0: 3})
PROGRESS = ProgressRecord(FEED, FIRST_EPOCH, ResolvedTimestamp(Timestamp(9)), {0: 4, 1: 6})
SPANS = SpansRecord(FEED, FIRST_EPOCH, ((Span(b"\xf0", b"\xf0\x89"), ResolvedTimestamp(Timestamp(12))),))
TOPICS = (
    OutputTopic("4L6g3nShT-eMCtK--X86sw", TopicOrigin.CREATED),
    OutputTopic("", TopicOrigin.ANNOUNCED),
)

GOLDEN = [
    (
        DefinitionRecord(DEFINITION),
        b"0001-orders/definition",
        b'{"v":5,"kind":"definition","definition":{"id":"0001-orders","epoch":1,'
        b'"description":"CREATE CHANGEFEED FOR TABLE orders INTO '
        b"'kafka://k:9092?sasl_password=redacted'\","
        b'"sink_uri":"kafka://k:9092?sasl_password=hush","tables":[["defaultdb","public","orders"]],'
        b'"options":{"format":"json","envelope":"wrapped","updated":true,"mvcc_timestamp":false,'
        b'"resolved_interval_ns":10000000000,"topic_prefix":"","diff":false,"key_in_value":false,'
        b'"topic_in_value":false,"full_table_name":false,"key_column":"","unordered":false,'
        b'"headers_json_column_name":"","connect_schema":false,"resolved_topic":"","avro_schema_prefix":"",'
        b'"confluent_schema_registry":"","virtual_columns":"omitted",'
        b'"encode_json_value_null_as_object":false,"extra_headers":"",'
        b'"enriched_properties":"","initial_scan":"no","cursor":null,"on_oversize":"fail","max_row_bytes":0,"existing_topics":"refuse"},"created_ns":1700000000000000000,"engine":"workers"}}',
    ),
    (
        DropRecord(FEED, 12),
        b"0001-orders/drop",
        b'{"v":5,"kind":"drop","feed_id":"0001-orders","requested_ns":12}',
    ),
    (
        replace(STATE, start=None, targets=(), positions={}, sink_cluster="q1Sh-9_ISia_zwGINzRvyQ"),
        b"0001-orders/state",
        b'{"v":5,"kind":"state","feed_id":"0001-orders","epoch":1,"state":"running","start":null,'
        b'"targets":[],"positions":{},"error":"","sink_cluster":"q1Sh-9_ISia_zwGINzRvyQ"}',
    ),
    (
        STATE,
        b"0001-orders/state",
        b'{"v":5,"kind":"state","feed_id":"0001-orders","epoch":1,"state":"running","start":"7.0000000001",'
        b'"targets":[{"table":["defaultdb","public","orders"],"table_id":104,"topic":"orders",'
        b'"partitions":3,"spans":[["f0","f1"]]}],"positions":{"0":3,"1":5},"error":""}',
    ),
    (
        replace(STATE, start=None, targets=(), positions={}, topics=TOPICS),
        b"0001-orders/state",
        b'{"v":5,"kind":"state","feed_id":"0001-orders","epoch":1,"state":"running","start":null,'
        b'"targets":[],"positions":{},"error":"",'
        b'"topics":[["4L6g3nShT-eMCtK--X86sw","created"],["","announced"]]}',
    ),
    (
        TakeoverRecord(FEED, FeedEpoch(3), topics=TOPICS[:1]),
        b"0001-orders/takeover/3",
        b'{"v":5,"kind":"takeover","feed_id":"0001-orders","epoch":3,"start":null,"high_water":null,'
        b'"targets":[],"sink_cluster":"","topics":[["4L6g3nShT-eMCtK--X86sw","created"]]}',
    ),
    (
        PROGRESS,
        b"0001-orders/progress",
        b'{"v":5,"kind":"progress","feed_id":"0001-orders","epoch":1,"high_water":"9.0000000000",'
        b'"positions":{"0":4,"1":6}}',
    ),
    (
        SPANS,
        b"0001-orders/spans",
        b'{"v":5,"kind":"spans","feed_id":"0001-orders","epoch":1,"spans":[["f0","f089","12.0000000000"]]}',
    ),
    (
        TakeoverRecord(FEED, FeedEpoch(3), Timestamp(7), ResolvedTimestamp(Timestamp(9)), (TARGET,), "q1Sh"),
        b"0001-orders/takeover/3",
        b'{"v":5,"kind":"takeover","feed_id":"0001-orders","epoch":3,"start":"7.0000000000",'
        b'"high_water":"9.0000000000","targets":[{"table":["defaultdb","public","orders"],"table_id":104,'
        b'"topic":"orders","partitions":3,"spans":[["f0","f1"]]}],"sink_cluster":"q1Sh"}',
    ),
    (
        replace(PROGRESS, epoch=FeedEpoch(12)),
        b"0001-orders/progress/12",
        b'{"v":5,"kind":"progress","feed_id":"0001-orders","epoch":12,"high_water":"9.0000000000",'
        b'"positions":{"0":4,"1":6}}',
    ),
]
#: The same as versions 3 and 2 wrote what has changed since, and version 1 all of it.
OLD_GOLDEN = [
    (
        DefinitionRecord(DEFINITION),
        b"0001-orders/definition",
        b'{"v":3,"kind":"definition","definition":{"id":"0001-orders","epoch":1,'
        b'"description":"CREATE CHANGEFEED FOR TABLE orders INTO '
        b"'kafka://k:9092?sasl_password=redacted'\","
        b'"sink_uri":"kafka://k:9092?sasl_password=hush","tables":[["defaultdb","public","orders"]],'
        b'"options":{"format":"json","envelope":"wrapped","updated":true,"mvcc_timestamp":false,'
        b'"resolved_interval_ns":10000000000,"topic_prefix":"","diff":false,"key_in_value":false,'
        b'"topic_in_value":false,"full_table_name":false,"key_column":"","unordered":false,'
        b'"headers_json_column_name":"","connect_schema":false,"resolved_topic":"","avro_schema_prefix":"",'
        b'"confluent_schema_registry":"","virtual_columns":"omitted",'
        b'"encode_json_value_null_as_object":false,"extra_headers":"",'
        b'"enriched_properties":"","initial_scan":"no","cursor":null,"on_oversize":"fail","max_row_bytes":0},"created_ns":1700000000000000000}}',
    ),
    (
        DefinitionRecord(DEFINITION),
        b"0001-orders/definition",
        b'{"v":2,"kind":"definition","definition":{"id":"0001-orders","epoch":1,'
        b'"description":"CREATE CHANGEFEED FOR TABLE orders INTO '
        b"'kafka://k:9092?sasl_password=redacted'\","
        b'"sink_uri":"kafka://k:9092?sasl_password=hush","tables":[["defaultdb","public","orders"]],'
        b'"options":{"format":"json","envelope":"wrapped","updated":true,"mvcc_timestamp":false,'
        b'"resolved_interval_ns":10000000000,"topic_prefix":"","diff":false,"key_in_value":false,'
        b'"topic_in_value":false,"full_table_name":false,"key_column":"","unordered":false,'
        b'"headers_json_column_name":"","connect_schema":false,"resolved_topic":"","avro_schema_prefix":"",'
        b'"confluent_schema_registry":"","virtual_columns":"omitted",'
        b'"encode_json_value_null_as_object":false,"extra_headers":"",'
        b'"enriched_properties":""},"created_ns":1700000000000000000}}',
    ),
    (
        DefinitionRecord(DEFINITION),
        b"0001-orders/definition",
        b'{"v":1,"kind":"definition","definition":{"id":"0001-orders","epoch":1,'
        b'"description":"CREATE CHANGEFEED FOR TABLE orders INTO '
        b"'kafka://k:9092?sasl_password=redacted'\","
        b'"sink_uri":"kafka://k:9092?sasl_password=hush","tables":[["defaultdb","public","orders"]],'
        b'"options":{"format":"json","envelope":"wrapped","updated":true,"mvcc_timestamp":false,'
        b'"resolved_interval_ns":10000000000,"topic_prefix":""},"created_ns":1700000000000000000}}',
    ),
    (
        DropRecord(FEED, 12),
        b"0001-orders/drop",
        b'{"v":1,"kind":"drop","feed_id":"0001-orders","requested_ns":12}',
    ),
    (
        STATE,
        b"0001-orders/state",
        b'{"v":1,"kind":"state","feed_id":"0001-orders","epoch":1,"state":"running","start":"7.0000000001",'
        b'"targets":[{"table":["defaultdb","public","orders"],"table_id":104,"topic":"orders",'
        b'"partitions":3,"spans":[["f0","f1"]]}],"positions":{"0":3,"1":5},"error":""}',
    ),
    (
        PROGRESS,
        b"0001-orders/progress",
        b'{"v":1,"kind":"progress","feed_id":"0001-orders","epoch":1,"high_water":"9.0000000000",'
        b'"positions":{"0":4,"1":6}}',
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_stored_bytes_do_not_change(record: JobRecord, key: bytes, value: bytes) -> None:
    assert record.key == key
    assert record.to_bytes() == value


@pytest.mark.parametrize(("record", "key", "value"), OLD_GOLDEN)
def test_bytes_of_older_versions_are_read_as_what_they_meant(
    record: JobRecord, key: bytes, value: bytes
) -> None:
    assert read_job_record(key, value) == record


@given(job_records)
def test_records_read_back(record: JobRecord) -> None:
    assert read_job_record(record.key, record.to_bytes()) == record


def test_a_newer_record_is_refused_with_what_to_do() -> None:
    newer = json.loads(PROGRESS.to_bytes()) | {"v": STORED_VERSION + 1}
    with pytest.raises(StateError, match=r"written by a newer tidegate .*upgrade this process"):
        read_job_record(PROGRESS.key, json.dumps(newer).encode())


@pytest.mark.parametrize(
    "value",
    [b"", b"\xff", b"[]", b"{}", b'{"v":1}', b'{"v":1,"kind":"state"}', b'{"v":"x"}', STATE.to_bytes()],
)
def test_a_value_that_is_no_record_of_its_key_is_refused(value: bytes) -> None:
    with pytest.raises(ForeignRecord, match="0001-orders/progress cannot be read"):
        read_job_record(PROGRESS.key, value)


@pytest.mark.parametrize(("record", "part"), [(PROGRESS, Part.PROGRESS), (STATE, Part.STATE)])
def test_a_record_of_another_epoch_than_that_of_its_key_is_refused(
    record: ProgressRecord | StateRecord, part: Part
) -> None:
    key = record_key(record.feed_id, part, FeedEpoch(record.epoch + 1))
    with pytest.raises(ForeignRecord, match=f"of epoch {record.epoch + 1} is about epoch {record.epoch}"):
        read_job_record(key, record.to_bytes())


@pytest.mark.parametrize("key", [b"", b"/state", b"0001", b"0001/wishes", b"\xff/state/x", b"1/state/0"])
def test_a_key_without_a_known_part_is_refused(key: bytes) -> None:
    with pytest.raises(ForeignRecord, match="definition, drop, state, progress, spans, takeover"):
        JobsView().apply(key, b"{}")


def folded(*records: JobRecord) -> JobsView:
    view = JobsView()
    for record in records:
        view.apply(record.key, record.to_bytes())
    return view


def test_a_feed_is_pending_until_its_state_says_otherwise() -> None:
    assert folded(DefinitionRecord(DEFINITION))[FEED].status is FeedState.PENDING
    assert folded(DefinitionRecord(DEFINITION), STATE)[FEED].status is FeedState.RUNNING


def test_a_drop_shows_at_once_and_is_not_lost_to_a_later_state() -> None:
    assert folded(DefinitionRecord(DEFINITION), DropRecord(FEED, 1), STATE)[FEED].status is FeedState.DROPPED


def test_state_and_progress_of_another_epoch_do_not_count() -> None:
    old_state = StateRecord(FEED, FeedEpoch(9), FeedState.RUNNING)
    old_progress = ProgressRecord(FEED, FeedEpoch(9), ResolvedTimestamp(Timestamp(5)), {})
    view = folded(DefinitionRecord(DEFINITION), old_state, old_progress)[FEED]
    assert (view.status, view.current_state, view.high_water) == (FeedState.PENDING, None, None)
    assert folded(DefinitionRecord(DEFINITION), PROGRESS)[FEED].high_water == Timestamp(9)


def test_what_a_former_engine_still_writes_takes_nothing_from_the_next_epoch() -> None:
    moved = DefinitionRecord(replace(DEFINITION, epoch=FeedEpoch(2), engine=Engine.SPARK))
    state, progress = replace(STATE, epoch=FeedEpoch(2)), replace(PROGRESS, epoch=FeedEpoch(2))
    for former in (STATE, PROGRESS, SPANS):
        view = folded(DefinitionRecord(DEFINITION), moved, state, progress, former)[FEED]
        assert (view.status, view.high_water) == (FeedState.RUNNING, Timestamp(9))
        assert view.runs_on(Engine.SPARK)


def test_spans_of_another_epoch_do_not_count() -> None:
    """The epoch may have other targets, on other topics: what was written for the old one says nothing."""
    assert folded(DefinitionRecord(DEFINITION), PROGRESS, SPANS)[FEED].ahead == SPANS.spans
    old = SpansRecord(FEED, FeedEpoch(9), SPANS.spans)
    assert folded(DefinitionRecord(DEFINITION), PROGRESS, old)[FEED].ahead == ()


def test_spans_that_were_lost_leave_the_progress_alone() -> None:
    view = folded(DefinitionRecord(DEFINITION), PROGRESS, SPANS)
    view.apply(SPANS.key, None)
    assert (view[FEED].high_water, view[FEED].ahead) == (Timestamp(9), ())


def test_an_inverted_span_is_refused() -> None:
    value = SPANS.to_bytes().replace(b'"f0","f089"', b'"f089","f0"')
    with pytest.raises(ForeignRecord, match=r"spans cannot be read .*inverted"):
        read_job_record(SPANS.key, value)


def test_progress_before_its_definition_shows_nothing_yet() -> None:
    view = folded(STATE, PROGRESS)[FEED]
    assert (view.status, view.high_water) == (FeedState.PENDING, None)


def test_an_unreadable_record_leaves_the_view_as_it_was() -> None:
    view = folded(DefinitionRecord(DEFINITION), STATE)
    with pytest.raises(ForeignRecord):
        view.apply(STATE.key, b"{")
    assert view[FEED].state == STATE


def test_a_record_without_value_takes_its_part_away_and_the_last_one_the_feed() -> None:
    view = folded(DefinitionRecord(DEFINITION), DropRecord(FEED, 1), STATE, PROGRESS)
    for part in (b"drop", b"state", b"progress"):
        view.apply(FEED.encode() + b"/" + part, None)
    assert view[FEED] == FeedView(defined=DEFINITION)
    view.apply(FEED.encode() + b"/definition", None)
    assert list(view.feeds()) == []


def test_feeds_are_listed_by_id() -> None:
    view = folded(DropRecord(FeedId("b"), 1), DropRecord(FeedId("a"), 1))
    assert [feed for feed, _ in view.feeds()] == ["a", "b"]


def _state(feed: FeedView) -> list[str]:
    return [feed.status.value]


@given(st.lists(st.tuples(job_records, st.booleans()), max_size=8))
def test_feeds_are_found_by_names_as_of_the_last_record(records: list[tuple[JobRecord, bool]]) -> None:
    """A record without a value takes a part of its feed away."""
    view, states = JobsView(), [each.value for each in FeedState]
    for record, has_value in records:
        view.apply(record.key, record.to_bytes() if has_value else None)
        found = list(view.feeds())
        by_state = {
            state: tuple(each for each, feed in found if feed.status.value == state) for state in states
        }
        assert view.having(_state, states) == by_state
        groups = filter(None, by_state.values())
        assert view.edges(_state) == sorted({each for feeds in groups for each in (feeds[0], feeds[-1])})


@given(st.lists(job_records, max_size=8))
def test_the_view_needs_only_the_last_record_of_each_key(records: list[JobRecord]) -> None:
    """Compaction may drop all earlier ones, and writers of different parts never disturb each other."""
    compacted = {record.key: record for record in records}
    assert list(folded(*records).feeds()) == list(folded(*compacted.values()).feeds())
