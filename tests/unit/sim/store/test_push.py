"""Pushes: what the log answers."""

from __future__ import annotations

from sim.store.push import answer_push
from sim.store.range import Range
from sim.store.transaction import Transaction
from tests.unit.sim.small_store import SmallStore, key
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import AbortIntent, AbortTxn, CommitIntent, Op, RangeId, TxnId, UpdateIntent
from tidegate.raftlog.request import Push, PushedTxn


def _push(small: SmallStore, range_: Range, *txns: Transaction, ahead_ns: int = 0) -> list[Op] | None:
    """The ops that answer a push of these transactions to the present; ``None`` when there was no answer."""
    before = len(small.ops(range_))
    pushed = tuple(PushedTxn(txn.id, txn.anchor_key) for txn in txns)
    answered = answer_push(small.store, Push(range_.id, pushed, Timestamp(small.present.ns + ahead_ns)))
    return small.ops(range_)[before:] if answered else None


def test_a_pending_transaction_moves_above_the_push_in_all_its_ranges() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a", "z")
    small.pass_ms(100)
    push_to = Timestamp(small.present.ns)
    assert _push(small, small.first, txn) == [UpdateIntent(txn.id, push_to.next())]
    small.store.commit(txn)
    small.store.resolve(txn, small.second.id, [key("z")])
    assert small.ops(small.second)[-1] == CommitIntent(txn.id, key("z"), push_to.next(), b"v", b"")


def test_a_push_below_the_transaction_answers_where_it_stands() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    stands = txn.write_timestamp
    answer_push(small.store, Push(small.first.id, (PushedTxn(txn.id, txn.anchor_key),), Timestamp(5)))
    assert small.ops(small.first)[-1] == UpdateIntent(txn.id, stands)


def test_a_committed_transaction_answers_with_its_commit() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a", "b")
    small.store.commit(txn)
    at = txn.write_timestamp
    assert _push(small, small.first, txn) == [
        UpdateIntent(txn.id, at),
        CommitIntent(txn.id, key("a"), at, b"v", b""),
        CommitIntent(txn.id, key("b"), at, b"v", b""),
    ]


def test_an_aborted_transaction_answers_with_abort_txn_first() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a", "b")
    small.store.abort(txn)
    assert _push(small, small.first, txn) == [AbortTxn(txn.id), AbortIntent(txn.id), AbortIntent(txn.id)]


def test_an_abandoned_transaction_is_pushed_until_it_expires_and_then_aborted() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    small.store.abandon(txn)
    small.store.release(txn)
    small.pass_ms(100)
    assert _push(small, small.first, txn) == [UpdateIntent(txn.id, txn.write_timestamp)]
    small.pass_ms(5_000)
    assert _push(small, small.first, txn) == [AbortTxn(txn.id), AbortIntent(txn.id)]
    assert txn.id not in small.store.txns


def test_one_push_aborts_in_its_own_range_only() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a", "z")
    small.store.abandon(txn)
    small.store.release(txn)
    small.pass_ms(5_000)
    _push(small, small.first, txn)
    assert key("z") in small.second.intents
    assert _push(small, small.second, txn) == [AbortTxn(txn.id), AbortIntent(txn.id)]


def test_a_transaction_that_nobody_knows_has_nothing_left_to_commit() -> None:
    small = SmallStore()
    gone = Transaction(TxnId(b"?" * 16), Timestamp(1), Timestamp(1))
    assert _push(small, small.first, gone) == [AbortTxn(gone.id)]


def test_all_transactions_of_one_push_are_answered_in_one_command() -> None:
    small = SmallStore()
    first, second = small.begin_and_put("a"), small.begin_and_put("b")
    applied = small.first.applied
    small.pass_ms(1)
    answer = _push(small, small.first, first, second)
    assert answer is not None
    assert len(answer) == 2
    assert small.first.applied == applied + 1


def test_a_push_into_the_future_or_to_an_unknown_range_has_no_answer() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    assert _push(small, small.first, txn, ahead_ns=1) is None
    assert not answer_push(small.store, Push(RangeId(99), (), Timestamp(1)))


def test_the_clock_of_the_leaseholder_takes_the_push_in() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    small.pass_ms(10)
    _push(small, small.first, txn)
    record = small.sink.records[-1]
    assert record.record_time_ms >= txn.write_timestamp.wall_ms
