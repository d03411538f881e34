"""The resolver against a naive model, and the promise that it makes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import ForbiddenOp
from tidegate.hlc import ZERO, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    CommitIntent,
    Op,
    TxnId,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.ranges.resolver import Resolver
from tidegate.ranges.tracked_txn import TrackedTxn

_TXNS = [TxnId(bytes([i]) * 16) for i in range(4)]
_timestamps = st.builds(Timestamp, st.integers(1, 30), st.integers(0, 2))
_txns = st.sampled_from(_TXNS)

_ops: st.SearchStrategy[Op | ClosedTimestamp] = st.one_of(
    _timestamps.map(ClosedTimestamp),
    _timestamps.map(lambda at: WriteValue(b"k", at, b"")),
    st.builds(WriteIntent, _txns, st.just(b"a"), _timestamps, _timestamps),
    st.builds(UpdateIntent, _txns, _timestamps),
    st.builds(CommitIntent, _txns, st.just(b"k"), _timestamps, st.just(b"")),
    st.builds(AbortIntent, _txns),
    st.builds(AbortTxn, _txns),
)


class _Model:
    """The rules written down as directly as possible: lists, and a minimum over all of them."""

    def __init__(self) -> None:
        self.intents: dict[TxnId, list[Timestamp]] = {}
        self.closed = ZERO
        self.resolved = ZERO

    def allows(self, op: Op | ClosedTimestamp) -> bool:
        return not isinstance(op, WriteValue | WriteIntent) or op.timestamp > self.resolved

    def apply(self, op: Op | ClosedTimestamp) -> None:
        if isinstance(op, WriteIntent):
            self._raise(op.txn_id, op.timestamp, [*self.intents.get(op.txn_id, []), op.timestamp])
        elif isinstance(op, UpdateIntent):
            self._raise(op.txn_id, op.timestamp, self.intents.get(op.txn_id, []))
        elif isinstance(op, CommitIntent):
            self._raise(op.txn_id, op.timestamp, self.intents.get(op.txn_id, [])[1:])
        elif isinstance(op, AbortIntent):
            self._raise(op.txn_id, ZERO, self.intents.get(op.txn_id, [])[1:])
        elif isinstance(op, AbortTxn):
            self.intents.pop(op.txn_id, None)
        elif isinstance(op, Timestamp):
            self.closed = max(self.closed, op)
        open_intents = [at.prev() for intents in self.intents.values() for at in intents]
        self.resolved = max(self.resolved, min([self.closed, *open_intents]).floor())

    def _raise(self, txn_id: TxnId, timestamp: Timestamp, intents: list[Timestamp]) -> None:
        highest = max([timestamp, *self.intents.get(txn_id, [])])
        self.intents[txn_id] = [highest] * len(intents)


def _apply(resolver: Resolver, op: Op | ClosedTimestamp) -> bool:
    if isinstance(op, Timestamp):
        return resolver.forward_closed(ClosedTimestamp(op))
    return resolver.apply(op)


@given(st.lists(_ops, max_size=60))
def test_resolver_agrees_with_the_naive_model(ops: list[Op | ClosedTimestamp]) -> None:
    resolver, model = Resolver(), _Model()
    resolver.initialise()
    for op in ops:
        before = resolver.resolved
        if not model.allows(op):
            with pytest.raises(ForbiddenOp):
                _apply(resolver, op)
            assert resolver.resolved == before
            continue
        moved = _apply(resolver, op)
        model.apply(op)
        assert resolver.resolved == model.resolved
        assert moved == (resolver.resolved > before)


@given(st.lists(_ops, max_size=60))
def test_resolved_never_falls_and_stays_below_every_open_intent(ops: list[Op | ClosedTimestamp]) -> None:
    resolver = Resolver()
    resolver.initialise()
    for op in ops:
        before = resolver.resolved
        try:
            _apply(resolver, op)
        except ForbiddenOp:
            continue
        assert resolver.resolved >= before
        assert resolver.resolved <= resolver.closed
        assert resolver.resolved.logical == 0
        assert all(txn.timestamp > resolver.resolved for txn in resolver.queue)


@given(st.lists(_ops, max_size=40), st.lists(_ops, max_size=40))
def test_a_restored_resolver_goes_on_as_if_nothing_had_happened(
    first: list[Op | ClosedTimestamp], second: list[Op | ClosedTimestamp]
) -> None:
    live = Resolver()
    live.initialise()
    for op in first:
        _try(live, op)
    restored = Resolver.restored(live.closed, live.resolved)
    for txn in list(live.queue):
        restored.queue.restore(
            type(txn)(txn.txn_id, txn.anchor_key, txn.min_timestamp, txn.timestamp, txn.refs)
        )
    for op in second:
        assert _try(restored, op) == _try(live, op)
        assert restored.resolved == live.resolved


def _try(resolver: Resolver, op: Op | ClosedTimestamp) -> bool | None:
    try:
        return _apply(resolver, op)
    except ForbiddenOp:
        return None


def test_nothing_resolves_before_initialisation() -> None:
    resolver = Resolver()
    assert not resolver.forward_closed(ClosedTimestamp(Timestamp(5)))
    assert resolver.resolved == ZERO


def test_an_intent_resolved_before_the_scan_finds_it_is_balanced_by_the_scan() -> None:
    resolver = Resolver()
    resolver.apply(CommitIntent(_TXNS[0], b"k", Timestamp(3), b""))
    resolver.apply(WriteIntent(_TXNS[0], b"a", Timestamp(3), Timestamp(3)))
    resolver.forward_closed(ClosedTimestamp(Timestamp(9)))
    assert resolver.initialise()
    assert resolver.resolved == Timestamp(9)


@pytest.mark.parametrize(
    "op",
    [AbortIntent(_TXNS[0]), CommitIntent(_TXNS[0], b"k", Timestamp(3), b"")],
    ids=["aborted", "committed"],
)
def test_an_intent_that_nothing_accounts_for_is_an_error_at_initialisation(op: Op) -> None:
    resolver = Resolver()
    resolver.forward_closed(ClosedTimestamp(Timestamp(9)))
    resolver.apply(op)
    with pytest.raises(ForbiddenOp, match=f"{_TXNS[0].hex()} resolved an intent that no op and no snapshot"):
        resolver.initialise()
    assert (resolver.initialised, resolver.resolved) == (False, ZERO)


@pytest.mark.parametrize(
    ("timestamp", "is_refused"),
    [(Timestamp(8, 5), True), (Timestamp(9), True), (Timestamp(9, 1), False), (Timestamp(10), False)],
)
def test_a_stored_transaction_must_be_above_what_was_resolved(timestamp: Timestamp, is_refused: bool) -> None:
    """It could still commit at its timestamp, below a marker."""
    resolver = Resolver.restored(ClosedTimestamp(Timestamp(9)), ResolvedTimestamp(Timestamp(9)))
    resolver.queue.restore(TrackedTxn(_TXNS[0], b"a", timestamp, timestamp, 1))
    if not is_refused:
        assert not resolver.forward_closed(ClosedTimestamp(Timestamp(20)))
    else:
        with pytest.raises(ForbiddenOp, match=f"an open intent of transaction {_TXNS[0].hex()}"):
            resolver.forward_closed(ClosedTimestamp(Timestamp(20)))
    assert resolver.resolved == Timestamp(9)


def test_abort_txn_before_initialisation_keeps_the_count() -> None:
    resolver = Resolver()
    resolver.apply(WriteIntent(_TXNS[0], b"a", Timestamp(3), Timestamp(3)))
    resolver.apply(AbortTxn(_TXNS[0]))
    resolver.forward_closed(ClosedTimestamp(Timestamp(9)))
    resolver.initialise()
    assert resolver.resolved == Timestamp(2)
