"""A transaction's coordinator, which carries out a plan, one request per step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final, NamedTuple, TypeAlias, TypeVar

from sim.options import StoreOptions
from sim.plan import Outcome, TransactionPlan, Write
from sim.schedule import Action
from sim.store.range import Range
from sim.store.store import RangeStore
from sim.store.transaction import SimTxnStatus
from tidegate.hlc import NANOS_PER_MS

#: A plan is given up when so many of its transactions were aborted.
_MAX_ATTEMPTS: Final = 20
_FIRST_WAIT_NS: Final = NANOS_PER_MS
_MOST_DOUBLINGS: Final = 6

_T = TypeVar("_T")
_Request: TypeAlias = tuple[Range, list[Write]]


class Surroundings(NamedTuple):
    """The objects that all coordinators share. ``after`` runs an action so many nanoseconds from now."""

    store: RangeStore
    options: StoreOptions
    rng: Random
    after: Callable[[int, Action], None]

    def pause_ns(self, longest_ms: int) -> int:
        """Return a random duration of at most ``longest_ms``, in nanoseconds."""
        return int(self.rng.random() * longest_ms * NANOS_PER_MS)


class Coordinator:
    """Runs one plan to its end. A transaction that somebody aborts is begun again, as a new one."""

    __slots__ = (
        "_around",
        "_attempts",
        "_one_phase",
        "_plan",
        "_ranges_seen",
        "_requests",
        "_restarted",
        "_txn",
        "_waits",
    )

    def __init__(self, around: Surroundings, plan: TransactionPlan) -> None:
        self._around = around
        self._plan = plan
        self._attempts = 0
        self._begin()

    @property
    def done(self) -> bool:
        """Whether the plan has ended."""
        return self._txn.released

    def step(self) -> None:
        """Send the next request, and schedule the one after it."""
        if self._ranges_seen != self._around.store.ranges.changes:
            self._look_up_again()
        if self._txn.status is SimTxnStatus.ABORTED:
            self._begin_again()
        elif not self._requests:
            self._decide()
        elif self._one_phase:
            self._commit_one_phase()
        else:
            self._put()

    def _begin(self) -> None:
        self._attempts += 1
        self._restarted = False
        self._waits = 0
        self._txn = self._around.store.begin()
        self._requests = self._requests_of(self._plan.writes)
        self._one_phase = self._plan.one_phase and self._fits_one_phase()

    def _look_up_again(self) -> None:
        """Find the ranges of the remaining writes again, since ranges were split or merged."""
        left = [write for _, writes in self._requests for write in writes]
        self._requests = self._requests_of(left)
        self._one_phase = self._one_phase and self._fits_one_phase()

    def _fits_one_phase(self) -> bool:
        """Return whether all writes are in one request, and no key has two of them."""
        writes = self._plan.writes
        return len(self._requests) == 1 and len({write.key for write in writes}) == len(writes)

    def _commit_one_phase(self) -> None:
        if self._around.store.commit_one_phase(self._txn, *self._requests[0]):
            self._end()
        else:
            self._wait()

    def _put(self) -> None:
        if self._around.store.put(self._txn, *self._requests[0]):
            self._requests.popleft()
            self._waits = 0
            self._step_later()
        else:
            self._wait()

    def _decide(self) -> None:
        store, txn, outcome = self._around.store, self._txn, self._plan.outcome
        if outcome is Outcome.RESTART and not self._restarted:
            self._restart()
            return
        if outcome is Outcome.ABANDON:
            store.abandon(txn)
        elif outcome is Outcome.ABORT:
            store.abort(txn)
        else:
            store.commit(txn)
        self._end()

    def _restart(self) -> None:
        self._around.store.restart(self._txn)
        self._restarted = True
        self._requests = self._requests_of(self._plan.rewrites)
        self._step_later()

    def _begin_again(self) -> None:
        """Begin again as a new transaction, since somebody aborted this one.

        The coordinator may send one more request before, as if it did not know that yet.
        """
        around = self._around
        if self._requests and around.rng.random() < around.options.zombie_fraction:
            around.store.put(self._txn, *self._requests[0])
        self._end()
        if self._attempts < _MAX_ATTEMPTS:
            self._begin()
            self._step_later()

    def _end(self) -> None:
        """Release the transaction. If it has committed or aborted, resolve its intents, now or later."""
        if not self._txn.pending:
            self._resolve_intents()
        self._around.store.release(self._txn)

    def _resolve_intents(self) -> None:
        """Resolve the intents: those in the range of the transaction's record now, the others later, in any
        order.
        """
        store, options, rng, after = self._around
        txn = self._txn
        for range_id, keys in list(txn.intents.items()):
            if range_id == store.ranges.holding(txn.anchor_key).id:
                store.resolve(txn, range_id, list(keys))
                continue
            for some in _chunks(rng.sample(list(keys), len(keys)), options.request_writes):
                delay_ns = self._around.pause_ns(options.resolve_delay_ms)
                after(delay_ns, partial(store.resolve_anywhere, txn, some))

    def _wait(self) -> None:
        """Try again after a wait that grows each time: what is in the way may stay until it expires."""
        self._waits += 1
        self._around.after(_FIRST_WAIT_NS << min(self._waits, _MOST_DOUBLINGS), self.step)

    def _step_later(self) -> None:
        self._around.after(self._around.pause_ns(self._around.options.request_gap_ms), self.step)

    def _requests_of(self, writes: Sequence[Write]) -> deque[_Request]:
        """Return requests of at most the allowed size, each with writes of one range.

        The ranges come in the order in which they first occur in ``writes``.
        """
        holding = self._around.store.ranges.holding
        self._ranges_seen = self._around.store.ranges.changes
        by_range: dict[Range, list[Write]] = {}
        for write in writes:
            by_range.setdefault(holding(write.key), []).append(write)
        most = self._around.options.request_writes
        return deque((range_, some) for range_, all_ in by_range.items() for some in _chunks(all_, most))


def _chunks(items: list[_T], most: int) -> list[list[_T]]:
    return [items[at : at + most] for at in range(0, len(items), most)]
