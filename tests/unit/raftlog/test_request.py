"""Requests to a source and its operators, to bytes and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.entries import timestamps
from tests.unit.raftlog.record_bytes import RANGE, int_field
from tidegate.errors import MalformedEntry
from tidegate.hlc import Timestamp
from tidegate.raftlog.decode import decode_key
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import RangeId, TxnId
from tidegate.raftlog.request import (
    AdminMerge,
    AdminSplit,
    Push,
    PushedTxn,
    Scan,
    decode_request,
    encode_request,
)
from tidegate.spans import Span


@given(st.lists(st.binary(min_size=16, max_size=16).map(TxnId), max_size=4))
def test_a_push_round_trips(txn_ids: list[TxnId]) -> None:
    push = Push(RANGE, tuple(PushedTxn(txn_id, b"anchor") for txn_id in txn_ids), Timestamp(5, 1))
    key, value = encode_request(push)
    assert decode_request(value) == push
    assert decode_key(key) == RANGE


@given(st.none() | timestamps, st.booleans(), st.booleans())
def test_a_scan_round_trips(after: Timestamp | None, all_versions: bool, with_prev: bool) -> None:
    scan = Scan(RANGE, 2**64 - 1, Span(b"a", b"b"), after, Timestamp(5, 1), all_versions, with_prev)
    key, value = encode_request(scan)
    assert decode_request(value) == scan
    assert decode_key(key) == RANGE


def test_requests_of_operators_come_back_as_they_were() -> None:
    for request in (AdminSplit(RangeId(7), b"k"), AdminSplit(RangeId(7)), AdminMerge(RangeId(7))):
        key, value = encode_request(request)
        assert decode_request(value) == request
        assert key == encode_key(RangeId(7))


def test_a_request_of_a_newer_version_is_refused() -> None:
    with pytest.raises(MalformedEntry, match="version 9"):
        decode_request(int_field(1, 9))


def test_bytes_that_are_no_request_are_refused() -> None:
    with pytest.raises(MalformedEntry, match="not a request"):
        decode_request(b"\xff")


def test_a_request_of_an_unknown_kind_is_none() -> None:
    assert decode_request(int_field(1, 1) + int_field(2, 7)) is None
    assert decode_request(int_field(1, 1) + int_field(2, 7) + int_field(99, 1)) is None
