"""Sinks for log records: the interface, a list, and a file. Kafka is in ``kafka_sink``."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from sim.log.framed_file import FrameFormat, FrameWriter, read_frames

_LOG_FORMAT: Final = FrameFormat(b"tidegate raft log\x01", struct.Struct(">Iq"))


class WrittenRecord(NamedTuple):
    """A record of the raftlog topic; ``record_time_ms`` is Kafka's timestamp."""

    partition: int
    key: bytes
    value: bytes
    record_time_ms: int


class LogSink(Protocol):
    """Takes log records, and keeps the order of those in a partition."""

    def append(self, partition: int, key: bytes, value: bytes, record_time_ms: int) -> None:
        """Take one record. It need not be durable before ``flush``."""

    def flush(self) -> None:
        """Return once all appended records are durable. Each kind of sink has its own error if that fails."""


class ListSink:
    """Keeps the records in memory."""

    def __init__(self) -> None:
        self.records: list[WrittenRecord] = []

    def append(self, partition: int, key: bytes, value: bytes, record_time_ms: int) -> None:
        """See ``LogSink``."""
        self.records.append(WrittenRecord(partition, key, value, record_time_ms))

    def flush(self) -> None:
        """See ``LogSink``."""


class FileSink:
    """Writes the records to a file, which ``read_log`` reads."""

    def __init__(self, path: Path) -> None:
        self._frames = FrameWriter(path, _LOG_FORMAT)

    def append(self, partition: int, key: bytes, value: bytes, record_time_ms: int) -> None:
        """See ``LogSink``."""
        self._frames.write((partition, record_time_ms), key, value)

    def flush(self) -> None:
        """See ``LogSink``."""
        self._frames.flush()

    def close(self) -> None:
        """Flush, and close the file."""
        self._frames.close()


def read_log(path: Path) -> Iterator[WrittenRecord]:
    """Yield the records of a file that ``FileSink`` wrote.

    Raises ``StateError`` for other files, and torn ones.
    """
    for (partition, record_time_ms), key, value in read_frames(path, _LOG_FORMAT):
        yield WrittenRecord(partition, key, value, record_time_ms)
