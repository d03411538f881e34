"""Keeps the rows of a feed whose sink does not keep up on disk, until the sink takes them.

A spool is a cache. Its files have no names, and are lost with the process. A scan brings again the rows that
are lost, or have no room (docs/protocols/slow-sinks.md). So the files are never synced.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from tidegate.errors import SpoolLost
from tidegate.processor.batch import OutputRecord

#: Partition, record time in ms, lengths in bytes of topic, key and value (-1: no value), number of headers.
_HEAD: Final = struct.Struct("<iqHiiI")
_HEADER: Final = struct.Struct("<II")  # lengths in bytes of name and value
_PIECE_MAX_BYTES: Final = 16 << 20
_PIECES: Final = 8  # a full spool has so many files at least: a file that is read gives its room back


class Spool:
    """A queue of rows on disk, first in, first out. One thread at a time may use it.

    It consists of several files, and each is deleted when all of it has been read. ``limit_bytes`` bounds the
    size of all files together. The rows of a file count until all of them have been read.
    """

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self._directory = directory
        self._limit = limit_bytes
        self._piece_bytes = min(_PIECE_MAX_BYTES, max(1, limit_bytes // _PIECES))
        self._pieces: deque[_Piece] = deque()
        #: The bytes of the disk that its files take.
        self.bytes = 0

    def __bool__(self) -> bool:
        """Whether it has rows."""
        return bool(self._pieces)

    def append(self, rows: Sequence[OutputRecord]) -> None:
        """Add rows after all others. Raises ``SpoolLost`` when there is no room for them."""
        raw = b"".join(map(_encode, rows))
        if self.bytes + len(raw) > self._limit:
            raise SpoolLost(f"they would take more than feed_spool_bytes ({self._limit}) of the disk")
        try:
            if not self._pieces or self._pieces[-1].written >= self._piece_bytes:
                self._pieces.append(_Piece(self._directory))
            self._pieces[-1].write(raw, len(rows))
        except OSError as error:
            raise SpoolLost(f"{self._directory} does not take them: {error.strerror}") from None
        self.bytes += len(raw)

    def take(self, most_bytes: int) -> list[OutputRecord]:
        """Take out the oldest rows, all from one file, until they have ``most_bytes`` bytes.

        Takes at least one row, and the last one may go beyond that size. The spool must not be empty. Raises
        ``SpoolLost`` when the disk does not give the rows back.
        """
        piece = self._pieces[0]
        try:
            rows = piece.read(most_bytes)
        except (OSError, struct.error) as error:
            raise SpoolLost(f"{self._directory} does not give them back: {error}") from None
        if not piece.rows:
            self.bytes -= self._pieces.popleft().close()
        return rows

    def close(self) -> None:
        """Forget all rows, and delete the files."""
        while self._pieces:
            self._pieces.popleft().close()
        self.bytes = 0


class _Piece:
    """One file of a spool, written once and read once. ``rows`` is how many rows were not read yet."""

    def __init__(self, directory: Path) -> None:
        self._file = _nameless(directory)
        self._read_to = 0
        self.written = 0
        self.rows = 0

    def write(self, raw: bytes, rows: int) -> None:
        self._file.seek(self.written)
        self._file.write(raw)
        self._file.flush()  # so that a full disk is noticed here, and not in some later call
        self.written += len(raw)
        self.rows += rows

    def read(self, most_bytes: int) -> list[OutputRecord]:
        self._file.seek(self._read_to)
        limit, rows = self._read_to + most_bytes, list[OutputRecord]()
        while self.rows and (not rows or self._read_to < limit):
            rows.append(_read(self._file))
            self._read_to = self._file.tell()
            self.rows -= 1
        return rows

    def close(self) -> int:
        """Delete the file. Returns how many bytes were written to it."""
        with suppress(OSError):  # a full disk does not take what a write has left; the file is closed anyway
            self._file.close()
        return self.written


def _nameless(directory: Path) -> IO[bytes]:
    directory.mkdir(parents=True, exist_ok=True)
    return TemporaryFile(dir=directory, prefix="spool-")


def _encode(row: OutputRecord) -> bytes:
    topic, value = row.topic.encode(), row.value
    lengths = len(topic), len(row.key), -1 if value is None else len(value), len(row.headers)
    head = _HEAD.pack(row.partition, row.timestamp_ms, *lengths)
    return b"".join((head, topic, row.key, value or b"", *_headers(row.headers)))


def _headers(headers: Sequence[tuple[str, bytes]]) -> Iterator[bytes]:
    for name, value in headers:
        encoded = name.encode()
        yield _HEADER.pack(len(encoded), len(value)) + encoded + value


def _read(file: IO[bytes]) -> OutputRecord:
    partition, timestamp_ms, topic_bytes, key_bytes, value_bytes, headers = _HEAD.unpack(
        file.read(_HEAD.size)
    )
    topic, key = file.read(topic_bytes).decode(), file.read(key_bytes)
    value = None if value_bytes < 0 else file.read(value_bytes)
    return OutputRecord(
        topic, partition, key, value, timestamp_ms, [_read_header(file) for _ in range(headers)]
    )


def _read_header(file: IO[bytes]) -> tuple[str, bytes]:
    name_bytes, value_bytes = _HEADER.unpack(file.read(_HEADER.size))
    return file.read(name_bytes).decode(), file.read(value_bytes)
