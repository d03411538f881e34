"""The versions that were delivered last, so that a repeat is told from a row that comes too late.

A row at or below what was delivered has to be an exact copy of one that was: the markers promised it. Whether
it is can be said above ``floor``, from which every delivered version is remembered; below it rows are taken
for repeats. The floor rises with the number of versions, and begins at the AS OF of a resume.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from tidegate.errors import LateRow, RepeatDiffers
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import RowVersion, VersionIdentity

VERSIONS_KEPT: Final = 100_000


class RecentVersions:
    """Remembers up to ``most`` delivered versions, about 200 bytes each and their keys."""

    __slots__ = ("_digests", "_most", "_order", "floor")

    def __init__(self, floor: Timestamp, most: int = VERSIONS_KEPT) -> None:
        #: At or below it nothing is remembered.
        self.floor = floor
        self._most = most
        self._digests: dict[VersionIdentity, int] = {}
        self._order: deque[VersionIdentity] = deque()

    def add(self, versions: Sequence[RowVersion]) -> None:
        """Remember versions in the order in which they are delivered."""
        if len(versions) > self._most:  # a snapshot's: never held, not even for a moment
            self._forget_all_up_to(versions[-self._most - 1].updated)
        for version in versions:
            if version.updated <= self.floor:
                continue
            identity = version.identity
            self._digests[identity] = version.digest
            self._order.append(identity)
        while len(self._order) > self._most:
            self._forget_oldest_time()

    def require_repeat(self, version: RowVersion, delivered: Timestamp) -> None:
        """Raise ``LateRow`` for a version that was not delivered, ``RepeatDiffers`` for one that was
        otherwise."""
        if version.updated <= self.floor:
            return
        known = self._digests.get(version.identity)
        if known is None:
            raise LateRow(
                f"The row at {version.place} is new and has the timestamp {version.updated}, but everything "
                f"up to {delivered} was delivered: its markers promised too much. The subscription ends; "
                "`tidegate verify` tells more",
                version.topic,
                version.partition,
                version.offset,
            )
        require_copy(version, known)

    def _forget_all_up_to(self, floor: Timestamp) -> None:
        self.floor = floor
        self._digests.clear()
        self._order.clear()

    def _forget_oldest_time(self) -> None:
        """A floor lies between timestamps, so all versions of the oldest one go together."""
        self.floor = self._order[0][0]
        while self._order and self._order[0][0] == self.floor:
            del self._digests[self._order.popleft()]


def require_copy(version: RowVersion, digest: int) -> None:
    """Raise ``RepeatDiffers`` where a version came before with another value."""
    if version.digest != digest:
        raise RepeatDiffers(
            f"The row at {version.place} is a version that came before with another value: repeats are exact "
            "copies, so one of them is not the feed's. The subscription ends; `tidegate verify` tells more",
            version.topic,
            version.partition,
            version.offset,
        )
