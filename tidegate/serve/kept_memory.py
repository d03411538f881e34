"""Bounds the memory that all subscriptions take together, and counts what each of them takes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from weakref import WeakSet, ref

from tidegate.errors import LimitExceeded
from tidegate.subscribe.updates.process_share import HeldRows


class KeptMemory:
    """Counts the bytes that objects, the *holders*, take in memory. Any thread may use it.

    A holder that the process has freed does not count any more.

    Attributes:
        taken: bytes of all holders.
    """

    __slots__ = ("_counts", "_gone", "_lock", "_most", "taken")

    def __init__(self, most: int) -> None:
        """``most`` is the bound, in bytes."""
        self._most = most
        #: The holders and their bytes, by the ids of the holders.
        self._counts: dict[int, tuple[ref[object], int]] = {}
        #: The ids of holders that are gone. Any thread may free a holder, even a thread that counts here now.
        self._gone: deque[int] = deque()
        self._lock = threading.Lock()
        self.taken = 0

    def share(self, pause: Callable[[], object] | None = None) -> KeptShare:
        """Return a share for one subscription. Its work calls ``pause`` between rows, to let others go on."""
        return KeptShare(self, pause)

    @property
    def is_scarce(self) -> bool:
        """Whether more than half of the bound is taken. Work that can use less memory then uses less."""
        with self._lock:
            self._forget_gone()
            return self.taken > self._most // 2

    def counts(self, holder: object) -> bool:
        """Whether ``hold`` was called for this holder."""
        with self._lock:
            self._forget_gone()
            return id(holder) in self._counts

    def hold(self, holder: object, count: int) -> None:
        """Say how many bytes a holder takes from now on, instead of what it took before.

        Raises ``LimitExceeded`` if that is more than before, and all holders together would be beyond the
        bound. Then the holder still counts for what it took before.
        """
        with self._lock:
            self._forget_gone()
            number = id(holder)
            known, before = self._counts.get(number) or (ref(holder, lambda _: self._gone.append(number)), 0)
            if count > before and self.taken - before + count > self._most:
                raise LimitExceeded(
                    f"all subscriptions together keep more than {self._most >> 20:,} MiB: rows for LIMIT and "
                    "OFFSET, rows by key of readers of their own, snapshots and batches that clients have "
                    "not taken yet. Subscribe without these, read faster, or try later"
                )
            self._counts[number] = known, count
            self.taken += count - before

    def _forget_gone(self) -> None:
        while self._gone:
            _, count = self._counts.pop(self._gone.popleft())
            self.taken -= count


class SubscriptionClosed(Exception):
    """A subscription was closed while a thread works for it. It ends that thread's work."""


class KeptShare:
    """The memory that one subscription takes (`ProcessShare`). When it is closed, it takes nothing.

    Attributes:
        memory: the memory of all subscriptions.
        closed: whether the subscription is closed.
    """

    __slots__ = ("_lock", "_pause", "_rows", "closed", "memory")

    def __init__(self, memory: KeptMemory, pause: Callable[[], object] | None = None) -> None:
        self.memory = memory
        self._pause = pause
        self._rows: WeakSet[HeldRows] = WeakSet()
        #: A thread that works may count rows at the same time as the subscription is closed.
        self._lock = threading.Lock()
        self.closed = False

    def hold(self, rows: HeldRows, count: int) -> None:
        """Say how many bytes some rows take from now on. Raises as ``KeptMemory.hold`` does."""
        with self._lock:
            if not self.closed:
                self._rows.add(rows)
                self.memory.hold(rows, count)

    def pause(self) -> None:
        """Let others go on. Raises ``SubscriptionClosed`` once the subscription is closed."""
        if self.closed:
            raise SubscriptionClosed
        if self._pause is not None:
            self._pause()

    def close(self) -> None:
        """Count nothing from now on, and end the work of a thread for the subscription.

        The rows count for nothing even if the error that ended the subscription still holds them.
        """
        with self._lock:
            self.closed = True
            for rows in list(self._rows):
                self.memory.hold(rows, 0)
