"""Batches encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

from tidegate.hlc import Timestamp
from tidegate.serve.encoded_batches import CHUNK_BYTES, CHUNK_ROWS, EncodedBatches, chunk_of
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.frontier import Frontier


def batch(rows: int) -> SubscriptionBatch:
    return SubscriptionBatch(Frontier(Timestamp(1)), tuple((n,) for n in range(rows)), False, None, False)


def encode(rows: Sequence[tuple[Any, ...]]) -> bytes:
    return b",".join(b"%d" % row[0] for row in rows)


def test_a_batch_is_encoded_once_for_each_form() -> None:
    encoded, one = EncodedBatches(), batch(3)
    for _ in range(100):
        assert list(encoded.chunks(one, "a", encode)) == [(3, b"0,1,2")]
    assert encoded.encoded == 1
    list(encoded.chunks(one, "b", encode))
    list(encoded.chunks(batch(3), "a", encode))
    assert encoded.encoded == 3


def test_a_large_batch_comes_in_chunks_that_are_encoded_when_asked_for() -> None:
    encoded = EncodedBatches()
    chunks = encoded.chunks(batch(2 * CHUNK_ROWS + 1), "a", encode)
    assert next(chunks)[0] == CHUNK_ROWS
    assert encoded.encoded == 1
    assert [rows for rows, _ in chunks] == [CHUNK_ROWS, 1]


def test_what_is_kept_has_a_bound() -> None:
    encoded, one = EncodedBatches(kept_bytes=0), batch(1)
    assert list(encoded.chunks(one, "a", encode)) == list(encoded.chunks(one, "a", encode))
    assert encoded.encoded == 2


def test_a_batch_that_nobody_has_any_more_is_not_kept_and_its_chunks_go() -> None:
    encoded, one, other = EncodedBatches(), batch(3 * CHUNK_ROWS), batch(1)
    gone = ref(one)
    next(encoded.chunks(one, "a", encode))
    list(encoded.chunks(other, "a", encode))
    del one
    assert gone() is None
    for _ in range(100):  # a new batch may have the id of one that is gone
        assert list(encoded.chunks(batch(2), "a", encode)) == [(2, b"0,1")]
    assert encoded.encoded == 102
    assert len(encoded._chunks) <= 2
    assert list(encoded.chunks(other, "a", encode)) == [(1, b"0")]
    assert encoded.encoded == 102, "of this one they are still there"


def test_an_empty_batch_has_no_chunks() -> None:
    assert list(EncodedBatches().chunks(batch(0), "a", encode)) == []


def test_long_rows_are_encoded_few_at_a_time_and_one_row_always_fits() -> None:
    rows = tuple((n, "x" * (CHUNK_BYTES // 3)) for n in range(7))
    long = SubscriptionBatch(Frontier(Timestamp(1)), rows, False, None, False)
    assert [count for count, _ in EncodedBatches().chunks(long, "a", encode)] == [2, 2, 2, 1]
    longer = tuple((n, "x" * 2 * CHUNK_BYTES) for n in range(2))
    assert list(map(len, (chunk_of(longer, 0), chunk_of(longer, 1), chunk_of(longer, 2)))) == [1, 1, 0]
