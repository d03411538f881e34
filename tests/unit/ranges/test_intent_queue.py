"""A queue that keeps transactions beyond memory answers every question as one that does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.ranges.spill_memory import MemorySpill
from tidegate.errors import StateError
from tidegate.hlc import MAX, MAX_LOGICAL, Timestamp
from tidegate.raftlog.entry import TxnId
from tidegate.ranges import intent_queue
from tidegate.ranges.intent_queue import IntentQueue, TrackedTxn
from tidegate.ranges.spilled_txns import SpilledTxns, SpillStore
from tidegate.ranges.tracked_txn import pack_txn, unpack_txn
from tidegate.worker.state.spill import RocksSpill

_TXNS = [TxnId(bytes([i]) * 16) for i in (0, 1, 2, 3, 4, 5, 254, 255)]
_times = st.builds(Timestamp, st.integers(1, 6), st.integers(0, 1))
_txns = st.sampled_from(_TXNS)
_increments = st.tuples(st.just("increment"), _txns, st.sampled_from([b"", b"a"]), _times, _times)
_ops = st.one_of(
    _increments,
    _increments,
    st.tuples(st.just("decrement"), _txns, st.none() | _times),
    st.tuples(st.just("forward"), _txns, _times),
    st.tuples(st.just("remove"), _txns),
    st.tuples(st.just("freeze")),
    st.tuples(st.just("spill"), st.integers(1, 8)),
    st.tuples(st.just("freeze and spill"), st.integers(1, 8)),
    st.tuples(st.just("restart")),
)
_MOVED = ("freeze and spill", 8)
#: Counts may be negative up to the op that initialises. Most histories begin with transactions that have left
#: memory, for that is where the two levels could differ.
_histories = st.one_of(
    st.lists(_ops, max_size=60).map(lambda ops: [("initialise",), *ops]),
    st.tuples(st.lists(_ops, max_size=20), st.lists(_ops, max_size=40)).map(
        lambda parts: [*parts[0], ("initialise",), *parts[1]]
    ),
    *[
        st.tuples(
            st.lists(_increments, min_size=5, max_size=12), st.lists(_ops, min_size=5, max_size=40)
        ).map(lambda parts: [("initialise",), *parts[0], _MOVED, *parts[1]])
    ]
    * 4,
)
_Rows = dict[TxnId, tuple[object, ...]]


def facts(txn: TrackedTxn | None) -> tuple[object, ...] | None:
    """Everything that is known of a transaction."""
    if txn is None:
        return None
    return (
        txn.txn_id,
        txn.anchor_key,
        txn.min_timestamp,
        txn.timestamp,
        txn.refs,
        txn.stored,
        txn.row_hash,
    )


class Run:
    """A queue, the rows that its freezes left behind, and a place beyond memory where it has one."""

    def __init__(self, store: SpillStore | None) -> None:
        self.queue = IntentQueue(allow_negative=True)
        self.rows: _Rows = {}
        self._store = store
        self._places = 0
        self._freezes = 0

    def do(self, name: str, *arguments: object) -> bool | None:
        """Apply an op; what the queue returned for it."""
        own: Callable[..., None] | None = getattr(self, f"_{name.replace(' ', '_')}", None)
        if own is not None:
            return own(*arguments)
        moved: bool = getattr(self.queue, name)(*arguments)
        return moved

    def seen(self) -> dict[str, object]:
        """What can be asked of the queue."""
        queue = self.queue
        times = [Timestamp(wall, logical) for wall in (2, 4, 6) for logical in (0, 1)] + [MAX]
        return {
            "oldest": facts(queue.oldest()),
            "all": sorted(map(facts, queue), key=repr),
            "each": [facts(queue.get(txn_id)) for txn_id in _TXNS],
            "below": [[facts(txn) for txn in queue.below(at)] for at in times],
            "first below": [[facts(txn) for txn in queue.below(at, 2)] for at in times],
            "lacking": sorted((facts(txn) for txn in queue.lacking_intents()), key=repr),
            "length": (len(queue), queue.intents, queue.rows_hash),
            "out of date": (set(queue.changed), set(queue.gone)),
            "rows": dict(self.rows),
        }

    def _freeze(self) -> None:
        """As ``tidegate.processor.state.state_codec.intent_rows`` does."""
        self._freezes += 1
        for txn_id in self.queue.gone - self.queue.changed:
            del self.rows[txn_id]
        for txn_id in self.queue.changed:
            txn = self.queue.get(txn_id)
            assert txn is not None
            self.queue.stored_as(txn, 1000 * self._freezes + txn_id[0])
            self.rows[txn_id] = (txn.anchor_key, txn.min_timestamp, txn.timestamp, txn.refs, txn.row_hash)
        self.queue.changed.clear()
        self.queue.gone.clear()

    def _initialise(self) -> None:
        self.queue.allow_negative &= bool(self.queue.lacking_intents())

    def _spill(self, count: int) -> None:
        if self._store is not None:
            self.queue.spill(count, self._place)

    def _freeze_and_spill(self, count: int) -> None:
        self._freeze()
        self._spill(count)

    def _restart(self) -> None:
        negative = self.queue.allow_negative
        if self._store is not None:
            self._store.delete_range(b"", b"\xff" * 9)
        self.queue = IntentQueue(allow_negative=negative)
        for txn_id, row in self.rows.items():
            anchor_key, least, timestamp, refs, row_hash = row
            txn = TrackedTxn(txn_id, anchor_key, least, timestamp, refs)  # type: ignore[arg-type]
            txn.row_hash = row_hash  # type: ignore[assignment]
            self.queue.restore(txn)

    def _place(self) -> SpilledTxns:
        assert self._store is not None
        self._places += 1
        return SpilledTxns(self._store, self._places.to_bytes(8, "big"))


@contextmanager
def coming_back(count: int) -> Iterator[None]:
    """So few of the oldest come back at once that these histories see it."""
    with patch.object(intent_queue, "_OLDEST_COUNT", count):
        yield


@given(_histories, st.integers(1, 3))
@examples(200)
def test_two_levels_answer_as_one(history: list[tuple[object, ...]], at_once: int) -> None:
    plain, two_level = Run(None), Run(MemorySpill())
    with coming_back(at_once):
        for name, *arguments in history:
            assert two_level.do(str(name), *arguments) == plain.do(str(name), *arguments)
            assert two_level.seen() == plain.seen()
        assert two_level.queue.forget_all() == plain.queue.forget_all()


@given(_histories)
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


@given(_histories)
@examples(12)
def test_two_levels_answer_as_one_over_rocksdb(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[object, ...]]
) -> None:
    with closing(RocksSpill(tmp_path_factory.mktemp("spill"))) as store, coming_back(2):
        plain, two_level = Run(None), Run(store)
        for name, *arguments in history:
            assert two_level.do(str(name), *arguments) == plain.do(str(name), *arguments)
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
    for txn_id in _TXNS:
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


@given(_histories)
def test_the_bytes_beyond_memory_are_counted(history: list[tuple[object, ...]]) -> None:
    store = MemorySpill()
    run = Run(store)
    for name, *arguments in history:
        run.do(str(name), *arguments)
        held = sum(len(key) + len(value) for key, value in store.rows.items())
        assert run.queue.spill_bytes == held
        assert 2 * run.queue.spilled == len(store.rows)


_wide_times = st.builds(Timestamp, st.integers(0, 2**63 - 1), st.integers(0, MAX_LOGICAL))


@given(_wide_times, _wide_times, st.integers(-(2**62), 2**62), st.binary(max_size=40))
def test_a_packed_transaction_is_the_one_that_was_packed(
    timestamp: Timestamp, least: Timestamp, refs: int, anchor_key: bytes
) -> None:
    txn = TrackedTxn(_TXNS[0], anchor_key, least, timestamp, refs)
    txn.stored, txn.row_hash = True, 2**64 - 1
    assert facts(unpack_txn(_TXNS[0], pack_txn(txn))) == facts(txn)


def test_the_store_beyond_memory_is_made_by_the_first_write_and_deleted_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "spill"
    path.mkdir()
    (path / "left by a worker that was killed").write_text("")
    store = RocksSpill(path)
    assert (store.get(b"a"), list(store.scan(b"", b"z")), store.disk_bytes) == (None, [], 0)
    store.write([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], [b"b"])
    assert list(store.scan(b"a", b"c")) == [(b"a", b"1")]
    assert store.disk_bytes > 0
    store.delete_range(b"a", b"c")
    assert list(store.scan(b"", b"z")) == [(b"c", b"3")]
    assert not (path / "left by a worker that was killed").exists()
    store.close()
    assert not path.exists()
    store.write([(b"d", b"4")], [])
    assert list(store.scan(b"", b"z")) == [(b"d", b"4")]
    store.close()


def test_a_store_that_cannot_be_written_says_where_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = RocksSpill(tmp_path / "file" / "spill")
    with pytest.raises(StateError, match=r"cannot be moved out of memory to .*file/spill.*make room there"):
        store.write([(b"a", b"1")], [])
