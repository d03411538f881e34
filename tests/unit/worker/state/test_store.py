"""The local copy of state: what was written together is there together, or not at all."""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Cache

from tables import TABLES
from tests.examples import examples
from tidegate.errors import StateError, StateMismatch
from tidegate.processor.batch import StateChange, StateTable
from tidegate.worker.state.store import PartitionStore, RocksOptions

_CACHE = Cache(1 << 20)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PartitionStore]:
    opened = PartitionStore(tmp_path / "partition-0", _CACHE, TABLES)
    yield opened
    opened.close()


def test_every_table_has_a_prefix_of_its_own() -> None:
    assert {table.state for table in TABLES} == set(StateTable)
    assert len({table.prefix for table in TABLES}) == len(TABLES)
    assert all(len(table.prefix) == 1 and table.prefix != b"\x00" for table in TABLES)


def test_a_new_store_is_empty(store: PartitionStore) -> None:
    assert store.positions() == {}
    assert store.written_at_ms() is None
    assert list(store.rows()) == []


def test_rows_of_tables_with_equal_keys_stay_apart(store: PartitionStore) -> None:
    changes = [StateChange(table, b"key", table.value.encode()) for table in StateTable]
    store.write(changes, {}, 1)
    assert sorted(store.rows(), key=str) == sorted(changes, key=str)


def test_open_transactions_come_last(store: PartitionStore) -> None:
    changes = [StateChange(table, b"%05d" % n, b"value") for table in StateTable for n in range(2_001)]
    store.write(changes, dict.fromkeys(StateTable, ("id", 1)), 1)
    rows = list(store.rows())
    assert sorted(rows, key=str) == sorted(changes, key=str)
    assert {row.table for row in rows[-2_001:]} == {StateTable.INTENTS}


def test_a_store_can_be_closed_while_rows_are_left_to_take(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "p", _CACHE, TABLES)
    store.write([StateChange(StateTable.RANGES, b"%d" % n, b"1") for n in range(10)], {}, 1)
    rows = store.rows()
    next(rows)
    store.clear()
    assert list(store.rows()) == []
    store.close()


def test_later_changes_of_one_batch_win(store: PartitionStore) -> None:
    ranges = StateTable.RANGES
    store.write([StateChange(ranges, b"a", b"1"), StateChange(ranges, b"a", b"2")], {}, 1)
    store.write([StateChange(ranges, b"b", b"1"), StateChange(ranges, b"b", None)], {}, 1)
    assert list(store.rows()) == [StateChange(ranges, b"a", b"2")]


def test_a_reopened_store_holds_what_was_written(tmp_path: Path) -> None:
    path, change = tmp_path / "p", StateChange(StateTable.FEEDS, b"f", b"v")
    first = PartitionStore(path, _CACHE, TABLES)
    first.write([change], {StateTable.FEEDS: ("topic id", 42)}, 7)
    first.close()
    again = PartitionStore(path, _CACHE, TABLES)
    assert list(again.rows()) == [change]
    assert again.positions() == {StateTable.FEEDS: ("topic id", 42)}
    assert again.written_at_ms() == 7
    again.close()


def test_a_cleared_store_is_empty_and_usable(store: PartitionStore) -> None:
    store.write([StateChange(StateTable.RANGES, b"a", b"1")], {StateTable.RANGES: ("id", 1)}, 1)
    store.clear()
    assert list(store.rows()) == []
    assert store.positions() == {}
    store.write([StateChange(StateTable.RANGES, b"b", b"2")], {}, 2)
    assert list(store.rows()) == [StateChange(StateTable.RANGES, b"b", b"2")]


def test_a_damaged_store_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "p"
    store = PartitionStore(path, _CACHE, TABLES)
    store.write([StateChange(StateTable.RANGES, b"a", b"1")], {}, 1)
    store.close()
    for manifest in path.glob("MANIFEST-*"):
        manifest.write_bytes(b"no manifest")
    again = PartitionStore(path, _CACHE, TABLES)
    assert list(again.rows()) == []
    again.close()


def test_a_store_with_a_block_that_the_database_finds_damaged_begins_anew_when_it_is_cleared(
    tmp_path: Path,
) -> None:
    """RocksDB meets the block while it merges its files, and takes no write from then on."""
    path, options = tmp_path / "p", RocksOptions(write_buffer_bytes=64 << 10)
    noise = Random(5)
    store = PartitionStore(path, _CACHE, TABLES, options)
    for first in range(3):
        rows = [StateChange(StateTable.RANGES, b"%08d" % n, noise.randbytes(400)) for n in range(first, 600)]
        store.write(rows, {StateTable.RANGES: ("id", first)}, 1)
        store._db.flush()
    store.write([StateChange(StateTable.RANGES, b"z", b"x")], {StateTable.RANGES: ("id", 9)}, 1)
    left_behind = tmp_path / "killed"
    shutil.copytree(path, left_behind)
    store.close()
    for file in sorted(left_behind.glob("*.sst"))[:3]:
        raw = bytearray(file.read_bytes())
        raw[len(raw) // 3] ^= 0xFF
        file.write_bytes(raw)
    store = PartitionStore(left_behind, _CACHE, TABLES, options)
    with pytest.raises(StateMismatch, match=r"cannot be read: .*Corruption"):
        _write_for(store, 60)
    store.clear()
    assert list(store.rows()) == []
    store.write([StateChange(StateTable.RANGES, b"a", b"1")], {StateTable.RANGES: ("id", 11)}, 2)
    store.close()
    store = PartitionStore(left_behind, _CACHE, TABLES)
    assert list(store.rows()) == [StateChange(StateTable.RANGES, b"a", b"1")]
    store.close()


def _write_for(store: PartitionStore, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        store.write([], {StateTable.RANGES: ("id", 10)}, 1)


@examples(10)
@given(batches=st.integers(1, 20), kept=st.floats(0.0, 1.0))
def test_a_torn_write_batch_is_not_seen(
    tmp_path_factory: pytest.TempPathFactory, batches: int, kept: float
) -> None:
    """A machine that fails in the middle of a write leaves the beginning of the write-ahead log."""
    path = tmp_path_factory.mktemp("torn") / "p"
    store = PartitionStore(path, _CACHE, TABLES)
    for number in range(1, batches + 1):
        rows = [StateChange(table, b"%d" % number, b"x" * 50) for table in StateTable]
        store.write(rows, dict.fromkeys(StateTable, ("id", number)), number)
    log = max(path.glob("*.log"), key=lambda file: file.stat().st_size)
    torn = log.read_bytes()[: int(log.stat().st_size * kept)]
    store.close()
    for file in path.glob("*.log"):
        file.unlink()
    log.write_bytes(torn)
    again = PartitionStore(path, _CACHE, TABLES)
    held = {int(row.key) for row in again.rows()}
    expected = max((offset for _, offset in again.positions().values()), default=0)
    assert held == set(range(1, expected + 1))
    assert len(list(again.rows())) == expected * len(StateTable)
    again.close()


def test_a_store_that_is_open_is_not_deleted_under_its_user(tmp_path: Path) -> None:
    first = PartitionStore(tmp_path / "p", _CACHE, TABLES)
    first.write([StateChange(StateTable.RANGES, b"a", b"1")], {}, 1)
    with pytest.raises(Exception, match="lock hold"):
        PartitionStore(tmp_path / "p", _CACHE, TABLES)
    assert list(first.rows()) == [StateChange(StateTable.RANGES, b"a", b"1")]
    first.close()


def test_a_store_that_finds_no_file_handles_is_not_deleted(tmp_path: Path) -> None:
    path = tmp_path / "p"
    first = PartitionStore(path, _CACHE, TABLES)
    first.write([StateChange(StateTable.RANGES, b"a", b"1")], {}, 1)
    first.close()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 2, limits[1]))  # two more can be opened
    try:
        with pytest.raises(StateError, match=r"Too many open files.* raise the limit of open files"):
            PartitionStore(path, _CACHE, TABLES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    again = PartitionStore(path, _CACHE, TABLES)
    assert list(again.rows()) == [StateChange(StateTable.RANGES, b"a", b"1")]
    again.close()
