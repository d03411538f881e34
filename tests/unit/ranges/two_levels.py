"""Histories of open transactions, and a queue beyond memory beside one that is all in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from hypothesis import strategies as st

from tidegate.hlc import MAX, Timestamp
from tidegate.raftlog.entry import TxnId
from tidegate.ranges import intent_queue
from tidegate.ranges.intent_queue import IntentQueue, TrackedTxn
from tidegate.ranges.spilled_txns import SpilledTxns, SpillStore

TXNS = [TxnId(bytes([i]) * 16) for i in (0, 1, 2, 3, 4, 5, 254, 255)]
_times = st.builds(Timestamp, st.integers(1, 6), st.integers(0, 1))
_txns = st.sampled_from(TXNS)
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
histories = st.one_of(
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
        """Return what can be asked of the queue."""
        queue = self.queue
        times = [Timestamp(wall, logical) for wall in (2, 4, 6) for logical in (0, 1)] + [MAX]
        return {
            "oldest": facts(queue.oldest()),
            "all": sorted(map(facts, queue), key=repr),
            "each": [facts(queue.get(txn_id)) for txn_id in TXNS],
            "below": [[facts(txn) for txn in queue.below(at)] for at in times],
            "first below": [[facts(txn) for txn in queue.below(at, 2)] for at in times],
            "lacking": sorted((facts(txn) for txn in queue.lacking_intents()), key=repr),
            "length": (len(queue), queue.intents, queue.rows_hash),
            "out of date": (set(queue.changed), set(queue.gone)),
            "rows": dict(self.rows),
        }

    def _freeze(self) -> None:
        """Freeze as ``tidegate.processor.state.state_codec.intent_rows`` does."""
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

    def spill(self, count: int) -> int | None:
        """Move up to so many transactions out of memory. Return how many went; ``None`` without a store."""
        return None if self._store is None else self.queue.spill(count, self._place)

    def _spill(self, count: int) -> None:
        self.spill(count)

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
    """Let so few of the oldest come back at once that these histories see it."""
    with patch.object(intent_queue, "_OLDEST_COUNT", count):
        yield
