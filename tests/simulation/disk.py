"""Stores of partition state on a simulated disk: they outlive processes, and can be lost or set back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation.scheduler import Process
from tidegate.processor.batch import StateChange, StateTable
from tidegate.worker.state.store import ChangelogPosition


@dataclass(slots=True)
class _Content:
    rows: dict[tuple[StateTable, bytes], bytes] = field(default_factory=dict)
    positions: dict[StateTable, ChangelogPosition] = field(default_factory=dict)
    written_ms: int | None = None

    def copy(self) -> _Content:
        return _Content(dict(self.rows), dict(self.positions), self.written_ms)


class Disk:
    """The disk of one machine: it keeps files over restarts of the machine's processes."""

    def __init__(self) -> None:
        self._content: dict[Path, _Content] = {}
        self._older: dict[Path, _Content] = {}

    def content(self, path: Path) -> _Content:
        """Return what is kept at ``path``."""
        return self._content.setdefault(path, _Content())

    def lose(self) -> None:
        """Lose all files, as if the machine were replaced."""
        self._content.clear()
        self._older.clear()

    def sync(self) -> None:
        """Make sure that the present content survives a power failure."""
        self._older = {path: content.copy() for path, content in self._content.items()}

    def fail_power(self) -> None:
        """Lose what was written since the last sync."""
        self._content = {path: content.copy() for path, content in self._older.items()}


class MemoryStore:
    """See ``tidegate.worker.state.store.LocalStore``; each call is done or not; no call of a dead process is
    done."""

    def __init__(self, path: Path, disk: Disk, process: Process) -> None:
        self._content = disk.content(path)
        self._process = process
        process.require_alive()

    def positions(self) -> Mapping[StateTable, ChangelogPosition]:
        return dict(self._content.positions)

    def written_at_ms(self) -> int | None:
        return self._content.written_ms

    def rows(self) -> Iterator[StateChange]:
        for (table, key), value in sorted(
            self._content.rows.items(), key=lambda row: (row[0][0].value, row[0][1])
        ):
            yield StateChange(table, key, value)

    def write(
        self,
        changes: Iterable[StateChange],
        positions: Mapping[StateTable, tuple[str, int]],
        now_ms: int,
    ) -> None:
        self._process.require_alive()
        for table, key, value in changes:
            if value is None:
                self._content.rows.pop((table, key), None)
            else:
                self._content.rows[table, key] = value
        for table, position in positions.items():
            self._content.positions[table] = ChangelogPosition(*position)
        self._content.written_ms = now_ms

    def clear(self) -> None:
        self._process.require_alive()
        self._content.rows.clear()
        self._content.positions.clear()
        self._content.written_ms = None

    def close(self) -> None:
        """Close the store; its content stays on the disk."""
