"""The memory that a partition's table descriptors may take, and the choice of versions to forget for it.

docs/protocols/descriptors.md has the rules, with their failure cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidegate.errors import DescriptorConflict
from tidegate.hlc import ZERO, Timestamp

#: The bytes that a version counts for besides its stored ones: its place in state and in memory.
VERSION_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class DescriptorLimits:
    """Limits in bytes for the descriptors of a partition. Each counts as ``VERSION_BYTES`` more than it has.

    Versions of tables that no feed wants are refused above ``unwanted_bytes``, and all others above
    ``wanted_bytes``. Nothing is forgotten below ``kept_bytes``. The partition looks for unneeded versions
    when the kept ones take ``grows`` times as many bytes as after the last look, or more than
    ``unwanted_bytes``. But ``look_bytes`` of new versions must have come since the last look. If a version
    would be refused, ``full_look_bytes`` are enough. If ``unfit_tables`` tables cannot be read, a further
    table is not taken.
    """

    kept_bytes: int = 32 << 20
    look_bytes: int = 1 << 20
    full_look_bytes: int = 64 << 10
    grows: int = 2
    unwanted_bytes: int = 64 << 20
    wanted_bytes: int = 128 << 20
    unfit_tables: int = 10_000


#: The limits of a reader that has all descriptors in memory anyway.
UNLIMITED: Final = DescriptorLimits(
    kept_bytes=1 << 62, unwanted_bytes=1 << 62, wanted_bytes=1 << 62, unfit_tables=1 << 62
)


def nothing_is_read_yet() -> Timestamp:
    """Return the lowest timestamp: rows of any time may still be read."""
    return ZERO


class DescriptorRoom:
    """The room for descriptors in a partition.

    ``lowest_read`` returns a time at or below which no row is read any more, by any feed, now or later.
    """

    __slots__ = ("_limits", "_look_at", "_offered", "lowest_read", "used_bytes")

    def __init__(self, limits: DescriptorLimits) -> None:
        self._limits = limits
        self.lowest_read: Callable[[], Timestamp] = nothing_is_read_yet
        self.used_bytes = 0
        #: The bytes of new versions that have come since unneeded ones were looked for.
        self._offered = limits.look_bytes  # this many may have come before a restart
        self._look_at = limits.kept_bytes

    def note_kept(self, size: int) -> None:
        """Take in that a version with so many stored bytes is kept."""
        self.used_bytes += size + VERSION_BYTES

    def give_back(self, size: int) -> None:
        """Take in that a version is forgotten."""
        self.used_bytes -= size + VERSION_BYTES

    def must_look(self, size: int, *, is_wanted: bool) -> bool:
        """Return whether unneeded versions are to be looked for before a new version is taken.

        To look takes time for each range and each version of the partition. So it is done only when the
        descriptors have grown as the limits say, or when there is no room for the version. In the second case
        fewer bytes of new versions have to come first: a version that was needed at the last look may be
        unneeded now.
        """
        self._offered += size + VERSION_BYTES
        used = self.used_bytes + size + VERSION_BYTES
        limits = self._limits
        if used > self._most(is_wanted=is_wanted):
            return self._offered >= min(limits.full_look_bytes, limits.look_bytes)
        return used > min(self._look_at, limits.unwanted_bytes) and self._offered >= limits.look_bytes

    def looked(self) -> None:
        """Take in that unneeded versions were forgotten."""
        self._offered = 0
        self._look_at = max(self._limits.kept_bytes, self._limits.grows * self.used_bytes)

    def require(self, size: int, *, is_wanted: bool) -> None:
        """Raise ``DescriptorConflict`` if there is no room for a version."""
        most = self._most(is_wanted=is_wanted)
        if self.used_bytes + size + VERSION_BYTES > most:
            raise DescriptorConflict(
                f"there is no room for its {size} bytes: the table descriptors that the log partition needs "
                f"take {self.used_bytes >> 20} MiB, and may take {most >> 20} MiB "
                "(docs/protocols/descriptors.md). Rows of this version cannot be read"
            )

    def _most(self, *, is_wanted: bool) -> int:
        return self._limits.wanted_bytes if is_wanted else self._limits.unwanted_bytes

    def require_table(self, unfit: int) -> None:
        """Raise ``DescriptorConflict`` if too many tables are unfit for one more table to be taken."""
        if not self.has_unfit(unfit):
            raise DescriptorConflict(
                f"{unfit} tables of the log partition cannot be read, and no more can be remembered "
                "(docs/protocols/descriptors.md). The table is not taken"
            )

    def has_unfit(self, unfit: int) -> bool:
        """Return whether one more table may be unfit when ``unfit`` tables are already."""
        return unfit < self._limits.unfit_tables
