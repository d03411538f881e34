"""The committed versions of a range's keys, for reads, scans and garbage collection."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Final, TypeAlias

from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import KeyValue
from tidegate.raftlog.request import Scan
from tidegate.spans import Span

#: A version's timestamp and value. An empty value is a tombstone.
_Version: TypeAlias = tuple[Timestamp, bytes]
_time_of: Final = itemgetter(0)


class RowHistory:
    """All versions by key, those of a key the oldest first. ``bytes`` is the size of all keys and values."""

    __slots__ = ("_keys", "_sorted", "_versions", "bytes")

    def __init__(self) -> None:
        self._versions: dict[bytes, list[_Version]] = {}
        self._keys: list[bytes] = []
        self._sorted = True
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._versions)

    def newest(self, key: bytes) -> _Version | None:
        """Return the newest version of a key; ``None`` if it has none."""
        versions = self._versions.get(key)
        return versions[-1] if versions else None

    def add(self, key: bytes, timestamp: Timestamp, value: bytes) -> bytes | None:
        """Add a version above all others of its key. Return the value that it replaces; ``None`` if the key
        had no version.
        """
        self.bytes += len(key) + len(value)
        versions = self._versions.get(key)
        if versions is None:
            self._versions[key] = [(timestamp, value)]
            self._keys.append(key)
            self._sorted = False
            return None
        replaced = versions[-1][1]
        versions.append((timestamp, value))
        return replaced

    def bring_in(self, key: bytes, above: Timestamp) -> tuple[Timestamp, bytes] | None:
        """Add a version right below the newest one of its key. Return its timestamp and value.

        It has the value of the version that stood there before, so the newest version still replaces the same
        value. Returns ``None`` if there is no room above ``above``.
        """
        versions = self._versions[key]
        newest, before = versions[-1][0], (versions[-2] if len(versions) > 1 else (ZERO, b""))
        if newest.logical or newest.prev() <= max(above, before[0]):
            return None
        added = newest.prev(), before[1]
        versions.insert(-1, added)
        self.bytes += len(key) + len(added[1])
        return added

    def in_order(self) -> list[bytes]:
        """Return all keys in order. The caller must not change the list."""
        if not self._sorted:
            self._keys.sort()
            self._sorted = True
        return self._keys

    def scan(self, scan: Scan, span: Span) -> Iterator[tuple[KeyValue, ...]]:
        """Yield the versions that ``scan`` asks for, for each key in ``span`` that has any, in order."""
        keys = self.in_order()
        for at in range(bisect_left(keys, span.start), bisect_left(keys, span.end)):
            found = self._rows(keys[at], scan)
            if found:
                yield found

    def _rows(self, key: bytes, scan: Scan) -> tuple[KeyValue, ...]:
        versions = self._versions[key]
        end = bisect_right(versions, scan.upto, key=_time_of)
        begin = 0 if scan.after is None else bisect_right(versions, scan.after, key=_time_of)
        if not scan.all_versions:
            begin = max(begin, end - 1)
        return tuple(
            KeyValue(key, *versions[at], (versions[at - 1][1] if at else b"") if scan.with_prev else None)
            for at in range(begin, end)
        )

    def collect(self, threshold: Timestamp) -> None:
        """Forget the versions that no read at or above ``threshold`` needs."""
        for key in list(self._versions):
            versions = self._versions[key]
            end = bisect_right(versions, threshold, key=_time_of)
            if end and versions[end - 1][1]:
                end -= (
                    1  # the row that stands at the threshold; a tombstone there says no more than its absence
                )
            if end:
                self.bytes -= sum(len(key) + len(value) for _, value in versions[:end])
                del versions[:end]
            if not versions:
                del self._versions[key]
        if len(self._versions) < len(self._keys):
            self._keys = [key for key in self._keys if key in self._versions]

    def split_off(self, key: bytes) -> RowHistory:
        """Take out everything from ``key`` on."""
        keys = self.in_order()
        at = bisect_left(keys, key)
        right = RowHistory()
        right._keys, self._keys = keys[at:], keys[:at]
        right._versions = {key: self._versions.pop(key) for key in right._keys}
        right.bytes = sum(
            len(key) + len(value) for key, versions in right._versions.items() for _, value in versions
        )
        self.bytes -= right.bytes
        return right

    def absorb(self, right: RowHistory) -> None:
        """Take in a history of higher keys."""
        self._keys = [*self.in_order(), *right.in_order()]
        self._versions.update(right._versions)
        self.bytes += right.bytes
