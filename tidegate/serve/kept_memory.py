"""One bound for what all subscriptions keep in memory, and what each of them takes of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from weakref import WeakSet, ref

from tidegate.errors import LimitExceeded
from tidegate.subscribe.updates.process_share import HeldRows


class KeptMemory:
    """Counts the bytes that objects, the *holders*, take in memory. Any thread may use it.

    A holder that the process has let go of takes nothing any more.

    Attributes:
        taken: bytes of all holders.
    """

    __slots__ = ("_counts", "_gone", "_lock", "_most", "taken")

    def __init__(self, most: int) -> None:
        """``most`` is the bound, in bytes."""
        self._most = most
        #: The holders and their bytes, by the ids of the holders.
        self._counts: dict[int, tuple[ref[object], int]] = {}
        #: The ids of holders that are gone. Any thread may let go of one, also while it counts here.
        self._gone: deque[int] = deque()
        self._lock = threading.Lock()
        self.taken = 0

    def share(self, pause: Callable[[], object] | None = None) -> KeptShare:
        """Return a share for one subscription; ``pause`` lets others go on between two rows."""
        return KeptShare(self, pause)

    @property
    def is_scarce(self) -> bool:
        """Whether half of it is taken: whoever can do with less takes less now."""
        with self._lock:
            self._forget_gone()
            return self.taken > self._most // 2

    def counts(self, holder: object) -> bool:
        """Whether a holder has said what it takes."""
        with self._lock:
            self._forget_gone()
            return id(holder) in self._counts

    def hold(self, holder: object, count: int) -> None:
        """Say how many bytes a holder takes from now on, instead of what it took before.

        Raises ``LimitExceeded`` if that is more than before, and all holders together are beyond the bound.
        Then it counts for what it took before.
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
    """A subscription is closed while a thread works for it. The thread ends, and nobody waits for it."""


class KeptShare:
    """The memory that one subscription takes (`ProcessShare`). When it is closed, it takes nothing.

    Attributes:
        memory: that of all subscriptions.
        closed: whether the subscription is.
    """

    __slots__ = ("_lock", "_pause", "_rows", "closed", "memory")

    def __init__(self, memory: KeptMemory, pause: Callable[[], object] | None = None) -> None:
        self.memory = memory
        self._pause = pause
        self._rows: WeakSet[HeldRows] = WeakSet()
        #: A thread that works may count rows while the subscription is closed.
        self._lock = threading.Lock()
        self.closed = False

    def hold(self, rows: HeldRows, count: int) -> None:
        """Say how many bytes some rows take from now on. Raises ``LimitExceeded`` as ``KeptMemory.hold``."""
        with self._lock:
            if not self.closed:
                self._rows.add(rows)
                self.memory.hold(rows, count)

    def pause(self) -> None:
        """Let others go on. Raises ``SubscriptionClosed``."""
        if self.closed:
            raise SubscriptionClosed
        if self._pause is not None:
            self._pause()

    def close(self) -> None:
        """Count nothing any more, and end the thread that works for the subscription.

        An error that ended it may hold its rows for a while.
        """
        with self._lock:
            self.closed = True
            for rows in list(self._rows):
                self.memory.hold(rows, 0)
