"""Keeps backlogs (entries that a parked range has not applied) in memory, and on disk beyond a limit.

A backlog is a cache of the log, on disk as in memory. Its file has no name, and entries that are lost with
the process are read again from the log (docs/protocols/ranges.md). So the file is never synced.
"""

from __future__ import annotations

import struct
from collections import deque
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from tidegate.errors import StateError
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.backlog import RawEntry

_HEAD: Final = struct.Struct("<qqii")  # offset, record time, lengths in bytes of key and value (-1: none)
_AT_ONCE_BYTES: Final = 64 << 10  # about so much is read back in one go, even if memory is full


class BacklogMemory:
    """Counts the bytes of all backlogs of a process against one limit.

    ``memory_bytes`` is the limit for all queues together. ``disk_bytes`` is how many bytes their files hold.
    A file keeps the bytes that were read back, until all of it has been read back.
    """

    def __init__(self, directory: Path, memory_bytes: int) -> None:
        self.directory = directory
        self._memory_bytes = memory_bytes
        self._held = 0
        self.disk_bytes = 0

    def partition(self) -> PartitionBacklogs:
        """Return the object that makes the queues of one log partition."""
        return PartitionBacklogs(self)

    def has_room(self, size: int) -> bool:
        """Whether memory has room for ``size`` bytes more."""
        return self._held + size <= self._memory_bytes

    def hold(self, size: int) -> None:
        """Count ``size`` bytes that came into memory; negative for bytes that left it."""
        self._held += size

    def file(self) -> IO[bytes]:
        """Open a file without a name. Raises ``StateError`` if that fails."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            return TemporaryFile(dir=self.directory, prefix="backlog-")
        except OSError as error:
            raise _unwritable(self.directory, error) from None


class PartitionBacklogs:
    """The backlogs of one log partition. They give their room back when the partition is closed."""

    def __init__(self, memory: BacklogMemory) -> None:
        self._memory = memory
        self._open: set[SpillingQueue] = set()

    def queue(self, range_id: RangeId) -> SpillingQueue:  # noqa: ARG002  # all ranges share the memory
        """Make the queue for the backlog of a range."""
        return SpillingQueue(self._memory, self._open)

    def close(self) -> None:
        """Close all queues that are open."""
        for queue in tuple(self._open):
            queue.close()


class SpillingQueue:
    """A queue of entries, first in, first out.

    The oldest entries are in memory. Once memory is full, the entries after them are in a file. The queue
    is among ``queues`` until it is closed.
    """

    def __init__(self, memory: BacklogMemory, queues: set[SpillingQueue]) -> None:
        self._memory = memory
        self._queues = queues
        queues.add(self)
        self._oldest: deque[RawEntry] = deque()
        self._file: IO[bytes] | None = None
        self._read_at = 0
        self._written_to = 0
        self._on_disk = 0

    def __len__(self) -> int:
        return len(self._oldest) + self._on_disk

    def append(self, entry: RawEntry) -> None:
        """Add an entry after all others. Raises ``StateError`` when the disk does not take it."""
        size = entry.held_bytes
        if self._on_disk == 0 and self._memory.has_room(size):
            self._oldest.append(entry)
            self._memory.hold(size)
        else:
            self._write(entry)

    def first(self) -> RawEntry:
        """Return the oldest entry, and leave it in the queue."""
        self._fill()
        return self._oldest[0]

    def popleft(self) -> RawEntry:
        """Take the oldest entry out."""
        self._fill()
        entry = self._oldest.popleft()
        self._memory.hold(-entry.held_bytes)
        return entry

    def close(self) -> None:
        """Forget all entries, and delete the file."""
        self._queues.discard(self)
        self._memory.hold(-sum(entry.held_bytes for entry in self._oldest))
        self._memory.disk_bytes -= self._written_to
        self._oldest.clear()
        self._written_to = self._on_disk = 0
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, entry: RawEntry) -> None:
        if self._file is None:
            self._file = self._memory.file()
        raw = _encode(entry)
        try:
            self._file.seek(self._written_to)
            self._file.write(raw)
            self._file.flush()  # a full disk is noticed here, and not where the queue is read or closed
        except OSError as error:
            raise _unwritable(self._memory.directory, error) from None
        self._written_to += len(raw)
        self._on_disk += 1
        self._memory.disk_bytes += len(raw)

    def _fill(self) -> None:
        """Read the next entries from the file once no entry is left in memory."""
        if self._oldest or self._file is None or not self._on_disk:
            return
        try:
            self._read_from(self._file)
        except (OSError, struct.error) as error:
            raise StateError(
                f"Entries of parked ranges in {self._memory.directory} cannot be read: {error}. Nothing is "
                "lost, they are read again from the log; look at the disk, and start the worker again"
            ) from None

    def _read_from(self, file: IO[bytes]) -> None:
        """Take the next entries. Raises ``OSError`` and ``struct.error`` where they are not whole."""
        file.seek(self._read_at)
        room = _AT_ONCE_BYTES
        while room > 0 and self._on_disk:
            entry = _read(file)
            self._oldest.append(entry)
            self._memory.hold(entry.held_bytes)
            self._on_disk -= 1
            room -= entry.held_bytes
        self._read_at = file.tell()
        if not self._on_disk:
            self._memory.disk_bytes -= self._written_to
            self._read_at = self._written_to = 0
            file.truncate(0)


def _encode(entry: RawEntry) -> bytes:
    key, value = entry.key, entry.value
    lengths = (-1 if part is None else len(part) for part in (key, value))
    return _HEAD.pack(entry.offset, entry.timestamp, *lengths) + (key or b"") + (value or b"")


def _read(file: IO[bytes]) -> RawEntry:
    offset, timestamp, key_bytes, value_bytes = _HEAD.unpack(file.read(_HEAD.size))
    key = None if key_bytes < 0 else _read_part(file, key_bytes)
    value = None if value_bytes < 0 else _read_part(file, value_bytes)
    return RawEntry(offset, key, value, timestamp)


def _read_part(file: IO[bytes], size: int) -> bytes:
    part = file.read(size)
    if len(part) < size:
        raise struct.error(f"{size} bytes were written, and {len(part)} are there")
    return part


def _unwritable(directory: Path, error: OSError) -> StateError:
    return StateError(
        f"Entries of parked ranges cannot be kept in {directory}: {error.strerror}. Nothing is lost, they "
        "are read again from the log; make room or free its quota, and start the worker again"
    )
