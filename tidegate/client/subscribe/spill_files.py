"""Keeps waiting rows of a subscription on disk if its memory does not suffice, compressed and with checksums.

The files have no names: nobody else can open them, and they are gone with the process, however it ends.
They need not be durable: after an error the subscription is resumed from its token, and Kafka has the rows.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final
from zlib import crc32

import cramjam

from tidegate.errors import SettingsError, SpillLost
from tidegate.subscribe.gate.spilled_rows import BUDGET_BYTES

#: The room of a file on the disk becomes free only when all its blocks were taken. So a file gets no more
#: blocks once it has this size.
FILE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class SpillSettings:
    """The memory and the directory for rows of a subscription that wait.

    Attributes:
        memory_bytes: about how much memory they may take; the rest goes to disk. 0 keeps all of it on disk.
        directory: the directory for these rows; by default the one for temporary files. It must not be in
            memory itself, as ``/tmp`` is on some systems.

    Raises ``SettingsError`` for a negative number of bytes.
    """

    memory_bytes: int = BUDGET_BYTES
    directory: Path | None = None

    def __post_init__(self) -> None:
        if self.memory_bytes < 0:
            raise SettingsError(f"rows that wait cannot take {self.memory_bytes} bytes: give 0 or more")


@dataclass(slots=True)
class _File:
    """One file, and how many of its blocks were not taken yet."""

    opened: IO[bytes]
    written: int = 0
    blocks: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a block in a file. ``checksum`` is that of its compressed bytes."""

    file: _File = field(repr=False)
    begin: int
    length: int
    checksum: int


class SpillFiles:
    """A `BlockStore` in nameless files of ``directory``, by default the one for temporary files. Close it.

    The first block makes the first file: most subscriptions never need one.
    """

    def __init__(self, directory: Path | None = None, file_bytes: int = FILE_BYTES) -> None:
        self._directory = directory or Path(tempfile.gettempdir())
        self._file_bytes = file_bytes
        self._files: list[_File] = []
        self._places: dict[int, _Place] = {}
        self._next_ticket = 0
        #: The bytes of the disk that its files take.
        self.disk_bytes = 0

    def put(self, block: bytes) -> int:
        """See ``BlockStore``. A full disk is noticed here."""
        content = bytes(cramjam.lz4.compress_block(block))
        try:
            file = self._file_with_room()
            _write_at(file.opened, file.written, content)
        except OSError as error:
            raise SpillLost(
                f"Rows that wait do not fit into memory, and {self._directory} does not take them: "
                f"{error.strerror}. Nothing is lost: make room there or name another directory, then resume "
                "from the token"
            ) from None
        place = _Place(file, file.written, len(content), crc32(content))
        file.written += len(content)
        file.blocks += 1
        self.disk_bytes += len(content)
        ticket = self._next_ticket
        self._next_ticket += 1
        self._places[ticket] = place
        return ticket

    def pop(self, ticket: int) -> bytes:
        """See ``BlockStore``."""
        place = self._places.pop(ticket)
        content = self._content(place)
        place.file.blocks -= 1
        if not place.file.blocks:
            self._delete(place.file)
        return content

    def close(self) -> None:
        """Delete the files. An error of the disk does not matter any more."""
        self._places.clear()
        for file in self._files.copy():
            with suppress(OSError):
                self._delete(file)

    def _content(self, place: _Place) -> bytes:
        try:
            content = os.pread(place.file.opened.fileno(), place.length, place.begin)
        except OSError as error:
            raise self._damaged(error.strerror or "it cannot be read") from None
        if len(content) != place.length or crc32(content) != place.checksum:
            raise self._damaged("it is not what was written")
        return bytes(cramjam.lz4.decompress_block(content))

    def _damaged(self, why: str) -> SpillLost:
        return SpillLost(
            f"A block of rows that waited on disk in {self._directory} cannot be used: {why}. Nothing is "
            "lost: look at the disk, then resume from the token"
        )

    def _file_with_room(self) -> _File:
        if not self._files or self._files[-1].written >= self._file_bytes:
            self._files.append(_File(_nameless(self._directory)))
        return self._files[-1]

    def _delete(self, file: _File) -> None:
        self._files.remove(file)
        self.disk_bytes -= file.written
        file.opened.close()


def _nameless(directory: Path) -> IO[bytes]:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return TemporaryFile(dir=directory, prefix="tidegate-subscribe-", buffering=0)


def _write_at(file: IO[bytes], begin: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.pwrite(file.fileno(), left, begin + len(content) - len(left)) :]
