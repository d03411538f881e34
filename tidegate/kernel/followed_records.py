"""Counts the log records that the kernels of this process have followed.

A kernel follows a log record if it applies the record to the record's range, in place of Python.
"""

from __future__ import annotations

from typing import Final


class FollowedRecords:
    """A counter of the log records that kernels have followed. Records that Python takes are not counted."""

    def __init__(self) -> None:
        self.count = 0


#: The count of this process.
FOLLOWED: Final = FollowedRecords()
