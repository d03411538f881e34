"""The local copy of a log partition's state: one RocksDB database, every table under its own prefix.

It is a cache of the changelogs, so it is never synced to disk: rows that a power failure takes away are read
again. But it must never *claim* more than it holds. So the changelog positions are written in the same batch
as the rows that they speak of.

Other keys start with a zero byte. They have the version of this layout, the changelog position of each table
(the topic's id, and the next offset to read), and the time of the last write. All but the version end with a
hash of themselves, since the digests of rows do not cover them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

import structlog
from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, Rdict, WriteBatch

from tidegate.errors import StateError, StateMismatch
from tidegate.processor.batch import StateChange, StateTable
from tidegate.worker.state.table import Table

#: RocksDB's block cache, shared by the stores of a process.
BlockCache: TypeAlias = Cache

_FORMAT: Final = b"2"
#: The former layout, in which positions and the time have no hashes.
_UNHASHED: Final = b"1"
_HASH_BYTES: Final = 8
_FORMAT_KEY: Final = b"\x00format"
_WRITTEN_KEY: Final = b"\x00written"
_POSITION_PREFIX: Final = b"\x00position/"

_ROWS_AT_ONCE: Final = 1_000
#: The words of RocksDB's errors when the machine or the operator, and not the database, is at fault.
_OF_THE_MACHINE: Final = (
    "No space left on device",
    "Disk quota exceeded",
    "Too many open files",
    "Permission denied",
    "Read-only file system",
)
#: The words of RocksDB's errors when the database is at fault.
_DAMAGED: Final = "Corruption"

_log = structlog.get_logger("tidegate.store")


@dataclass(frozen=True, slots=True)
class RocksOptions:
    """Every RocksDB option that we set. A worker has one database for each partition.

    All partitions of the process share the block cache. It is small, since rows are read only once, at the
    restore. ``open_files`` bounds the file handles of each partition.
    """

    block_cache_bytes: int = 32 << 20
    write_buffer_bytes: int = 8 << 20  # up to two for each partition; a full one is flushed to a file
    open_files: int = 64
    wal_bytes: int = 32 << 20
    info_log_files: int = 2

    def build(self, cache: BlockCache) -> Options:
        """Make RocksDB's own object of these options."""
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(self.write_buffer_bytes)
        options.set_max_write_buffer_number(2)
        options.set_max_open_files(self.open_files)
        options.set_max_total_wal_size(self.wal_bytes)
        options.set_keep_log_file_num(self.info_log_files)
        options.set_compression_type(DBCompressionType.lz4())
        blocks = BlockBasedOptions()
        blocks.set_block_cache(cache)
        options.set_block_based_table_factory(blocks)
        return options


class ChangelogPosition(NamedTuple):
    """The next offset to read from a changelog partition, and the id of the topic that it belongs to."""

    topic_id: str
    offset: int


class LocalStore(Protocol):
    """The part of its store that a partition uses (``PartitionStore``)."""

    def positions(self) -> Mapping[StateTable, ChangelogPosition]: ...
    def written_at_ms(self) -> int | None: ...
    def rows(self) -> Iterator[StateChange]: ...
    def write(
        self,
        changes: Iterable[StateChange],
        positions: Mapping[StateTable, tuple[str, int]],
        now_ms: int,
    ) -> None: ...
    def clear(self) -> None: ...
    def close(self) -> None: ...


#: Opens the store that is kept in a directory.
OpenStore: TypeAlias = Callable[[Path], LocalStore]


def rocks_stores(tables: Iterable[Table]) -> OpenStore:
    """Make the function that opens stores of ``tables`` in RocksDB. The stores share a block cache."""
    cache = BlockCache(RocksOptions().block_cache_bytes)
    return partial(PartitionStore, cache=cache, tables=tuple(tables))


class PartitionStore:
    """The local copy of one log partition's state. One thread at a time may use it."""

    def __init__(
        self, path: Path, cache: BlockCache, tables: Iterable[Table], options: RocksOptions | None = None
    ) -> None:
        """Open the database of ``tables`` at ``path``.

        One that is missing, damaged or of another layout is replaced by an empty one. Raises ``StateError``
        if the disk has no room for it.
        """
        self._path = path
        self._cache = cache
        self._prefix_of = {table.state: table.prefix for table in tables}
        self._options = options or RocksOptions()
        self._positions: dict[StateTable, ChangelogPosition] = {}
        self._written_ms: int | None = None
        self._db = self._open()

    def positions(self) -> dict[StateTable, ChangelogPosition]:
        """Return where to go on reading each table's changelog.

        A table that was never written has no position.
        """
        return dict(self._positions)

    def written_at_ms(self) -> int | None:
        """Return the wall clock at the last write, in milliseconds since 1970; ``None`` for an
        empty store.
        """
        return self._written_ms

    def rows(self) -> Iterator[StateChange]:
        """Yield every row, one table after the other. Rows are read from the database as they are taken.

        Open transactions come last. There may be millions of them, and a caller that has their ranges by then
        need not keep them all in memory. Raises ``StateMismatch`` if the database cannot be read.
        """
        for table in sorted(StateTable, key=lambda table: table is StateTable.INTENTS):
            piece = self._rows_from(table, b"")
            while piece:
                yield from piece
                piece = self._rows_from(table, piece[-1].key + b"\x00")

    def write(
        self,
        changes: Iterable[StateChange],
        positions: Mapping[StateTable, tuple[str, int]],
        now_ms: int,
    ) -> None:
        """Apply ``changes`` in order, together with the changelog ``positions`` after them: all or nothing.

        Raises ``StateError`` if that fails, ``StateMismatch`` for a damaged database. The store cannot be
        used any more then, unless it is cleared.
        """
        batch = WriteBatch(raw_mode=True)
        for table, key, value in changes:
            if value is None:
                batch.delete(self._prefix_of[table] + key)
            else:
                batch.put(self._prefix_of[table] + key, value)
        came_to = self._positions | {table: ChangelogPosition(*each) for table, each in positions.items()}
        _put_positions(batch, {table: came_to[table] for table in positions}, now_ms)
        try:
            self._db.write(batch)
        except Exception as error:  # rocksdict raises nothing more specific
            if _DAMAGED in str(error):
                raise self._damaged(error) from None
            raise self._unwritable(error) from None
        self._positions, self._written_ms = came_to, now_ms

    def clear(self) -> None:
        """Delete the database, and begin an empty one."""
        try:
            self._db.close()
        except Exception as error:  # of a damaged database: its files are closed with the object
            _log.warning("the local copy of state was not closed", path=str(self._path), error=error)
            del self._db
        shutil.rmtree(self._path)
        self._db = self._open()

    def _rows_from(self, table: StateTable, start: bytes) -> list[StateChange]:
        """Read up to ``_ROWS_AT_ONCE`` rows of a table, from a key on.

        RocksDB's iterator is given up before the return: a database with an open iterator cannot be closed.
        """
        prefix, found = self._prefix_of[table], list[StateChange]()
        rows = self._db.iter()
        try:
            rows.seek(prefix + start)
            while len(found) < _ROWS_AT_ONCE and rows.valid() and (key := rows.key())[:1] == prefix:
                found.append(StateChange(table, key[1:], rows.value()))
                rows.next()
            rows.status()
        except Exception as error:  # rocksdict raises nothing more specific
            raise self._damaged(error) from None
        return found

    def close(self) -> None:
        """Close the files. The store cannot be used any more."""
        self._db.close()

    def _open(self) -> Rdict:
        try:
            return self._database_of_this_layout()
        except Exception as error:
            if "lock hold" in str(error):
                raise  # the database is open elsewhere: it is not damaged, and must not be deleted
            if any(sign in str(error) for sign in _OF_THE_MACHINE):
                raise self._unwritable(error) from None
            _log.warning(
                "the local copy of state is damaged and begins anew", path=str(self._path), error=error
            )
        shutil.rmtree(self._path, ignore_errors=True)
        return self._database_of_this_layout()

    def _database_of_this_layout(self) -> Rdict:
        db = self._database()
        try:
            layout = db.get(_FORMAT_KEY)
            if layout in (_FORMAT, _UNHASHED):
                self._positions, self._written_ms = _read_positions(db, hashed=layout == _FORMAT)
            if layout == _UNHASHED:
                batch = WriteBatch(raw_mode=True)
                _put_positions(batch, self._positions, self._written_ms)
                batch.put(_FORMAT_KEY, _FORMAT)
                db.write(batch)
        except Exception:
            db.close()
            raise
        if layout not in (_FORMAT, _UNHASHED):
            db.close()
            shutil.rmtree(self._path, ignore_errors=True)
            db = self._database()
            db.put(_FORMAT_KEY, _FORMAT)
            self._positions, self._written_ms = {}, None
        return db

    def _database(self) -> Rdict:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return Rdict(str(self._path), self._options.build(self._cache))

    def _damaged(self, error: Exception) -> StateMismatch:
        return StateMismatch(f"The local copy of state in {self._path} cannot be read: {error}")

    def _unwritable(self, error: Exception) -> StateError:
        return StateError(
            f"The local copy of state in {self._path} cannot be written: {error}. Nothing is lost, for the "
            "changelogs hold all of it. Mend the cause (make room, or raise the limit of open files), or "
            "give the worker another directory (TIDEGATE_DATA_DIR), and start it again"
        )


def _put_positions(
    batch: WriteBatch, positions: Mapping[StateTable, ChangelogPosition], written_ms: int | None
) -> None:
    for table, (topic_id, offset) in positions.items():
        key = _POSITION_PREFIX + table.value.encode()
        batch.put(key, _hashed(key, f"{topic_id} {offset}".encode()))
    if written_ms is not None:
        batch.put(_WRITTEN_KEY, _hashed(_WRITTEN_KEY, str(written_ms).encode()))


def _read_positions(db: Rdict, *, hashed: bool) -> tuple[dict[StateTable, ChangelogPosition], int | None]:
    """Read the positions and the time of the last write. Raises ``ValueError`` if a hash does not match."""
    found = {}
    for table in StateTable:
        stored = _get(db, _POSITION_PREFIX + table.value.encode(), hashed=hashed)
        if stored is not None:
            topic_id, _, offset = stored.decode().rpartition(" ")
            found[table] = ChangelogPosition(topic_id, int(offset))
    written = _get(db, _WRITTEN_KEY, hashed=hashed)
    return found, None if written is None else int(written)


def _get(db: Rdict, key: bytes, *, hashed: bool) -> bytes | None:
    stored: bytes | None = db.get(key)
    if stored is None or not hashed:
        return stored
    value = stored[:-_HASH_BYTES]
    if stored != _hashed(key, value):
        raise ValueError(f"what stands under {key!r} is not what was written")
    return value


def _hashed(key: bytes, value: bytes) -> bytes:
    return value + blake2b(value, digest_size=_HASH_BYTES, key=key).digest()
