"""Whatever stands on the application's own topics is a record of ours, or is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.changefeed.feeds import acks, control_messages, job_records
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedEpoch, FeedId
from tidegate.changefeed.definition.stored_json import STORED_VERSION
from tidegate.changefeed.lifecycle.control import ack_key, control_key, read_ack_record, read_control_record
from tidegate.changefeed.lifecycle.job_records import read_job_record
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.errors import ForeignRecord, StateError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed, PartitionCheckpoint, RangeCheckpoint
from tidegate.processor.checkpoint import checkpoint_key, encode_checkpoint, read_report_record
from tidegate.processor.state.exchange_codec import encode_exchange, read_exchange_record
from tidegate.processor.state.stored_frame import NEWER_RECORD
from tidegate.raftlog.entry import Generation, Offset, RaftIndex, RangeId
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.spans import Span

_PARTITIONS: Final = 3
Reader: TypeAlias = Callable[[bytes | None, bytes], object]
Stored: TypeAlias = tuple[bytes, bytes]

_CLAIM: Final = Claim(RangeId(3), RangeId(1), RaftIndex(5), Span(b"a", b"b"), 7)
_TOLD: Final = (ToldGaps("feed", (Gap(Span(b"a", b"b"), Timestamp(4)), Gap(Span(b"b", b"c"), None))),)
_HAND_OFF: Final = HandOff(
    _CLAIM, ResolvedTimestamp(Timestamp(9)), complete=True, span=PLAIN.span, told_gaps=_TOLD
)
_CHECKPOINT: Final = PartitionCheckpoint(
    2,
    Offset(7),
    (ActiveFeed(FeedId("feed"), FeedEpoch(1)),),
    (RangeCheckpoint(RangeId(1), Generation(2), Span(b"a", b"b"), ResolvedTimestamp(Timestamp(9))),),
    5,
    (RangeId(4),),
    6,
)


_EXCHANGES: Final[st.SearchStrategy[Claim | HandOff]] = st.sampled_from([_CLAIM, _HAND_OFF])


def _exchange_record(message: Claim | HandOff) -> Stored:
    return encode_exchange(message)


def _read_ack(key: bytes | None, value: bytes) -> object:
    return read_ack_record(key, value, 2**31)


def _read_report(key: bytes | None, value: bytes) -> object:
    return read_report_record(key, value, _PARTITIONS)


#: Of each topic what reads it, and records that stand there.
_TOPICS: Final[dict[str, tuple[Reader, st.SearchStrategy[Stored]]]] = {
    "control": (read_control_record, control_messages.map(lambda m: (control_key(m.feed_id), m.to_bytes()))),
    "control-acks": (_read_ack, acks.map(lambda ack: (ack_key(ack), ack.to_bytes()))),
    "jobs": (read_job_record, job_records.map(lambda record: (record.key, record.to_bytes()))),
    "handoff": (
        read_exchange_record,
        _EXCHANGES.map(_exchange_record),
    ),
    "checkpoints": (_read_report, st.just((checkpoint_key(2), encode_checkpoint(_CHECKPOINT)))),
}
_BY_TOPIC: Final = pytest.mark.parametrize("topic", _TOPICS)
_ODD_BYTES: Final = st.sampled_from(
    [
        b"9" * 5_000,
        b'"\\ud800"',
        b"\xed\xa0\x80",
        b"[" * 100_000,
        b'{"v":' * 50_000,
        b"NaN",
        b"1e999999999",
        b"-1",
        b"18446744073709551616",
        b"\xff" * 9 + b"\x01",
        b"\xff\xfe",
        b"\x00" * 20,
    ]
)
_ODD_VALUES: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [
        *(None, True, -1, 0, 2**70, 10**4_000, 1.5, float("inf"), float("nan"), [], {}, [[1]], {"a": 1}),
        *(
            "",
            "x",
            "\ud800",
            "0" * 5_000,
            "9" * 30 + ".0000000000",
            "\u0663.0000000000",
            ["", ""],
            [None] * 3,
        ),
    ]
)


@st.composite
def _mutated(draw: st.DrawFn, stored: bytes) -> bytes:
    changed = stored
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(changed)))
        match draw(st.integers(0, 4)):
            case 0:
                changed = changed[:at]
            case 1:
                changed = changed[:at] + draw(_ODD_BYTES) + changed[at:]
            case 2:
                changed = (
                    changed[:at] + draw(st.binary(max_size=8)) + changed[at + draw(st.integers(0, 20)) :]
                )
            case 3:
                changed = changed[:at] + changed[at : at + draw(st.integers(0, 60))] + changed[at:]
            case _ if changed:
                byte = min(at, len(changed) - 1)
                flipped = changed[byte] ^ 1 << draw(st.integers(0, 7))
                changed = changed[:byte] + bytes([flipped]) + changed[byte + 1 :]
    return changed


@st.composite
def _other_members(draw: st.DrawFn, stored: bytes) -> bytes:
    """JSON with another value, or none, in one place of any depth."""
    try:
        record = json.loads(stored)
    except ValueError:
        return draw(_mutated(stored))
    place = record
    while True:
        names = list(place) if isinstance(place, dict) else list(range(len(place)))
        name = draw(st.sampled_from(names))
        if isinstance(place[name], dict | list) and place[name] and draw(st.booleans()):
            place = place[name]
            continue
        if isinstance(place, dict) and draw(st.booleans()):
            del place[name]
        else:
            place[name] = draw(_ODD_VALUES)
        return json.dumps(record).encode()


def _require_named(read: Reader, key: bytes | None, value: bytes) -> None:
    """``read`` gives a value, or a short error which says that the record is foreign or newer."""
    try:
        found = read(key, value)
    except (ForeignRecord, StateError) as error:
        sentence = str(error)
        sentence.encode()
        assert len(sentence) < 2_000
        if isinstance(error, StateError):
            assert "newer tidegate" in sentence
    else:
        repr(found).encode()


@_BY_TOPIC
@given(data=st.data())
def test_what_was_written_is_read(topic: str, data: st.DataObject) -> None:
    read, records = _TOPICS[topic]
    read(*data.draw(records))


@pytest.mark.sampled(2)
@_BY_TOPIC
@given(data=st.data())
@examples(100)
def test_anything_else_is_refused_by_name(topic: str, data: st.DataObject) -> None:
    read, records = _TOPICS[topic]
    key, value = data.draw(records)
    _require_named(read, key, data.draw(_mutated(value)))
    _require_named(read, key, data.draw(_other_members(value)))
    other_key = data.draw(st.none() | st.binary(max_size=20) | _mutated(key))
    _require_named(read, other_key, value)
    _require_named(read, other_key, data.draw(st.binary(max_size=40) | _ODD_BYTES))


@_BY_TOPIC
@given(data=st.data(), byte=st.binary(min_size=1, max_size=30))
def test_random_bytes_are_no_record_of_a_newer_version(topic: str, data: st.DataObject, byte: bytes) -> None:
    read, records = _TOPICS[topic]
    key, _ = data.draw(records)
    if not byte.startswith(NEWER_RECORD):
        try:
            read(key, byte)
        except ForeignRecord:
            return


@_BY_TOPIC
@given(data=st.data())
def test_a_record_under_another_key_is_foreign(topic: str, data: st.DataObject) -> None:
    read, records = _TOPICS[topic]
    key, value = data.draw(records)
    for other in (None, b"", key + b"x", b"other/definition"):
        with pytest.raises(ForeignRecord):
            read(other, value)


@pytest.mark.parametrize("topic", ["control", "control-acks", "jobs"])
@given(data=st.data(), version=st.integers(STORED_VERSION + 1, 1_000))
def test_a_record_of_a_newer_version_stops_who_cannot_read_it(
    topic: str, data: st.DataObject, version: int
) -> None:
    read, records = _TOPICS[topic]
    key, value = data.draw(records)
    newer = {**json.loads(value), "v": version, "unheard": ["of"]}
    with pytest.raises(StateError, match="newer tidegate"):
        read(key, json.dumps(newer).encode())
    for odd in (version + 1_000, str(version), float(version), True, None):
        with pytest.raises(ForeignRecord):
            read(key, json.dumps({**newer, "v": odd}).encode())


@pytest.mark.parametrize("topic", ["handoff", "checkpoints"])
@given(data=st.data(), rest=st.binary(max_size=9))
def test_a_newer_form_stops_who_cannot_read_it(topic: str, data: st.DataObject, rest: bytes) -> None:
    read, records = _TOPICS[topic]
    key, _ = data.draw(records)
    with pytest.raises(StateError, match="newer tidegate"):
        read(key, NEWER_RECORD + rest)


@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=40))
@example(key=b"a" * 5_000 + b"/state", value=b"{}")
@example(key=b"a/state/" + b"9" * 5_000, value=b"{}")
@example(key=b"\xff/state", value=None)
def test_a_view_of_the_jobs_is_as_it_was_after_a_foreign_record(
    key: bytes | None, value: bytes | None
) -> None:
    view = JobsView()
    with suppress(ForeignRecord):
        view.apply(key, value)
    assert list(view.feeds()) == []


@pytest.mark.parametrize(
    "message",
    [
        replace(_CLAIM, child=RangeId(0)),
        replace(_CLAIM, parent=RangeId(0)),
        replace(_CLAIM, span=Span(b"b", b"a")),
        replace(_CLAIM, told_ms=-1),
        _HAND_OFF._replace(resolved=ResolvedTimestamp(Timestamp(-1))),
        _HAND_OFF._replace(told_gaps=(ToldGaps("feed", (Gap(Span(b"b", b"b"), None),)),)),
    ],
    ids=["child", "parent", "keys", "time", "resolved", "missing versions"],
)
def test_an_exchange_that_cannot_be_is_foreign(message: Claim | HandOff) -> None:
    with pytest.raises(ForeignRecord):
        read_exchange_record(*encode_exchange(message))


def test_a_report_of_a_partition_that_has_read_nothing_is_one_and_of_less_than_nothing_is_none() -> None:
    nothing = encode_checkpoint(replace(_CHECKPOINT, offset=Offset(-1)))
    assert read_report_record(checkpoint_key(2), nothing, _PARTITIONS).offset == -1
    less = encode_checkpoint(replace(_CHECKPOINT, offset=Offset(-2)))
    with pytest.raises(ForeignRecord, match="a time or keys that cannot be"):
        read_report_record(checkpoint_key(2), less, _PARTITIONS)
