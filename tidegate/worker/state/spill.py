"""Keeps open transactions on disk when a worker's memory has no room for them: in a RocksDB database.

The database is a swap file, not a copy of anything. It is written without a log, and deleted when the worker
releases its partitions. All partitions share one database, since its write buffers take memory too. The first
write opens it: most workers never need it.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from tidegate.errors import StateError

#: RocksDB's names for the size of its files, and of its buffers that are not written to files yet.
_SIZES: Final = ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")


@dataclass(frozen=True, slots=True)
class SpillOptions:
    """Every RocksDB option that we set.

    A filter answers most lookups of transactions that are not there. It takes about 10 bits for each
    transaction that is there. Filters and indexes are kept outside of the cache: blocks that lookups read
    would push them out of it.
    """

    block_cache_bytes: int = 16 << 20
    write_buffer_bytes: int = 16 << 20  # there are two; a full one is flushed to a file
    filter_bits: int = 10  # for each key: 1 in 100 lookups of a missing key reads a block
    open_files: int = -1  # no limit: closing a file drops its filter, and a lookup would read it again
    info_log_files: int = 2

    def build(self) -> Options:
        """Make RocksDB's own object of these options."""
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(self.write_buffer_bytes)
        options.set_max_write_buffer_number(2)
        options.set_max_open_files(self.open_files)
        options.set_keep_log_file_num(self.info_log_files)
        options.set_compression_type(DBCompressionType.lz4())
        blocks = BlockBasedOptions()
        blocks.set_block_cache(Cache(self.block_cache_bytes))
        blocks.set_bloom_filter(self.filter_bits, False)
        options.set_block_based_table_factory(blocks)
        return options


class RocksSpill:
    """An ordered store of bytes beyond memory; see ``tidegate.ranges.spilled_txns.SpillStore``.

    Nothing else may be kept at ``path``. The first write deletes what a former worker left there.
    """

    def __init__(self, path: Path, options: SpillOptions | None = None) -> None:
        self._path = path
        self._options = options or SpillOptions()
        self._opening = threading.Lock()
        self._db: Rdict | None = None
        self._write = WriteOptions()
        self._write.disable_wal = True  # type: ignore[method-assign,assignment]  # an attribute; its stub is wrong

    @property
    def disk_bytes(self) -> int:
        """About the bytes that it takes now: files, and buffers that will become files."""
        db = self._db
        return 0 if db is None else sum(db.property_int_value(name) or 0 for name in _SIZES)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; ``None`` if the key is not there."""
        try:
            value: bytes | None = None if self._db is None else self._db.get(key)
        except Exception as error:  # rocksdict raises nothing more specific
            raise _unreadable(self._path, error) from None
        return value

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys from ``start`` on and below ``end`` with their values, in order, as they are now.

        Raises ``StateError`` where the files cannot be read to the end: a scan that ended early would hide
        open transactions, and a marker could pass them.
        """
        if self._db is None:
            return
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(end)
        rows = self._db.iter(bounds)
        try:
            rows.seek(start)
            while rows.valid():
                yield rows.key(), rows.value()
                rows.next()
            rows.status()
        except Exception as error:  # rocksdict raises nothing more specific
            raise _unreadable(self._path, error) from None

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes]) -> None:
        """Apply ``puts``, then ``deletes``: all or nothing. Raises ``StateError`` if that fails."""
        batch = WriteBatch(raw_mode=True)
        for key, value in puts:
            batch.put(key, value)
        for key in deletes:
            batch.delete(key)
        with self._writing():
            self._opened().write(batch, self._write)

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Remove the keys from ``start`` on and below ``end``. Raises as ``write`` does."""
        if self._db is not None:
            with self._writing():
                self._db.delete_range(start, end, self._write)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # rocksdict raises nothing more specific
            raise StateError(
                f"Open transactions cannot be moved out of memory to {self._path}: {error}. Nothing is lost, "
                "for the changelogs hold all of them; make room there, give the worker another directory "
                "(TIDEGATE_DATA_DIR) or more memory (TIDEGATE_INTENT_MEMORY_BYTES), and start it again"
            ) from None

    def close(self) -> None:
        """Delete everything. The next write begins anew."""
        with self._opening:
            db, self._db = self._db, None
        try:
            if db is not None:
                db.close()
        finally:
            shutil.rmtree(self._path, ignore_errors=True)

    def _opened(self) -> Rdict:
        with self._opening:
            if self._db is None:
                shutil.rmtree(self._path, ignore_errors=True)
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._db = Rdict(str(self._path), self._options.build())
            return self._db


def _unreadable(path: Path, error: Exception) -> StateError:
    return StateError(
        f"Open transactions that were moved out of memory to {path} cannot be read: {error}. Nothing is "
        "lost, for the changelogs hold all of them; look at the disk, and start the worker again"
    )
