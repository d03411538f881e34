"""The auditor's memory of a partition's rows, within a horizon.

It can tell a repeat from an unseen row only if it remembers every version. That takes about 250 bytes for
each version. With a horizon, versions that are further than that below the partition's last marker are
forgotten. An unknown row at or below the highest forgotten timestamp may then be an old repeat or a late row.
It is counted as undecided. The highest timestamp of each key is kept for ever.

Versions are kept in two dictionaries, so that forgetting costs nothing for each row. Once all of ``_old`` is
past the horizon it is dropped as a whole, and ``_young`` becomes ``_old``. So about two horizons of rows are
held.
"""

from __future__ import annotations

from typing import TypeAlias

from tidegate.hlc import MAX, ZERO, Timestamp

Version: TypeAlias = tuple[bytes, Timestamp]


class VersionMemory:
    """The versions that were seen on one partition, each with a digest.

    ``forgotten`` is the highest timestamp of a version that may have been there and is not remembered. It is
    zero at first, and ``hlc.MAX`` if the beginning of the partition has been deleted.
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
        """The number of keys that were seen."""
        return len(self._highest)

    def knows_key(self, key: bytes) -> bool:
        """Whether a row of the key was seen, even if the row is not remembered any more."""
        return key in self._highest

    def meet(self, key: bytes) -> None:
        """Note a key that is seen for the first time."""
        self._highest[key] = ZERO

    def highest(self, key: bytes) -> Timestamp:
        """Return the highest timestamp seen of the key; zero for a key that was not seen."""
        return self._highest.get(key, ZERO)

    def digest(self, version: Version) -> int | None:
        """Return the digest that the version had when it was first seen; ``None`` if it is not remembered."""
        known = self._young.get(version)
        return known if known is not None else self._old.get(version)

    def remember(self, version: Version, digest: int) -> None:
        """Remember a version that is seen for the first time."""
        key, timestamp = version
        self._young[version] = digest
        if timestamp > self.highest(key):
            self._highest[key] = timestamp
        if timestamp > self._young_top:
            self._young_top = timestamp

    def marker(self, resolved: Timestamp) -> None:
        """Note the partition's last marker, and forget versions that are past the horizon below it."""
        if self._horizon_ns is None or self._old_top.wall + self._horizon_ns > resolved.wall:
            return
        self.forgotten = max(self.forgotten, self._old_top)
        self._old, self._old_top = self._young, self._young_top
        self._young, self._young_top = {}, ZERO
