"""Remembers which descriptor versions were refused, so that no older version reads the rows of their times.

docs/protocols/descriptors.md has the rules (8), with their failure cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tidegate.hlc import MAX, Timestamp
from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.stored_frame import pack, unpack

#: The first byte of the keys under which refusals are stored.
REFUSED_PREFIX: Final = b"r"
#: The most refusals of a table that are kept one by one. If there are more, the two newest become one.
_KEPT: Final = 8


class RefusedVersion(NamedTuple):
    """Versions of a table that were refused: the numbers from ``lowest`` to ``highest``, both included.

    Their rows begin at ``since``. It is one version, or several that are not told apart.
    """

    lowest: int
    highest: int
    since: Timestamp

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"version {self.highest}"
        return f"one of the versions {self.lowest} to {self.highest}"

    def begins(self) -> Timestamp:
        """Return since when its versions are valid."""
        return self.since

    def without(self, version: int) -> RefusedVersion | None:
        """Return what is still refused when ``version`` is taken; ``None`` if nothing is."""
        if self.lowest == self.highest:
            return None
        if version == self.highest:
            return self._replace(highest=version - 1)
        return self._replace(lowest=version + 1) if version == self.lowest else self


class RefusedVersions:
    """The versions of the tables of a partition that were refused, and are not known."""

    __slots__ = ("_changed", "_tables")

    def __init__(self) -> None:
        self._tables: dict[int, list[RefusedVersion]] = {}  # by table id, in the order of numbers
        #: Rows of state that changed since the last freeze, each by table id and highest number.
        self._changed: dict[tuple[int, int], None] = {}

    def __len__(self) -> int:
        """Return the number of its rows of state."""
        return sum(map(len, self._tables.values()))

    def has_table(self, table_id: int) -> bool:
        """Return whether a version of the table is refused."""
        return table_id in self._tables

    def has(self, table_id: int, version: int, modified: Timestamp = MAX) -> bool:
        """Return whether ``version`` was refused, and is valid from ``modified`` on or earlier."""
        refusal = self._of(table_id, version)
        return refusal is not None and refusal.since <= modified

    def after(self, table_id: int, version: int) -> RefusedVersion | None:
        """Return, of the refusals of versions later than ``version``, the one that is valid first, if any."""
        later = (each for each in self._tables.get(table_id, ()) if each.highest > version)
        return min(later, default=None, key=RefusedVersion.begins)

    def first(self, table_id: int) -> Timestamp | None:
        """Return since when any refused version of the table is valid, if there is one."""
        return min((each.since for each in self._tables.get(table_id, ())), default=None)

    def add(self, table_id: int, version: int, modified: Timestamp) -> None:
        """Take in that a version is refused, which is valid from ``modified`` on."""
        known = self._of(table_id, version)
        if known is None:
            self._put(table_id, RefusedVersion(version, version, modified))
        elif modified < known.since:
            self._drop(table_id, known)
            self._put(table_id, known._replace(since=modified))
        refusals = self._tables[table_id]
        if len(refusals) > _KEPT:
            older, newest = refusals[-2:]
            self._drop(table_id, older)
            self._drop(table_id, newest)
            self._put(table_id, RefusedVersion(older.lowest, newest.highest, min(older.since, newest.since)))

    def note_known(self, table_id: int, version: int) -> None:
        """Note that a version is known now. If it was refused, forget the refusal."""
        known = self._of(table_id, version)
        left = None if known is None else known.without(version)
        if known is not None and left != known:
            self._drop(table_id, known)
            if left is not None:
                self._put(table_id, left)

    def forget(self, table_id: int, is_unneeded: Callable[[int], bool]) -> None:
        """Forget each refusal for whose highest version number ``is_unneeded`` returns true."""
        for each in [*self._tables.get(table_id, ())]:
            if is_unneeded(each.highest):
                self._drop(table_id, each)

    def freeze(self) -> Iterator[StateChange]:
        """Yield the rows of state that changed since the last call."""
        for table_id, highest in self._changed:
            key = REFUSED_PREFIX + table_id.to_bytes(8, "big") + highest.to_bytes(8, "big")
            refusal = self._of(table_id, highest)
            stored = None
            if refusal is not None and refusal.highest == highest:
                lowest, _, since = refusal
                stored = pack(pb.RefusedVersions(wall=since.wall, logical=since.logical, lowest=lowest))
            yield StateChange(StateTable.DESCRIPTORS, key, stored)
        self._changed = {}

    def restore(self, key: bytes, value: bytes) -> None:
        """Put back a row that ``freeze`` gave."""
        stored = unpack(pb.RefusedVersions, value, "the time of a version that was refused")
        table_id, highest = int.from_bytes(key[1:9], "big"), int.from_bytes(key[9:], "big")
        lowest = min(stored.lowest, highest) if stored.HasField("lowest") else highest
        refusal = RefusedVersion(lowest, highest, Timestamp(stored.wall, stored.logical))
        self._tables[table_id] = sorted([*self._tables.get(table_id, ()), refusal])

    def _of(self, table_id: int, version: int) -> RefusedVersion | None:
        found = (each for each in self._tables.get(table_id, ()) if each.lowest <= version <= each.highest)
        return next(found, None)

    def _put(self, table_id: int, refusal: RefusedVersion) -> None:
        self._tables[table_id] = sorted([*self._tables.get(table_id, ()), refusal])
        self._changed[table_id, refusal.highest] = None

    def _drop(self, table_id: int, refusal: RefusedVersion) -> None:
        left = [each for each in self._tables[table_id] if each != refusal]
        if left:
            self._tables[table_id] = left
        else:
            del self._tables[table_id]
        self._changed[table_id, refusal.highest] = None
