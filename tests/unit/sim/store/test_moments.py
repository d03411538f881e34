"""Moments: what a store tells of transactions that hold markers, and of its ranges."""

from __future__ import annotations

import json

import pytest

from sim.store.moments import EndedBy, Moment, MomentKind, Moments
from sim.store.push import answer_push
from tests.unit.sim.small_store import BASE_NS, SmallStore, key
from tidegate.hlc import NANOS_PER_MS, Timestamp
from tidegate.raftlog.entry import RangeId, TxnId
from tidegate.raftlog.request import Push, PushedTxn


def test_an_abandoned_transaction_is_told_when_it_is_abandoned_pushed_first_and_aborted() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a", "z")
    small.pass_ms(20)
    small.store.abandon(txn)
    small.store.release(txn)
    push = (PushedTxn(txn.id, txn.anchor_key),)
    small.pass_ms(100)
    answer_push(small.store, Push(small.first.id, push, Timestamp(small.present.ns)))  # too early to abort it
    small.pass_ms(1_000)
    answer_push(small.store, Push(small.first.id, push, Timestamp(small.present.ns)))
    small.pass_ms(5_000)
    answer_push(small.store, Push(small.first.id, push, Timestamp(small.present.ns)))
    answer_push(small.store, Push(small.second.id, push, Timestamp(small.present.ns)))
    began_ns, tables, name = BASE_NS + 20 * NANOS_PER_MS, ("t",), txn.id.hex()
    assert small.store.moments.take_moments() == (
        Moment(began_ns, MomentKind.ABANDONED, tables, name),
        Moment(began_ns + 100 * NANOS_PER_MS, MomentKind.PUSHED, tables, name, open_ms=100),
        Moment(
            began_ns + 6_100 * NANOS_PER_MS, MomentKind.ENDED, tables, name, EndedBy.PUSH, 6_100, moved=True
        ),
    )


def test_a_push_of_a_transaction_with_a_coordinator_is_not_told() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    push = Push(small.first.id, (PushedTxn(txn.id, txn.anchor_key),), Timestamp(small.present.ns))
    assert answer_push(small.store, push)
    assert small.store.moments.take_moments() == ()


def test_a_writer_that_meets_its_intents_ends_it() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    small.store.abandon(txn)
    small.store.release(txn)
    small.pass_ms(5_000)
    small.begin_and_put("a")
    _, ended = small.store.moments.take_moments()
    assert (ended.kind, ended.ended_by, ended.open_ms) == (MomentKind.ENDED, EndedBy.WRITE, 5_000)


def test_a_scan_that_meets_its_intents_ends_it() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    small.store.abandon(txn)
    small.store.release(txn)
    small.pass_ms(7_000)
    small.first.heartbeat()
    assert small.store.settle(small.first, small.first.span, txn.write_timestamp)
    assert [moment.ended_by for moment in small.store.moments.take_moments()] == [None, EndedBy.SCAN]


def test_the_end_of_the_store_ends_it() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    small.store.abandon(txn)
    small.store.end_all()
    assert small.store.moments.take_moments()[-1].ended_by is EndedBy.STOP


def test_transactions_that_end_by_themselves_are_not_told() -> None:
    small = SmallStore()
    small.store.abort(small.begin_and_put("a"))
    small.store.commit(small.begin_and_put("b"))
    assert small.store.moments.take_moments() == ()


def test_splits_and_merges_are_told_with_both_ranges() -> None:
    small = SmallStore()
    new = small.store.split(small.first.id, key("c"))
    small.store.merge(small.first.id)
    told = [(moment.kind, moment.tables, moment.ranges) for moment in small.store.moments.take_moments()]
    both = (small.first.id, new.id)
    assert told == [(MomentKind.SPLIT, ("t",), both), (MomentKind.MERGED, ("t",), both)]


def test_moments_are_taken_once_and_bounded() -> None:
    moments = Moments()
    for at_ns in range(1_500):
        moments.note_ranges(at_ns, MomentKind.SPLIT, ("t",), RangeId(1), RangeId(2))
    assert [moment.at_ns for moment in moments.take_moments()] == list(range(500, 1_500))
    assert moments.take_moments() == ()


@pytest.mark.parametrize("ended_by", [None, *EndedBy])
@pytest.mark.parametrize("kind", MomentKind)
def test_a_moment_comes_back_from_json(kind: MomentKind, ended_by: EndedBy | None) -> None:
    moment = Moment(7, kind, ("flights", "weather"), TxnId(b"t" * 16).hex(), ended_by, 12, True, (3, 4))
    assert Moment.of(json.loads(json.dumps(moment.fields()))) == moment
