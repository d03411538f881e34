"""The options of RocksDB that a key table sets."""

from __future__ import annotations

from dataclasses import dataclass

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, Options


@dataclass(frozen=True, slots=True)
class KeyTableOptions:
    """Every RocksDB option that we set, and the bounds of a key table's memory and disk.

    A key table takes memory for the block cache, for two write buffers, for the changed rows of one opening,
    and for one chunk of a `KeyTableSnapshot`. Filters and indexes are in the block cache too. So a table of a
    billion keys takes no more memory than a small one: instead it reads them again.

    Attributes:
        block_cache_bytes: blocks, filters and indexes that were read.
        write_buffer_bytes: changes that are in the write-ahead log and in no file yet; there are two buffers.
        filter_bits: bits of the filters for each key; with 10 of them, 1 in 100 lookups of a key that is not
            there reads a block.
        open_files: the most files that are open at the same time.
        wal_bytes: the most bytes of write-ahead logs; beyond this size the buffers are flushed to files.
        info_log_files, info_log_bytes: RocksDB's own logs: how many are kept, and how large one may be.
        fill_rows: how many changed keys wait in memory while the first snapshot comes. Later all rows of an
            opening wait, since they become durable together.
        undo_bytes: the most bytes of undo records, which are kept to go back to a stored token. They grow
            when openings follow without ``settle``. The last opening can always be undone, however large it
            is.
        compressed: whether files are compressed (lz4): they take half the disk, and a row that is read takes
            4 us more. Choose it for tables that do not fit into the memory that the system has for files.
        sync: whether each opening is on the disk when ``close_at`` returns. Without it a power failure, not a
            crash, can leave the table below the frontier of a stored token, and a new snapshot is needed.
    """

    block_cache_bytes: int = 64 << 20
    write_buffer_bytes: int = 16 << 20
    filter_bits: int = 10
    open_files: int = 256
    wal_bytes: int = 64 << 20
    info_log_files: int = 2
    info_log_bytes: int = 4 << 20
    fill_rows: int = 10_000
    undo_bytes: int = 64 << 20
    compressed: bool = False
    sync: bool = True

    def build(self) -> Options:
        """Make RocksDB's own object of these options."""
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(self.write_buffer_bytes)
        options.set_max_write_buffer_number(2)
        options.set_max_open_files(self.open_files)
        options.set_max_total_wal_size(self.wal_bytes)
        options.set_keep_log_file_num(self.info_log_files)
        options.set_max_log_file_size(self.info_log_bytes)
        compression = DBCompressionType.lz4() if self.compressed else DBCompressionType.none()
        options.set_compression_type(compression)
        # A record of a log that a power failure has cut is left out, and so is everything after it.
        options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
        blocks = BlockBasedOptions()
        blocks.set_block_cache(Cache(self.block_cache_bytes))
        blocks.set_bloom_filter(self.filter_bits, False)
        blocks.set_cache_index_and_filter_blocks(True)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
        options.set_block_based_table_factory(blocks)
        return options
