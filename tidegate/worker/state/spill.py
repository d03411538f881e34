"""Where open transactions go that are more than a worker's memory is to hold: a RocksDB database of its own.

It is a swap file, not a copy of anything: written without a log, and deleted when the worker lets its
partitions go. One for all partitions, since a database's write buffers are memory too; opened by the first
write, for most workers never need it.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Iterator
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

#: RocksDB's names of what its files, and what it has not written to files yet, take.
_SIZES: Final = ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")


@dataclass(frozen=True, slots=True)
class SpillOptions:
    """Every RocksDB option that we set.

    Filters answer for most transactions that are not there, about 10 bits for each that is; they and the
    indexes stand outside of the cache, which would drop them for every lookup that it reads a block for.
    """

    block_cache_bytes: int = 16 << 20
    write_buffer_bytes: int = 16 << 20  # flushed to a file when full; two
    filter_bits: int = 10  # for each key: 1 in 100 lookups of what is not there reads a block
    open_files: int = -1  # all: closing one drops its filter, and a lookup reads that again
    info_log_files: int = 2

    def build(self) -> Options:
        """RocksDB's own object."""
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

    ``path`` belongs to it: what a former worker left there is deleted by the first write.
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
        """What it takes at present, about: files, and buffers that are to become files."""
        db = self._db
        return 0 if db is None else sum(db.property_int_value(name) or 0 for name in _SIZES)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        value: bytes | None = None if self._db is None else self._db.get(key)
        return value

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys from ``start`` on and below ``end``, in order, as they are now."""
        if self._db is None:
            return
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(end)
        rows = self._db.iter(bounds)
        rows.seek(start)
        while rows.valid():
            yield rows.key(), rows.value()
            rows.next()

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes]) -> None:
        """Apply ``puts``, then ``deletes``: all or nothing.

        Raises ``StateError`` when that is not possible.
        """
        batch = WriteBatch(raw_mode=True)
        for key, value in puts:
            batch.put(key, value)
        for key in deletes:
            batch.delete(key)
        try:
            self._opened().write(batch, self._write)
        except Exception as error:  # rocksdict raises nothing more specific
            raise StateError(
                f"Open transactions cannot be moved out of memory to {self._path}: {error}. Nothing is lost, "
                "for the changelogs hold all of them; make room there, give the worker another directory "
                "(TIDEGATE_DATA_DIR) or more memory (TIDEGATE_INTENT_MEMORY_BYTES), and start it again"
            ) from None

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Remove the keys from ``start`` on and below ``end``."""
        if self._db is not None:
            self._db.delete_range(start, end, self._write)

    def close(self) -> None:
        """Delete everything. The next write begins anew."""
        with self._opening:
            db, self._db = self._db, None
        if db is not None:
            db.close()
        shutil.rmtree(self._path, ignore_errors=True)

    def _opened(self) -> Rdict:
        with self._opening:
            if self._db is None:
                shutil.rmtree(self._path, ignore_errors=True)
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._db = Rdict(str(self._path), self._options.build())
            return self._db
