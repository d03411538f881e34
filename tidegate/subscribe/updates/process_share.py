"""The share of one subscription in a process that several share: memory for rows, and time."""

from __future__ import annotations

from typing import Final, Protocol

#: The holder of rows tells the share what they take only when that has changed by at least so many bytes.
STEP_BYTES: Final = 64 * 1024


class ProcessShare(Protocol):
    """The share of one subscription in a process that several share."""

    def hold(self, rows: HeldRows, count: int) -> None:
        """Note how many bytes some rows take from now on, instead of what they took before.

        Raises ``LimitExceeded`` if that is more than before, and all subscriptions together keep too much.
        When a ``HeldRows`` object is deleted, its rows count no more.
        """

    def pause(self) -> None:
        """Let other subscriptions go on, between two rows. Raises an error if this one is closed."""


class HeldRows:
    """A holder of rows that come and go one by one. Without a share it counts nothing.

    Attributes:
        share: the share to which its bytes are told. ``None`` if there is no bound: then bytes need not be
            measured.
        taken: the bytes that it counts now.
    """

    __slots__ = ("__weakref__", "_told", "share", "taken")

    def __init__(self, share: ProcessShare | None) -> None:
        self.share = share
        self._told = 0
        self.taken = 0

    def add(self, count: int) -> None:
        """Count bytes that come; a negative number counts bytes that go. Raises ``LimitExceeded``."""
        self.set(self.taken + count)

    def set(self, count: int) -> None:
        """Count ``count`` bytes instead of those before. Raises ``LimitExceeded``."""
        if self.share is None:
            return
        self.taken = count
        if abs(count - self._told) >= STEP_BYTES:
            self.share.hold(self, count)
            self._told = count
