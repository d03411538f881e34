"""What is due when, in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

Action: TypeAlias = Callable[[], None]
#: After the end of time.
NEVER_NS: Final = 2**63


class _Due(NamedTuple):
    at_ns: int
    number: int  # makes ties go in the order of their entry, and keeps actions from being compared
    action: Action


class Schedule:
    """A queue of actions by time; those of one time run in the order in which they were added."""

    __slots__ = ("_entries", "_number")

    def __init__(self) -> None:
        self._entries: list[_Due] = []
        self._number = 0

    def add(self, at_ns: int, action: Action) -> None:
        """Run ``action`` at ``at_ns``."""
        self._number += 1
        heappush(self._entries, _Due(at_ns, self._number, action))

    @property
    def next_ns(self) -> int:
        """When the next action is due, ``NEVER_NS`` if nothing is."""
        return self._entries[0].at_ns if self._entries else NEVER_NS

    def postpone(self, ns: int) -> None:
        """Let everything be due later by ``ns``."""
        self._entries = [due._replace(at_ns=due.at_ns + ns) for due in self._entries]  # in heap order still

    def pop(self) -> Action:
        """Take the next action out."""
        return heappop(self._entries).action
