"""Answers to push requests: commands of the range that was asked about.

Source: CockroachDB ``pkg/kv/kvserver/rangefeed`` (the transaction pusher), and the answers to its pushes. The
log contract adds a rule of its own: an aborted transaction leaves an op in the log (docs/log-contract.md).
"""

from __future__ import annotations

from sim.store.moments import EndedBy
from sim.store.range import Range
from sim.store.store import RangeStore
from sim.store.transaction import SimTxnStatus, Transaction
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import AbortTxn, Op, TxnId
from tidegate.raftlog.request import Push


def answer_push(store: RangeStore, push: Push) -> bool:
    """Answer a push in the log.

    Returns false for an unknown range, or a time in the future: such a push is ignored.
    """
    range_ = store.ranges.get(push.range_id)
    if range_ is None or push.push_to.wall > store.present.ns:
        return False
    range_.clock.observe(push.push_to)
    ops: list[Op] = []
    for txn_id, _ in push.txns:
        ops.extend(_answer(store, range_, txn_id, push.push_to))
    store.propose(range_, ops)
    return True


def _answer(store: RangeStore, range_: Range, txn_id: TxnId, push_to: Timestamp) -> list[Op]:
    txn = store.txns.get(txn_id)
    if txn is None:
        # The transaction has ended, and all its intents are resolved. So what it committed here stands
        # earlier in the log.
        return [AbortTxn(txn_id)]
    if txn.pending and store.expired(txn):
        store.abort(txn, EndedBy.PUSH)
    if txn.pending:
        store.push(txn, push_to.next())
    range_.clock.observe(txn.write_timestamp)
    if txn.pending:
        return [range_.push_intents(txn)]
    verdict: Op = AbortTxn(txn_id) if txn.status is SimTxnStatus.ABORTED else range_.push_intents(txn)
    return [verdict, *_end_intents(store, range_, txn)]


def _end_intents(store: RangeStore, range_: Range, txn: Transaction) -> list[Op]:
    ops: list[Op] = [range_.end_intent(key) for key in list(txn.intents.get(range_.id, ()))]
    store.forget(txn)
    return ops
