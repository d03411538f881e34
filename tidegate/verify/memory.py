"""What the auditor remembers of a partition's rows, within a horizon.

A repeat can only be told from an unseen row by remembering every version; that costs about 250 bytes
each. With a horizon, versions more than that far below the partition's last marker are forgotten, and an
unknown row at or below the highest forgotten timestamp can be an old repeat or a late row: it is counted
as undecided. The highest timestamp of each key is kept for ever.

Forgetting goes by generations, so that it costs nothing per row: ``_old`` is dropped as a whole once all
of it is past the horizon, and ``_young`` becomes ``_old``. About two horizons of rows are held.
"""

from __future__ import annotations

from typing import TypeAlias

from tidegate.hlc import MAX, ZERO, Timestamp

Version: TypeAlias = tuple[bytes, Timestamp]


class VersionMemory:
    """Digests of the versions seen on one partition.

    ``forgotten`` is the highest timestamp at which a version may have been seen without being remembered:
    zero at first, ``hlc.MAX`` when the beginning of the partition has been deleted.
    """

    __slots__ = ("_highest", "_horizon_ns", "_old", "_old_top", "_young", "_young_top", "forgotten")

    def __init__(self, horizon_ns: int | None = None, *, truncated: bool = False) -> None:
        self._horizon_ns = horizon_ns
        self._highest: dict[bytes, Timestamp] = {}
        self._old: dict[Version, int] = {}
        self._young: dict[Version, int] = {}
        self._old_top = ZERO
        self._young_top = ZERO
        self.forgotten = MAX if truncated else ZERO

    @property
    def keys(self) -> int:
        """How many keys were met."""
        return len(self._highest)

    def knows_key(self, key: bytes) -> bool:
        """Whether a row of the key was met, remembered or not."""
        return key in self._highest

    def meet(self, key: bytes) -> None:
        """A key is met for the first time."""
        self._highest[key] = ZERO

    def highest(self, key: bytes) -> Timestamp:
        """The highest timestamp seen of the key; zero for a key that was not seen."""
        return self._highest.get(key, ZERO)

    def digest(self, version: Version) -> int | None:
        """The digest under which the version was seen first; ``None`` when it is not remembered."""
        known = self._young.get(version)
        return known if known is not None else self._old.get(version)

    def remember(self, version: Version, digest: int) -> None:
        """A version is seen for the first time."""
        key, timestamp = version
        self._young[version] = digest
        if timestamp > self.highest(key):
            self._highest[key] = timestamp
        if timestamp > self._young_top:
            self._young_top = timestamp

    def marker(self, resolved: Timestamp) -> None:
        """The partition's last marker is now ``resolved``: forget what is past the horizon."""
        if self._horizon_ns is None or self._old_top.wall + self._horizon_ns > resolved.wall:
            return
        self.forgotten = max(self.forgotten, self._old_top)
        self._old, self._old_top = self._young, self._young_top
        self._young, self._young_top = {}, ZERO
