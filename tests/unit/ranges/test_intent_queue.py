"""A queue that keeps transactions beyond memory answers every question as one that does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.ranges.spill_memory import MemorySpill
from tests.unit.ranges.two_levels import TXNS, Run, coming_back, histories
from tidegate.hlc import MAX, Timestamp
from tidegate.raftlog.entry import TxnId
from tidegate.ranges.intent_queue import IntentQueue
from tidegate.ranges.spilled_txns import SpillStore
from tidegate.ranges.tracked_txn import pack_txn


@given(histories, st.integers(1, 3))
@examples(200)
def test_two_levels_answer_as_one(history: list[tuple[object, ...]], at_once: int) -> None:
    plain, two_level = Run(None), Run(MemorySpill())
    with coming_back(at_once):
        for name, *arguments in history:
            assert two_level.do(str(name), *arguments) == plain.do(str(name), *arguments)
            assert two_level.seen() == plain.seen()
        assert two_level.queue.forget_all() == plain.queue.forget_all()


@given(histories)
@examples(100)
def test_a_queue_that_is_asked_nothing_between_ops_ends_up_the_same(
    history: list[tuple[object, ...]],
) -> None:
    """Questions bring transactions back to memory, and must not be what makes the answers right."""
    plain, two_level = Run(None), Run(MemorySpill())
    with coming_back(1):
        for name, *arguments in history:
            assert two_level.do(str(name), *arguments) == plain.do(str(name), *arguments)
            if name == "freeze":
                two_level.do("spill", 8)
        assert two_level.seen() == plain.seen()


def frozen(store: SpillStore, count: int) -> Run:
    """``count`` transactions, the first of them the oldest, all of them frozen."""
    run = Run(store)
    run.do("initialise")
    for number in range(count):
        at = Timestamp(10 + number)
        run.do("increment", TxnId(number.to_bytes(16, "big")), b"a", at, at)
    run.do("freeze")
    return run


def test_all_but_the_oldest_can_leave_memory() -> None:
    run = frozen(MemorySpill(), 1000)
    run.do("spill", 10_000)
    assert (run.queue.in_memory, run.queue.spilled, len(run.queue)) == (1, 999, 1000)


def test_what_is_not_frozen_stays_in_memory() -> None:
    run = frozen(MemorySpill(), 3)
    for number in (1, 2):
        run.do("increment", TxnId(number.to_bytes(16, "big")), b"a", Timestamp(11), Timestamp(20))
    run.do("spill", 10)
    assert run.queue.in_memory == 3


def test_nothing_leaves_memory_while_counts_may_be_negative() -> None:
    run = Run(MemorySpill())
    for txn_id in TXNS:
        run.do("decrement", txn_id, Timestamp(5))
    run.do("freeze")
    run.do("spill", 10)
    assert run.queue.spilled == 0


def test_an_op_brings_back_its_transaction_and_no_other() -> None:
    run = frozen(MemorySpill(), 100)
    run.do("spill", 100)
    run.do("forward", TxnId((70).to_bytes(16, "big")), Timestamp(500))
    assert run.queue.in_memory == 2
    assert len(run.queue) == 100


def test_a_question_for_one_transaction_brings_nothing_back() -> None:
    run = frozen(MemorySpill(), 100)
    run.do("spill", 100)
    assert run.queue.get(TxnId((70).to_bytes(16, "big"))) is not None
    assert len(run.queue.below(MAX)) == len(list(run.queue)) == 100
    assert run.queue.in_memory == 1


def test_the_oldest_come_back_as_they_are_needed() -> None:
    run = frozen(MemorySpill(), 1000)
    run.do("spill", 1000)
    assert run.do("remove", TxnId((0).to_bytes(16, "big"))) is True
    oldest = run.queue.oldest()
    assert oldest is not None
    assert oldest.timestamp == Timestamp(11)
    assert 1 <= run.queue.in_memory < 200


def test_a_queue_thrown_away_leaves_nothing_behind() -> None:
    store = MemorySpill()
    run = frozen(store, 100)
    run.do("spill", 100)
    assert store.rows
    assert len(run.queue.forget_all()) == 100
    assert not store.rows
    assert run.queue.spill_bytes == 0


@given(histories)
def test_the_bytes_beyond_memory_are_counted(history: list[tuple[object, ...]]) -> None:
    store = MemorySpill()
    run = Run(store)
    for name, *arguments in history:
        run.do(str(name), *arguments)
        held = sum(len(key) + len(value) for key, value in store.rows.items())
        assert run.queue.spill_bytes == held
        assert 2 * run.queue.spilled == len(store.rows)


# ---- followed elsewhere ----


def _queue(*seconds: int) -> IntentQueue:
    """A queue of transactions that have one intent each, opened at these times."""
    queue = IntentQueue(allow_negative=False)
    for number, second in enumerate(seconds):
        queue.increment(_id(number), b"a", Timestamp(second), Timestamp(second))
    return queue


def _id(number: int) -> TxnId:
    return TxnId(bytes([number]) * 16)


def test_the_oldest_beside_some_is_found_without_a_change() -> None:
    queue = _queue(5, 3, 9, 3, 7)
    queue.forward(_id(0), Timestamp(8))
    queue.remove(_id(1))
    for named in range(32):
        ids = {_id(number) for number in range(5) if named >> number & 1}
        rest = [txn for txn in queue if txn.txn_id not in ids]
        expected = min(rest, key=lambda txn: (txn.timestamp, txn.txn_id), default=None)
        assert queue.oldest_beside(ids) is expected


def test_a_transaction_that_was_followed_elsewhere_takes_its_place() -> None:
    queue, reference = _queue(5, 3), _queue(5, 3)
    for _ in range(2):
        reference.increment(_id(0), b"a", Timestamp(5), Timestamp(9))
    queue.replace(_id(0), 3, Timestamp(9), None)
    reference.increment(_id(2), b"b", Timestamp(1), Timestamp(4))
    queue.replace(_id(2), 1, Timestamp(4), (b"b", Timestamp(1)))
    assert queue.changed == reference.changed
    assert (queue.intents, len(queue)) == (reference.intents, len(reference))
    for one, other in zip(queue, reference, strict=True):
        assert pack_txn(one) == pack_txn(other)
    assert queue.below(MAX)[-1].txn_id == _id(0)
