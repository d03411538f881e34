"""``tidegate debug rangefeed``: what its options mean, and what it prints of a log on a real broker."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from stack.kafka import KafkaBroker
from tests.hand_log import HandLog, HandTable, at, txn
from tests.unit.cli.running import NOBODY, run
from tests.unit.client.topics import create_topic, delete_before, write
from tidegate.cli.debug_lines import json_line, text_line
from tidegate.client.kafka.log_reader import LogBegin, parse_begin
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import CommitIntent, RangeId, Trigger
from tidegate.rangefeed.event import CheckpointEvent, DeleteRangeEvent, SSTableEvent, ValueEvent
from tidegate.rangefeed.feed_end import EndReason, FeedEnd
from tidegate.rangefeed.log_feeds import LogEvent, RangeEvent, SteadyState
from tidegate.spans import Span
from tidegate.verify import TopicRecord

TABLE = HandTable.of(104, "accounts")
LOG = "raftlog"


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("beginning", LogBegin()),
        ("0", LogBegin(offset=0)),
        ("999999999999999", LogBegin(offset=999_999_999_999_999)),
        ("1000000000000000", LogBegin(above=Timestamp(10**15))),
        ("5.0000000002", LogBegin(above=Timestamp(5, 2))),
    ],
)
def test_a_place_is_the_beginning_an_offset_or_a_timestamp(text: str, begin: LogBegin) -> None:
    assert parse_begin(text) == begin


@pytest.mark.parametrize("text", ["end", "", "-1", "5.2"])
def test_any_other_place_is_refused(text: str) -> None:
    result = run("debug", "rangefeed", f"--from={text}", *NOBODY)
    assert result.exit_code == 2
    assert "is no place in a log: give beginning, an offset, or a timestamp" in result.stderr


@pytest.mark.parametrize("span", ["f2,f0", "f0,f0", "f0,xx", "f0,f1,f2"])
def test_a_span_that_is_none_is_refused(span: str) -> None:
    result = run("debug", "rangefeed", "--span", span, *NOBODY)
    assert result.exit_code == 2
    assert "give two keys in hex, the first below the second" in result.stderr


def test_without_a_broker_it_says_so() -> None:
    result = run("debug", "rangefeed", *NOBODY)
    assert result.exit_code == 1
    assert "gave no answer within 0.3 s" in result.stderr


_SPAN = Span(b"\xf0", b"\xf1")
_FORMS: list[tuple[LogEvent, str, dict[str, Any]]] = [
    (
        ValueEvent(b"\xf0\x89", Timestamp(5, 1), b"\x01", b"\x02"),
        "Value /Table/104/1 @ 5.0000000001 = 01 (was 02)",
        {
            "type": "value",
            "key": "f089",
            "key_text": "/Table/104/1",
            "ts": "5.0000000001",
            "value": "01",
            "prev_value": "02",
        },
    ),
    (
        ValueEvent(b"\xf0\x89", Timestamp(5), b""),
        "Delete /Table/104/1 @ 5.0000000000",
        {"type": "delete", "key": "f089", "key_text": "/Table/104/1", "ts": "5.0000000000"},
    ),
    (
        DeleteRangeEvent(_SPAN, Timestamp(5)),
        "DeleteRange [/Table/104, /Table/105) @ 5.0000000000",
        {"type": "delete_range", "start": "f0", "end": "f1", "ts": "5.0000000000"},
    ),
    (
        SSTableEvent(_SPAN, Timestamp(5), b"abc"),
        "SSTable [/Table/104, /Table/105) @ 5.0000000000, 3 bytes",
        {"type": "sst", "start": "f0", "end": "f1", "ts": "5.0000000000", "bytes": 3},
    ),
    (
        CheckpointEvent(_SPAN, ResolvedTimestamp(Timestamp(9))),
        "Checkpoint [/Table/104, /Table/105) resolved 9.0000000000",
        {"type": "checkpoint", "start": "f0", "end": "f1", "resolved": "9.0000000000"},
    ),
    (
        SteadyState(_SPAN, ResolvedTimestamp(Timestamp(9))),
        "SteadyState [/Table/104, /Table/105) since 9.0000000000",
        {"type": "steady_state", "start": "f0", "end": "f1", "resolved": "9.0000000000"},
    ),
    (
        FeedEnd(EndReason.RANGE_SPLIT),
        "End RANGE_SPLIT",
        {"type": "end", "reason": "RANGE_SPLIT", "detail": ""},
    ),
    (
        FeedEnd(EndReason.RAFT_SNAPSHOT, "why"),
        "End RAFT_SNAPSHOT: why",
        {"type": "end", "reason": "RAFT_SNAPSHOT", "detail": "why"},
    ),
]


@pytest.mark.parametrize(("event", "text", "members"), _FORMS)
def test_every_event_has_a_line_of_text_and_one_of_json(
    event: LogEvent, text: str, members: dict[str, Any]
) -> None:
    record, found = TopicRecord(LOG, 2, 17, None, None, 0), RangeEvent(RangeId(7), event)
    assert text_line(record, found) == f"raftlog[2]@17 r7: {text}"
    assert json.loads(json_line(record, found)) == {"partition": 2, "offset": 17, "range": 7, **members}


# ---- on a real broker ----


@pytest.fixture(scope="module")
def prefix(broker: KafkaBroker) -> str:
    """A log of two partitions, written once: two ranges of a table, one of which splits off another."""
    log = HandLog(2)
    log.describe(TABLE)
    low, high = TABLE.split(100)
    first, second = log.open_range(2, low, close=1), log.open_range(3, high, close=1)
    first.apply(TABLE.put(2, 1, "one"), close=3)
    first.apply(TABLE.delete(60, 1)._replace(prev_value=TABLE.pair(1, "one")[1]), close=61)
    second.apply(CommitIntent(txn(1), *_swap(TABLE.pair(200, "two"), 62)), trigger=Trigger.SPLIT)
    name = f"debug-rangefeed-{uuid.uuid4().hex[:8]}-"
    create_topic(broker.bootstrap, f"{name}{LOG}", 2)
    write(
        broker.bootstrap,
        (
            TopicRecord(f"{name}{LOG}", number, record.offset, record.key, record.value, record.timestamp)
            for number, partition in enumerate(log.partitions)
            for record in partition
        ),
    )
    return name


def _swap(pair: tuple[bytes, bytes], seconds: float) -> tuple[bytes, Timestamp, bytes]:
    return pair[0], at(seconds), pair[1]


def printed(broker: KafkaBroker, prefix: str, *options: str) -> list[dict[str, Any]]:
    """The events that the command prints."""
    where = ("-b", broker.bootstrap, "--topic-prefix", prefix, "--format", "json")
    result = run("debug", "rangefeed", *where, *options)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.broker
def test_it_prints_the_events_of_a_table_from_the_log(broker: KafkaBroker, prefix: str) -> None:
    found = printed(broker, prefix, "--span", "accounts", "--diff")
    of_first = [event for event in found if event["range"] == 2]
    kinds = [event["type"] for event in of_first]
    assert kinds == ["checkpoint", "steady_state", "value", "checkpoint", "delete", "checkpoint"]
    assert of_first[4]["prev_value"] == TABLE.pair(1, "one")[1].hex()
    assert [event["type"] for event in found if event["range"] == 3][-2:] == ["value", "end"]


@pytest.mark.broker
def test_it_begins_at_an_offset_or_above_a_timestamp_and_keeps_to_a_span(
    broker: KafkaBroker, prefix: str
) -> None:
    low, high = TABLE.split(100)
    keys = f"{high.start.hex()},{high.end.hex()}"
    assert {event["range"] for event in printed(broker, prefix, "--span", keys)} == {3}
    above = printed(broker, prefix, "--from", at(2).decimal(), "--span", f"{low.start.hex()},{low.end.hex()}")
    assert [event["type"] for event in above] == ["delete"]  # no snapshot is read, so nothing is resolved
    second = printed(broker, prefix, "--from", "3", "--partition", "0")
    assert [(event["offset"], event["type"]) for event in second] == [(3, "delete")]
    assert len(printed(broker, prefix, "--limit", "2", "--follow")) == 2


@pytest.mark.broker
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--span", "nowhere"), "describes no table nowhere"),
        (("--partition", "2"), "has 2 partitions; there is no partition 2"),
        (("--topic-prefix", "other-"), "has no topic other-raftlog"),
    ],
)
def test_what_does_not_exist_is_a_sentence(
    broker: KafkaBroker, prefix: str, options: tuple[str, ...], sentence: str
) -> None:
    result = run("debug", "rangefeed", "-b", broker.bootstrap, "--topic-prefix", prefix, *options)
    assert result.exit_code == 1
    assert sentence in result.stderr


@pytest.mark.broker
def test_records_that_are_deleted_are_not_passed_over_in_silence(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}{LOG}"
    create_topic(broker.bootstrap, topic)
    write(broker.bootstrap, [TopicRecord(topic, 0, i, b"k", b"v", at(i).wall_ms) for i in range(5)])
    delete_before(broker.bootstrap, topic, 0, 3)
    result = run("debug", "rangefeed", "-b", broker.bootstrap, "--topic-prefix", topic_prefix, "--from", "1")
    assert result.exit_code == 1
    assert f"Offset 1 of {topic}[0] is deleted: its first record is at 3." in result.stderr
