"""The true history: every version that was ever committed, for audits of what feeds wrote."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from sim.log.framed_file import FrameFormat, FrameWriter, read_frames
from tidegate.hlc import Timestamp
from tidegate.spans import Span

#: No record begins like the end, since there is no table 0.
_HISTORY_FORMAT: Final = FrameFormat(
    b"tidegate history\x02", struct.Struct(">IqI"), end=b"\x00\x00\x00\x00end of this history\n"
)


class HistoryVersion(NamedTuple):
    """A committed version of a key. An empty ``value`` is a tombstone."""

    table_id: int
    key: bytes
    timestamp: Timestamp
    value: bytes


class Mutated(NamedTuple):
    """A version that a command at ``time`` inserted into the past of its key.

    ``replaced`` is the value that the version replaces. ``span`` has the keys of the range at ``time``.
    """

    time: Timestamp
    span: Span
    version: HistoryVersion
    replaced: bytes


class HistoryLog(Protocol):
    """Takes versions as they commit. The versions of a key come in the order of their timestamps."""

    def record(self, version: HistoryVersion) -> None:
        """Take one version."""


class History:
    """Every committed version, in the order of the commits."""

    def __init__(self, versions: Iterable[HistoryVersion] = ()) -> None:
        self._versions = list(versions)

    def record(self, version: HistoryVersion) -> None:
        """See ``HistoryLog``."""
        self._versions.append(version)

    def __iter__(self) -> Iterator[HistoryVersion]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)

    def as_of(self, timestamp: Timestamp, table_id: int | None = None) -> dict[bytes, HistoryVersion]:
        """Return the rows that were alive at ``timestamp``, by key: of one table, or of all."""
        newest: dict[bytes, HistoryVersion] = {}
        for version in self._versions:
            if version.timestamp <= timestamp and table_id in (None, version.table_id):
                newest[version.key] = version
        return {key: version for key, version in newest.items() if version.value}

    def dump(self, path: Path) -> None:
        """Write the history to a file."""
        with HistoryFile(path) as file:
            for version in self._versions:
                file.record(version)

    @classmethod
    def load(cls, path: Path) -> History:
        """Read a history file.

        Raises ``StateError`` for any other file, or one whose writer has not finished.
        """
        return cls(
            HistoryVersion(table_id, key, Timestamp(wall, logical), value)
            for (table_id, wall, logical), key, value in read_frames(path, _HISTORY_FORMAT)
        )


class NoHistory:
    """A history that keeps nothing."""

    def record(self, version: HistoryVersion) -> None:
        """See ``HistoryLog``."""


class HistoryFile:
    """Writes the history to a file as it happens.

    The file is complete once the ``with`` block has ended. After an exception readers refuse it.
    """

    def __init__(self, path: Path) -> None:
        self._frames = FrameWriter(path, _HISTORY_FORMAT)

    def record(self, version: HistoryVersion) -> None:
        """See ``HistoryLog``."""
        self._frames.write((version.table_id, *version.timestamp), version.key, version.value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._frames.close(complete=kind is None)
