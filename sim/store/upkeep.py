"""The store's own care for its ranges: splits, merges, lease moves, garbage collection, troubles.

Source: CockroachDB's split, merge and GC queues and its load-based splitter (``pkg/kv/kvserver``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, Protocol

from sim.options import StoreOptions
from sim.schedule import Action
from sim.store.range import Range
from sim.store.store import RangeStore
from sim.workload_tables import secondary_index
from tidegate.hlc import NANOS_PER_MS, NANOS_PER_SECOND, Timestamp
from tidegate.raftlog.entry import RangeId, SnapshotReason

#: How often sizes and loads are checked.
_LOOK_EVERY_MS: Final = 1_000
#: Garbage is collected so many times between a version's replacement and the time when it may be collected.
_COLLECTIONS_PER_TTL: Final = 4


class Splitter(Protocol):
    """Splits a range, and lets the new range publish its closed timestamps by itself."""

    def __call__(self, range_id: RangeId, key: bytes) -> RangeId:
        """Return the id of the new range, which begins at ``key``."""


class Upkeep:
    """Does what ``options`` ask for, each thing about as often as they say.

    It has random choices of its own, so switching it on or off changes no other choice of the simulation.
    """

    def __init__(
        self,
        store: RangeStore,
        options: StoreOptions,
        rng: Random,
        split: Splitter,
        after: Callable[[int, Action], None],
    ) -> None:
        self._store = store
        self._options = options
        self._rng = rng
        self._split = split
        self._after = after
        self._seen: dict[RangeId, int] = {}
        self._calm = False

    def begin(self) -> None:
        """Begin with everything that is switched on."""
        options = self._options
        for interval_ms, action in (
            (options.split_every_ms, partial(self._unless_calm, self._split_somewhere)),
            (options.merge_every_ms, partial(self._unless_calm, self._merge_somewhere)),
            (options.move_lease_every_ms, partial(self._unless_calm, self._move_some_lease)),
            (options.build_index_every_ms, partial(self._unless_calm, self._build_some_index)),
            (options.skip_every_ms, partial(self._unless_calm, self._skip_somewhere)),
            (options.opless_every_ms, partial(self._unless_calm, self._lose_ops_somewhere)),
            (max(1, options.gc_ttl_ms // _COLLECTIONS_PER_TTL) if options.gc_ttl_ms else 0, self._collect),
            (_LOOK_EVERY_MS if options.watches_ranges else 0, self._look_at_ranges),
        ):
            if interval_ms:
                self._do_later(interval_ms, action)

    def calm(self) -> None:
        """Do nothing at random any more. Troubles that have begun end in their time.

        A real store comes to rest too when nothing is written. A store that went on to split and merge would
        keep its readers busy for ever, and no test could ask whether they reach the end of the log.
        """
        self._calm = True

    def _unless_calm(self, action: Action) -> None:
        if not self._calm:
            action()

    def _do_later(self, interval_ms: int, action: Action) -> None:
        def act() -> None:
            action()
            self._do_later(interval_ms, action)

        self._after(self._about(interval_ms), act)

    def _about(self, interval_ms: int) -> int:
        """Return the interval, changed at random by up to half of it, in nanoseconds."""
        return int((0.5 + self._rng.random()) * interval_ms * NANOS_PER_MS)

    # ---- at random ----

    def _split_somewhere(self) -> None:
        self._split_at_one_of(self._some_range())

    def _split_at_one_of(self, range_: Range) -> None:
        keys = range_.split_keys()
        if keys:
            self._split(range_.id, self._rng.choice(keys))

    def _merge_somewhere(self) -> None:
        right_of = self._store.ranges.right_of
        found = [range_.id for range_ in self._store.ranges if right_of(range_) is not None]
        if found:
            self._store.merge(self._rng.choice(found))

    def _move_some_lease(self) -> None:
        self._store.move_lease(self._some_range().id, self._rng.randrange(self._options.nodes))

    def _build_some_index(self) -> None:
        """Build an index of a random table.

        In half of the cases ranges are split first, so that some hold keys of the index alone.
        """
        table_id = self._some_range().descriptor.table[0].table_id
        start = secondary_index(table_id).start
        if self._rng.random() < 0.5:
            for range_ in [range_ for range_ in self._store.ranges if range_.span.contains(start)]:
                if range_.span.start < start:
                    self._split(range_.id, start)
        self._store.build_index(table_id)

    def _some_range(self) -> Range:
        return self._rng.choice(list(self._store.ranges))

    # ---- by size and load ----

    def _look_at_ranges(self) -> None:
        options = self._options
        rates = self._rates()
        for range_ in list(self._store.ranges):
            large = options.split_bytes and range_.rows.bytes > options.split_bytes
            busy = options.split_rate and rates[range_.id] > options.split_rate
            key = range_.middle_key() if large else range_.busy_key() if busy else None
            if key is not None:
                self._split(range_.id, key)
        for range_ in list(self._store.ranges):
            self._merge_if_small(range_, rates)

    def _merge_if_small(self, range_: Range, rates: dict[RangeId, float]) -> None:
        """Merge with the range to the right if both together are small.

        Ranges that came from a split just now are not merged, nor those whose result would be split again.
        """
        options = self._options
        right = None if range_.ended else self._store.ranges.right_of(range_)
        if right is None or right.id not in rates or range_.id not in rates:
            return
        size = range_.rows.bytes + right.rows.bytes
        load = rates[range_.id] + rates[right.id]
        if size <= options.merge_bytes and (not options.split_rate or load < options.split_rate / 2):
            self._store.merge(range_.id)

    def _rates(self) -> dict[RangeId, float]:
        """Return each range's versions per second since the last look."""
        seconds = _LOOK_EVERY_MS * NANOS_PER_MS / NANOS_PER_SECOND
        before = self._seen
        self._seen = {range_.id: range_.written for range_ in self._store.ranges}
        return {
            range_id: (count - before.get(range_id, 0)) / seconds for range_id, count in self._seen.items()
        }

    def _collect(self) -> None:
        threshold = Timestamp(self._store.present.ns - self._options.gc_ttl_ms * NANOS_PER_MS)
        for range_ in self._store.ranges:
            range_.collect(threshold)

    # ---- troubles ----

    def _skip_somewhere(self) -> None:
        """Leave entries of a range out of its log. A Raft snapshot follows them."""
        range_ = self._some_range()
        if not range_.log.silent:
            range_.log.silent = True
            self._after(self._trouble_ns(), partial(self._end_skipping, range_))

    def _end_skipping(self, range_: Range) -> None:
        if range_.log.silent and not range_.ended:
            self._store.end_silence(range_)

    def _lose_ops_somewhere(self) -> None:
        """Leave the logical ops out of a range's commands. A periodic snapshot follows these."""
        range_ = self._some_range()
        if not range_.log.opless:
            range_.log.opless = True
            self._after(self._trouble_ns(), partial(self._end_losing_ops, range_))

    def _end_losing_ops(self, range_: Range) -> None:
        range_.log.opless = False
        if not range_.ended:
            self._store.snapshot(range_, SnapshotReason.PERIODIC)

    def _trouble_ns(self) -> int:
        return self._rng.randint(1, self._options.trouble_ms) * NANOS_PER_MS
