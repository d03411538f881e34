"""Counts the log records of this process that its kernels followed."""

from __future__ import annotations

from typing import Final


class FollowedRecords:
    """Counts the log records that kernels have followed. Python has taken the others."""

    def __init__(self) -> None:
        self.count = 0


#: The count of this process.
FOLLOWED: Final = FollowedRecords()
