"""Lets aiokafka read records whose headers have names that are not UTF-8.

Kafka takes any bytes as the name of a header. aiokafka decodes names strictly, and its parser fails at a name
that is not UTF-8. tidegate uses no headers of the records that it reads. So the fetch with such a record is
read once more, by aiokafka's parser in Python, with U+FFFD in place of bytes that are no text. All other
fetches are read by the parser in C as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, SupportsIndex

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords, _MemoryRecordsPy

_WITH_HEADERS: Final = 2  # the first format of batches whose records have headers


class _AnyText(bytearray):
    """Bytes whose parts can be decoded as text. Bytes that are not UTF-8 become U+FFFD."""

    def __getitem__(self, key: SupportsIndex | slice, /) -> Any:
        part = super().__getitem__(key)
        return _AnyText(part) if isinstance(part, bytearray) else part

    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, errors)


class _AnyBatch(_DefaultRecordBatchPy):
    """A batch of records whose headers may have any names."""

    _buffer: bytearray

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        if not isinstance(self._buffer, _AnyText):
            self._buffer = _AnyText(self._buffer)


class _AnyRecords:
    """The batches of a fetch, read in a way that takes headers with any names."""

    def __init__(self, raw: bytes) -> None:
        self._records: Any = _MemoryRecordsPy(raw)
        self.has_next = self._records.has_next

    def next_batch(self) -> Any:
        raw = self._records._next_slice  # noqa: SLF001 - what its next batch is made of
        batch = self._records.next_batch()
        return _AnyBatch(raw) if raw[_MemoryRecordsPy.MAGIC_OFFSET] >= _WITH_HEADERS else batch


class FetchedRecords:
    """The batches of a fetch as aiokafka reads them, and their bytes to read them once more."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._records = MemoryRecords(raw)
        self.has_next = self._records.has_next
        self.next_batch = self._records.next_batch
        self.size_in_bytes = self._records.size_in_bytes


class ReadablePartition(fetcher.PartitionRecords):
    """The records of one partition in a fetch. Reading goes on after a header's name that is no text."""

    def __init__(self, tp: Any, records: Any, aborted: Any, *more: Any) -> None:
        self._raw, self._aborted = records.raw, list(aborted or ())
        super().__init__(tp, records, aborted, *more)

    def _unpack_records(self) -> Iterator[Any]:
        try:
            yield from super()._unpack_records()
        except UnicodeDecodeError:
            yield from self._read_again()

    def _read_again(self) -> Iterator[Any]:
        """Yield the records that were not given yet. The fetch is read again from its beginning for that."""
        wanted = self.next_fetch_offset
        self._records = _AnyRecords(self._raw)
        self._aborted_transactions = sorted(self._aborted, key=lambda transaction: transaction[1])
        self._aborted_producers: set[int] = set()
        for record in super()._unpack_records():
            if record.offset >= wanted:
                yield record


def read_any_headers() -> None:
    """Let all of aiokafka's consumers in this process read headers with any names.

    aiokafka has no setting for it.
    """
    fetcher.MemoryRecords = FetchedRecords
    fetcher.PartitionRecords = ReadablePartition
