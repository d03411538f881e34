"""A local copy with any one bit flipped begins anew, is refused, or is what it was: never misread."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from rocksdict import Cache, Rdict, WriteBatch

from tables import TABLES
from tests.examples import USUAL
from tests.unit.processor.driving import Driven
from tests.unit.processor.stored_states import states
from tidegate.errors import StateMismatch
from tidegate.processor.batch import StateChange, StateTable
from tidegate.worker.state.store import ChangelogPosition, PartitionStore, RocksOptions

_CACHE: Final = Cache(1 << 20)
_SEED: Final = 8
_STATE: Final = states()["amid"]
_POSITIONS: Final = {table: ChangelogPosition(f"id-of-{table.value}", 4_711) for table in StateTable}
_WRITTEN_MS: Final = 1_790_000_000_000
#: How many bits are flipped in `make test`; in longer runs all of those that stand in keys and values.
_SAMPLE: Final = 20


def _many() -> bool:
    return settings().max_examples > USUAL


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy that was written and closed."""
    path = tmp_path / "copy"
    store = PartitionStore(path, _CACHE, TABLES)
    changes = [StateChange(table, key, value) for (table, key), value in _STATE.items()]
    store.write(changes, _POSITIONS, _WRITTEN_MS)
    store.close()
    return path


def _raw(path: Path) -> Rdict:
    return Rdict(str(path), RocksOptions().build(_CACHE))


def _everything(path: Path) -> dict[bytes, bytes]:
    db = _raw(path)
    stored = {bytes(key): bytes(value) for key, value in db.items()}  # type: ignore[arg-type]  # raw mode
    db.close()
    return stored


def _flips(stored: Mapping[bytes, bytes]) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(key, key or another, value or another) for each bit."""
    for key, value in stored.items():
        for at in range(8 * len(key)):
            yield key, _flipped(key, at), value
        for at in range(8 * len(value)):
            yield key, key, _flipped(value, at)


def _flipped(stored: bytes, at: int) -> bytes:
    changed = bytearray(stored)
    changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def _require_sound(path: Path, how: str) -> None:
    """The store has begun anew, or its rows are refused, or it is as it was."""
    store = PartitionStore(path, _CACHE, TABLES)
    try:
        positions, written_ms = store.positions(), store.written_at_ms()
        if written_ms is None:
            return
        assert written_ms == _WRITTEN_MS, how
        # Without a position the changelog is read from its beginning: what is there comes once more.
        assert positions.items() <= _POSITIONS.items(), how
        rows = {(table, key): value for table, key, value in store.rows() if value is not None}
        Driven.restored(rows)
        assert rows == _STATE, how
    except StateMismatch:
        return
    finally:
        store.close()


@pytest.mark.long
def test_a_copy_with_any_one_bit_of_a_key_or_value_flipped_is_never_misread(copy: Path) -> None:
    stored = _everything(copy)
    flips = list(_flips(stored))
    chosen = flips if _many() else random.Random(_SEED).sample(flips, _SAMPLE)
    own = [flip for flip in flips if flip[0].startswith(b"\x00")]
    for key, other, value in chosen + random.Random(_SEED).sample(own, _SAMPLE):
        _store_anew(copy, {each: stored[each] for each in stored if each != key} | {other: value})
        _require_sound(copy, f"seed {_SEED}: {key!r} -> {other!r}: {value!r}")


def _store_anew(path: Path, stored: Mapping[bytes, bytes]) -> None:
    db = _raw(path)
    batch = WriteBatch(raw_mode=True)
    for key in db.keys():  # noqa: SIM118 - it is no dictionary
        batch.delete(key)
    for key, value in stored.items():
        batch.put(key, value)
    db.write(batch)
    db.close()


@pytest.mark.parametrize("flushed", [False, True], ids=["in the write-ahead log", "in a table file"])
def test_a_copy_with_a_flipped_bit_in_any_of_its_files_is_never_misread(copy: Path, flushed: bool) -> None:
    if flushed:
        db = _raw(copy)
        db.flush()
        db.close()
    whole = copy.with_name("whole")
    copy.rename(whole)
    rng = random.Random(_SEED)
    files = [path for path in sorted(whole.iterdir()) if path.stat().st_size and path.name != "LOG"]
    for _ in range(20 * _SAMPLE if _many() else _SAMPLE):
        damaged = rng.choice(files)
        at = rng.randrange(8 * damaged.stat().st_size)
        shutil.copytree(whole, copy)
        (copy / damaged.name).write_bytes(_flipped(damaged.read_bytes(), at))
        _require_sound(copy, f"seed {_SEED}: bit {at} of {damaged.name}")
        shutil.rmtree(copy)


def test_a_copy_of_the_layout_before_is_read_and_has_hashes_then(copy: Path) -> None:
    before = {key: value[:-8] if key[:1] == b"\x00" else value for key, value in _everything(copy).items()}
    _store_anew(copy, before | {b"\x00format": b"1"})
    for _ in range(2):
        store = PartitionStore(copy, _CACHE, TABLES)
        assert (store.positions(), store.written_at_ms()) == (_POSITIONS, _WRITTEN_MS)
        assert {(table, key): value for table, key, value in store.rows()} == _STATE
        store.close()
    assert _everything(copy)[b"\x00format"] == b"2"
