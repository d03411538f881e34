"""Claims and hand-offs on their topic say the same when they are read; others are foreign."""

from __future__ import annotations

from typing import Final

import pytest

from tidegate.errors import ForeignRecord
from tidegate.hlc import ZERO_RESOLVED, ResolvedTimestamp, Timestamp
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.exchange_codec import decode_exchange, encode_exchange, read_exchange_record
from tidegate.processor.state.stored_frame import pack
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import Claim, Exchange, HandOff
from tidegate.spans import Span

_SPAN: Final = Span(b"b", b"x")
_CLAIM: Final = Claim(RangeId(1), RangeId(2), RaftIndex(5), _SPAN, 77)
_RESOLVED: Final = ResolvedTimestamp(Timestamp(60))


def _claim(child: int = 1, parent: int = 2, span: Span = _SPAN, told_ms: int = 0) -> Claim:
    return Claim(RangeId(child), RangeId(parent), RaftIndex(5), span, told_ms)


def _hand_off(
    claim: Claim = _CLAIM,
    resolved: int = 0,
    span: Span | None = _SPAN,
    gaps: tuple[Gap, ...] = (),
) -> HandOff:
    return HandOff(
        claim, ResolvedTimestamp(Timestamp(resolved)), True, span, (ToldGaps("a", ()), ToldGaps("b", gaps))
    )


_NULL: Final = Gap(Span(b"c", b"d"), Timestamp(0, 1))


@pytest.mark.parametrize(
    "message",
    [
        _CLAIM,
        _claim(),
        _claim(span=Span(b"", b"x")),
        HandOff(_CLAIM, _RESOLVED, complete=False),
        HandOff(_CLAIM, _RESOLVED, complete=True, span=Span(b"", b"x"), told_gaps=()),
        _hand_off(gaps=(Gap(Span(b"b", b"c"), None), _NULL)),
    ],
)
def test_a_message_comes_back_as_it_was_under_the_key_of_child_and_parent(message: Exchange) -> None:
    key, value = encode_exchange(message)
    assert key == encode_key(RangeId(1)) + encode_key(RangeId(2))
    found = read_exchange_record(key, value)
    assert found == message
    claims = [each if isinstance(each, Claim) else each.claim for each in (found, message)]
    assert claims[0].told_ms == claims[1].told_ms


@pytest.mark.parametrize("key", [None, b"", encode_key(RangeId(2)) + encode_key(RangeId(1))])
@pytest.mark.parametrize("message", [_CLAIM, _hand_off()])
def test_a_message_under_another_key_is_foreign(message: Exchange, key: bytes | None) -> None:
    _, value = encode_exchange(message)
    with pytest.raises(ForeignRecord, match="about ranges 1 and 2 has another key"):
        read_exchange_record(key, value)


_EMPTY, _BACKWARDS = Span(b"c", b"c"), Span(b"d", b"c")


@pytest.mark.parametrize(
    "message",
    [
        _claim(child=0),
        _claim(parent=0),
        _claim(span=_EMPTY),
        _claim(span=_BACKWARDS),
        _claim(told_ms=-1),
        _hand_off(claim=_claim(child=0)),
        _hand_off(claim=_claim(parent=0)),
        _hand_off(claim=_claim(span=_EMPTY)),
        _hand_off(claim=_claim(told_ms=-1)),
        _hand_off(resolved=-1),
        _hand_off(span=_EMPTY),
        _hand_off(span=_BACKWARDS),
        _hand_off(gaps=(Gap(_EMPTY, None),)),
        _hand_off(gaps=(_NULL, Gap(_BACKWARDS, None))),
        _hand_off(gaps=(_NULL, Gap(Span(b"d", b"e"), Timestamp(-1, 0)))),
    ],
)
def test_a_message_with_a_range_a_time_or_keys_that_cannot_be_is_foreign(message: Exchange) -> None:
    with pytest.raises(ForeignRecord, match="a range, a time or keys that cannot be"):
        decode_exchange(encode_exchange(message)[1])


def test_a_record_that_is_neither_a_claim_nor_a_hand_off_is_foreign() -> None:
    with pytest.raises(ForeignRecord, match="neither a claim nor a hand-off"):
        decode_exchange(pack(pb.Exchange()))


def test_a_hand_off_that_does_not_fit_into_a_record_tells_nothing_instead() -> None:
    whole = _hand_off(gaps=(_NULL,) * 50)
    size = len(encode_exchange(whole)[1])
    assert decode_exchange(encode_exchange(whole, RecordBounds(2 * size))[1]) == whole
    nothing = HandOff(_CLAIM, ZERO_RESOLVED, complete=False)
    assert decode_exchange(encode_exchange(whole, RecordBounds(2 * size - 2))[1]) == nothing
    assert decode_exchange(encode_exchange(_CLAIM, RecordBounds(2))[1]) == _CLAIM
