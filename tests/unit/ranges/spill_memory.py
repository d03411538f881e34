"""A spill store in memory: as simple as its protocol allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class MemorySpill:
    """Sorts its keys for every scan."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        return self.rows.get(key)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys from ``start`` on and below ``end``."""
        return iter(sorted((key, value) for key, value in self.rows.items() if start <= key < end))

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes]) -> None:
        """Refuses to delete what is not there: a queue knows where its transactions are."""
        self.rows.update(puts)
        for key in deletes:
            del self.rows[key]

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Remove the keys from ``start`` on and below ``end``."""
        self.rows = {key: value for key, value in self.rows.items() if not start <= key < end}
