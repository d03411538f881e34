"""The database of open transactions beyond memory: what it cannot read it says, and never leaves out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.errors import StateError
from tidegate.worker.state.spill import RocksSpill, SpillOptions

_SMALL = SpillOptions(block_cache_bytes=1 << 10, write_buffer_bytes=64 << 10)
_ROWS = 4_000


def _key(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _full_of_files(path: Path) -> RocksSpill:
    spill = RocksSpill(path, _SMALL)
    for first in range(0, _ROWS, 100):
        spill.write(((_key(number), os.urandom(200)) for number in range(first, first + 100)), ())
    return spill


def _damage(path: Path) -> int:
    files = [file for file in path.glob("*.sst") if file.stat().st_size > 20_000]
    for file in files:
        with file.open("r+b") as opened:
            opened.seek(8_000)
            opened.write(b"\xff" * 4_000)
    return len(files)


def test_a_scan_gives_every_key_in_order(tmp_path: Path) -> None:
    spill = _full_of_files(tmp_path / "spill")
    assert [key for key, _ in spill.scan(b"", b"\xff")] == [_key(number) for number in range(_ROWS)]
    spill.close()


def test_a_scan_over_files_that_cannot_be_read_ends_with_a_sentence_and_not_early(tmp_path: Path) -> None:
    spill = _full_of_files(tmp_path / "spill")
    assert _damage(tmp_path / "spill")
    with pytest.raises(StateError, match=r"were moved out of memory to .* cannot be read: .*Nothing is lost"):
        list(spill.scan(b"", b"\xff"))
    spill.close()


def test_a_key_in_a_file_that_cannot_be_read_is_not_taken_for_one_that_is_not_there(tmp_path: Path) -> None:
    spill = _full_of_files(tmp_path / "spill")
    assert _damage(tmp_path / "spill")
    with pytest.raises(StateError, match="cannot be read"):
        assert all(spill.get(_key(number)) is not None for number in range(_ROWS))
    spill.close()
