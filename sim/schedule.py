"""A queue of actions in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

Action: TypeAlias = Callable[[], None]
#: Later than any time.
NEVER_NS: Final = 2**63


class _Due(NamedTuple):
    at_ns: int
    number: int  # actions of the same time keep the order in which they were added
    action: Action


class Schedule:
    """A queue of actions by time. Those of the same time run in the order in which they were added."""

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
        """The time at which the next action is due; ``NEVER_NS`` without one."""
        return self._entries[0].at_ns if self._entries else NEVER_NS

    def postpone(self, ns: int) -> None:
        """Let every action be due later by ``ns``."""
        self._entries = [due._replace(at_ns=due.at_ns + ns) for due in self._entries]  # still in heap order

    def pop(self) -> Action:
        """Remove and return the next action."""
        return heappop(self._entries).action
