"""The share of one subscription in a process that several share: memory for rows, and time."""

from __future__ import annotations

from typing import Final, Protocol

#: Rows are not counted one by one: their holder says what they take when that has changed by so many bytes.
STEP_BYTES: Final = 64 * 1024


class ProcessShare(Protocol):
    """The share of one subscription in a process that several share."""

    def hold(self, rows: HeldRows, count: int) -> None:
        """Say how many bytes some rows take from now on, instead of what they took before.

        Raises ``LimitExceeded`` if that is more than before, and all subscriptions together keep too much.
        Rows that the process has let go of take nothing.
        """

    def pause(self) -> None:
        """Let others go on, between two rows. Raises an error if the subscription is closed."""


class HeldRows:
    """A holder of rows that come and go one by one. Without a share it counts nothing.

    Attributes:
        share: where it counts bytes; ``None`` if there is no bound. Then bytes need not be measured.
        taken: the bytes that it counts now.
    """

    __slots__ = ("__weakref__", "_told", "share", "taken")

    def __init__(self, share: ProcessShare | None) -> None:
        self.share = share
        self._told = 0
        self.taken = 0

    def add(self, count: int) -> None:
        """Count bytes that come, or that go by a negative number. Raises ``LimitExceeded``."""
        self.set(self.taken + count)

    def set(self, count: int) -> None:
        """Count so many bytes instead of those before. Raises ``LimitExceeded``."""
        if self.share is None:
            return
        self.taken = count
        if abs(count - self._told) >= STEP_BYTES:
            self.share.hold(self, count)
            self._told = count
