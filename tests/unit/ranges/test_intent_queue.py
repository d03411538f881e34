"""A queue that keeps transactions beyond memory answers every question as one that does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.ranges.spill_memory import MemorySpill
from tests.unit.ranges.two_levels import TXNS, Run, coming_back, facts, histories
from tidegate.hlc import MAX, ZERO, Timestamp
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


class _Plain:
    """What a queue must be, in plain words: each open transaction, and the rows as they were stored."""

    def __init__(self) -> None:
        self.txns: dict[TxnId, tuple[bytes, Timestamp, Timestamp, int]] = {}
        self.negative = True
        self.touched: set[TxnId] = set()
        self.rows = dict(self.txns)
        self.hashes: dict[TxnId, int] = {}  # of the rows of transactions that did not end since
        self.stored = self.hashes
        self.freezes = 0

    def do(self, name: str, *arguments: object) -> bool | None:
        """Apply an op. Return whether the oldest transaction rose or left, for an op of the queue."""
        own: Callable[..., None] = getattr(self, f"_{name.split()[0]}")
        if name not in ("increment", "decrement", "forward", "remove"):
            own(*arguments)
            return None
        oldest = min(self.txns, key=self._age, default=None)
        before = None if oldest is None else self._age(oldest)
        own(*arguments)
        return oldest is not None and (oldest not in self.txns or self._age(oldest) != before)

    def tracked(self) -> list[tuple[TxnId, bytes, Timestamp, Timestamp, int]]:
        """Return all transactions, oldest first."""
        return [(txn_id, *self.txns[txn_id]) for txn_id in sorted(self.txns, key=self._age)]

    def seen(self) -> dict[str, object]:
        """Return what `_plainly` returns of a queue."""
        tracked = self.tracked()
        return {
            "all": tracked,
            "lacking": {txn_id for txn_id, *_, refs in tracked if refs <= 0},
            "length": (len(tracked), sum(refs for *_, refs in tracked), sum(self.hashes.values())),
            "changed": self.touched & self.txns.keys(),
            "deleted": self.rows.keys() - self.txns.keys(),
        }

    def _age(self, txn_id: TxnId) -> tuple[Timestamp, TxnId]:
        return self.txns[txn_id][2], txn_id

    def _increment(self, txn_id: TxnId, anchor: bytes, least: Timestamp, timestamp: Timestamp) -> None:
        known = self.txns.get(txn_id)
        if known is not None and known[0]:
            anchor, least = known[:2]
        self._count(txn_id, 1, anchor, least, timestamp)

    def _decrement(self, txn_id: TxnId, timestamp: Timestamp | None) -> None:
        if txn_id in self.txns or self.negative:
            anchor, least = self.txns.get(txn_id, (b"", ZERO))[:2]
            self._count(txn_id, -1, anchor, least, timestamp or ZERO)

    def _count(self, txn_id: TxnId, more: int, anchor: bytes, least: Timestamp, timestamp: Timestamp) -> None:
        _, _, before, refs = self.txns.get(txn_id, (b"", ZERO, ZERO, 0))
        self.txns[txn_id] = anchor, least, max(before, timestamp), refs + more
        self.touched.add(txn_id)
        if refs + more == 0 or (refs + more < 0 and not self.negative):
            self._remove(txn_id)

    def _forward(self, txn_id: TxnId, timestamp: Timestamp) -> None:
        if txn_id in self.txns and timestamp > self.txns[txn_id][2]:
            anchor, least, _, refs = self.txns[txn_id]
            self.txns[txn_id] = anchor, least, timestamp, refs
            self.touched.add(txn_id)

    def _remove(self, txn_id: TxnId) -> None:
        self.txns.pop(txn_id, None)
        self.touched.discard(txn_id)
        self.hashes.pop(txn_id, None)

    def _freeze(self, *_: object) -> None:
        self.freezes += 1
        self.hashes |= {txn_id: 1000 * self.freezes + txn_id[0] for txn_id in self.touched}
        self.rows, self.stored = dict(self.txns), dict(self.hashes)
        self.touched.clear()

    def _spill(self, *_: object) -> None:
        pass

    def _restart(self) -> None:
        self.txns, self.hashes = dict(self.rows), dict(self.stored)
        self.touched.clear()

    def _initialise(self) -> None:
        self.negative &= any(refs <= 0 for *_, refs in self.txns.values())


def _plainly(run: Run) -> dict[str, object]:
    """What a queue says, in the words of `_Plain`."""
    queue = run.queue
    found = queue.below(MAX)
    return {
        "all": [
            (each.txn_id, each.anchor_key, each.min_timestamp, each.timestamp, each.refs) for each in found
        ],
        "lacking": {each.txn_id for each in queue.lacking_intents()},
        "length": (len(queue), queue.intents, queue.rows_hash),
        "changed": queue.changed,
        "deleted": queue.gone - {each.txn_id for each in found},
    }


@pytest.mark.parametrize("ops", sorted({*permutations(("increment", "increment", "decrement", "decrement"))}))
def test_intents_that_are_resolved_before_they_are_known_are_counted(ops: Sequence[str]) -> None:
    """An intent may be written before a scan finds it, so the count may fall far before it rises."""
    queue = IntentQueue(allow_negative=True)
    count = 0
    for name in ops:
        txn = queue.get(TXNS[1])
        assert (0 if txn is None else txn.refs) == count == queue.intents
        assert [each.refs for each in queue.lacking_intents()] == ([count] if count < 0 else [])
        if name == "increment":
            queue.increment(TXNS[1], b"a", Timestamp(2), Timestamp(3))
            count += 1
        else:
            queue.decrement(TXNS[1], None)
            count -= 1
    assert (len(queue), queue.intents, queue.lacking_intents()) == (0, 0, [])


@given(histories, st.booleans())
@examples(50)
def test_a_queue_has_what_its_ops_say(history: list[tuple[object, ...]], spills: bool) -> None:
    plain, run = _Plain(), Run(MemorySpill() if spills else None)
    with coming_back(2):
        for name, *arguments in history:
            moved = run.do(str(name), *arguments)
            assert moved == plain.do(str(name), *arguments), (name, arguments)
            assert _plainly(run) == plain.seen()
            oldest = facts(run.queue.oldest())
            assert (oldest and oldest[:5]) == next(iter(plain.tracked()), None)


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
    assert run.spill(10) == 0, "whoever waits for memory must not try again"
    assert run.queue.spilled == 0


def test_a_queue_says_how_many_left_memory_and_has_no_trace_of_them_there() -> None:
    run = frozen(MemorySpill(), 100)
    assert [run.spill(count) for count in (30, 60, 60)] == [30, 60, 9]
    assert len(run.queue._heap) == run.queue.in_memory == 1


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


def test_the_oldest_come_back_a_few_at_a_time_and_each_in_its_turn() -> None:
    run = frozen(MemorySpill(), 300)
    run.do("spill", 300)
    for number in range(300):
        oldest = run.queue.oldest()
        assert oldest is not None
        assert oldest.timestamp == Timestamp(10 + number)
        assert run.queue.in_memory <= 64
        run.do("remove", oldest.txn_id)
    assert run.queue.oldest() is None


def test_what_came_back_long_ago_does_not_bring_back_what_leaves_later() -> None:
    run = frozen(MemorySpill(), 65)
    run.do("spill", 65)
    run.do("remove", TxnId((0).to_bytes(16, "big")))
    assert run.queue.oldest() is not None
    assert run.queue.spilled == 0
    for number in range(1, 65):
        run.do("remove", TxnId(number.to_bytes(16, "big")))
    for number in range(100, 200):
        run.do("increment", TxnId(number.to_bytes(16, "big")), b"a", Timestamp(number), Timestamp(number))
    run.do("freeze and spill", 200)
    oldest = run.queue.oldest()
    assert oldest is not None
    assert (oldest.timestamp, run.queue.in_memory) == (Timestamp(100), 1)


def test_a_transaction_that_came_back_is_the_oldest_without_the_others() -> None:
    run = frozen(MemorySpill(), 3)
    run.do("spill", 3)
    run.do("increment", TxnId((1).to_bytes(16, "big")), b"a", Timestamp(11), Timestamp(11))
    run.do("remove", TxnId((0).to_bytes(16, "big")))
    oldest = run.queue.oldest()
    assert oldest is not None
    assert oldest.timestamp == Timestamp(11)
    assert (run.queue.in_memory, run.queue.spilled) == (1, 1)


def test_one_stays_out_of_memory_until_it_is_the_oldest() -> None:
    run = frozen(MemorySpill(), 3)
    run.do("spill", 3)
    with coming_back(1):
        run.do("remove", TxnId((0).to_bytes(16, "big")))
        assert run.queue.oldest() is not None
        first = TxnId((1).to_bytes(16, "big"))
        run.do("forward", first, Timestamp(11, 5))
        oldest = run.queue.oldest()
        assert oldest is not None
        assert (oldest.txn_id, run.queue.in_memory) == (first, 1)
        run.do("forward", first, Timestamp(12, 5))
        oldest = run.queue.oldest()
        assert oldest is not None
        assert (oldest.timestamp, run.queue.in_memory) == (Timestamp(12), 2)


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


def test_places_that_transactions_have_left_take_a_bounded_part_of_memory() -> None:
    """The first one stays the oldest, so that no place behind it comes to the top of the heap.

    It would be slow to look for such places at each op.
    """
    short_lived, moves = (_queue(*range(1, 11)) for _ in range(2))
    beyond: tuple[list[int], list[int]] = [], []
    for number in range(300):
        txn_id = TxnId(b"%016d" % number)
        short_lived.increment(txn_id, b"a", Timestamp(50), Timestamp(50))
        short_lived.decrement(txn_id, None)
        moves.forward(_id(5), Timestamp(100 + number))
        for places, queue in zip(beyond, (short_lived, moves), strict=True):
            places.append(len(queue._heap) - 4 * len(queue))
    assert [max(places) for places in beyond] == [64, 64]


# ---- followed elsewhere ----


def _queue(*seconds: int) -> IntentQueue:
    """A queue of transactions that have one intent each, opened at these times."""
    queue = IntentQueue(allow_negative=False)
    for number, second in enumerate(seconds):
        queue.increment(_id(number), b"a", Timestamp(second), Timestamp(second))
    return queue


def _id(number: int) -> TxnId:
    return TxnId(bytes([number]) * 16)


@pytest.mark.parametrize("changes", [False, True])
def test_the_oldest_beside_some_is_found_without_a_change(changes: bool) -> None:
    queue = _queue(5, 3, 9, 3, 7)
    if changes:
        queue.forward(_id(0), Timestamp(8))
        queue.remove(_id(1))
    for named in range(32):
        ids = {_id(number) for number in range(5) if named >> number & 1}
        rest = [txn for txn in queue if txn.txn_id not in ids]
        expected = min(rest, key=lambda txn: (txn.timestamp, txn.txn_id), default=None)
        assert queue.oldest_beside(ids) is expected


def test_a_transaction_that_was_followed_elsewhere_takes_its_place() -> None:
    queue, reference = _queue(5, 3), _queue(5, 3)
    for each in (queue, reference):
        each.changed.clear()
    for _ in range(2):
        reference.increment(_id(0), b"a", Timestamp(5), Timestamp(9))
    queue.replace(_id(0), 3, Timestamp(9), None)
    reference.increment(_id(1), b"a", Timestamp(3), Timestamp(3))
    queue.replace(_id(1), 2, Timestamp(3), None)
    reference.increment(_id(2), b"b", Timestamp(1), Timestamp(4))
    queue.replace(_id(2), 1, Timestamp(4), (b"b", Timestamp(1)))
    assert queue.changed == reference.changed
    assert (queue.intents, len(queue)) == (reference.intents, len(reference))
    for one, other in zip(queue, reference, strict=True):
        assert pack_txn(one) == pack_txn(other)
    assert queue.below(MAX)[-1].txn_id == _id(0)
