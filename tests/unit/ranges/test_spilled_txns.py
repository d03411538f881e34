"""Transactions as they lie beyond memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ranges.two_levels import TXNS, facts
from tidegate.hlc import MAX_LOGICAL, Timestamp
from tidegate.ranges.intent_queue import TrackedTxn
from tidegate.ranges.tracked_txn import pack_txn, unpack_txn

_wide_times = st.builds(Timestamp, st.integers(0, 2**63 - 1), st.integers(0, MAX_LOGICAL))


@given(_wide_times, _wide_times, st.integers(-(2**62), 2**62), st.binary(max_size=40))
def test_a_packed_transaction_is_the_one_that_was_packed(
    timestamp: Timestamp, least: Timestamp, refs: int, anchor_key: bytes
) -> None:
    txn = TrackedTxn(TXNS[0], anchor_key, least, timestamp, refs)
    txn.stored, txn.row_hash = True, 2**64 - 1
    assert facts(unpack_txn(TXNS[0], pack_txn(txn))) == facts(txn)
