"""The lowest of many timestamps that rise all the time."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Final

from tidegate.hlc import Timestamp

_DAY_BITS: Final = 26  # of a wall time in nanoseconds: a day of the calendar is 67 ms
_PASSED_MAX: Final = 1_024  # entries of today that are kept though they have passed


class LowestFirst:
    """A calendar of keys. Each key stands under the day of its timestamp, or of a lower one that it had.

    A key that comes with a day of the past stands under today.

    Nothing is done here when a timestamp rises. The calendar is put right when it is asked for the lowest,
    and only at its beginning: a key whose timestamp has risen meanwhile moves on to its present day. With
    100,000 ranges this is much cheaper than a heap, where each move goes through all levels.
    """

    __slots__ = ("_at", "_count", "_day", "_days", "_later", "_today")

    def __init__(self, timestamps: Iterable[tuple[bytes, Timestamp]] = ()) -> None:
        self._day = -1
        self._today: list[tuple[Timestamp, bytes]] = []  # sorted; what stands before ``_at`` has passed
        self._at = 0
        self._later: dict[int, list[bytes]] = {}
        self._days: list[int] = []  # a heap: the keys of ``_later``
        self._count = 0
        for key, timestamp in timestamps:
            self.push(key, timestamp)

    def __len__(self) -> int:
        """Return how many entries there are; a key that was removed and added again may have two."""
        return self._count

    def push(self, key: bytes, timestamp: Timestamp) -> None:
        """Add a key."""
        self._count += 1
        self._enter(key, timestamp)

    def lowest(self, timestamps: Mapping[bytes, Timestamp]) -> tuple[Timestamp, bytes] | None:
        """Return the lowest timestamp and its key (the lowest of several); ``None`` if there is no key.

        ``timestamps`` are the present ones; a key that is not among them is forgotten.
        """
        while True:
            while self._at < len(self._today):
                known, key = self._today[self._at]
                now = timestamps.get(key)
                if now == known:
                    return known, key
                self._at += 1
                if now is None:
                    self._count -= 1
                else:
                    self._enter(key, now)
            if not self._days:
                return None
            self._turn_to(heappop(self._days), timestamps)

    def _enter(self, key: bytes, timestamp: Timestamp) -> None:
        day = timestamp.wall >> _DAY_BITS
        if day <= self._day:
            if self._at > _PASSED_MAX:
                del self._today[: self._at]
                self._at = 0
            insort(self._today, (timestamp, key), lo=self._at)
        elif day in self._later:
            self._later[day].append(key)
        else:
            self._later[day] = [key]
            heappush(self._days, day)

    def _turn_to(self, day: int, timestamps: Mapping[bytes, Timestamp]) -> None:
        """Make ``day`` today. Keys that have risen since go on to their present days."""
        self._day, self._at = day, 0
        today = self._today = []
        later = self._later
        for key in later.pop(day):
            now = timestamps.get(key)
            if now is None:
                self._count -= 1
            elif (present := now[0] >> _DAY_BITS) == day:
                today.append((now, key))
            elif present in later:
                later[present].append(key)
            else:
                later[present] = [key]
                heappush(self._days, present)
        today.sort()
