"""The store of open transactions beyond memory, in RocksDB."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given

from tests.examples import examples
from tests.unit.ranges.two_levels import Run, coming_back, histories
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


@given(histories)
@examples(12)
def test_two_levels_answer_as_one_over_rocksdb(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[object, ...]]
) -> None:
    with closing(RocksSpill(tmp_path_factory.mktemp("spill"))) as store, coming_back(2):
        plain, two_level = Run(None), Run(store)
        for name, *arguments in history:
            assert two_level.do(str(name), *arguments) == plain.do(str(name), *arguments)
            assert two_level.seen() == plain.seen()


def test_the_store_beyond_memory_is_made_by_the_first_write_and_deleted_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "spill"
    path.mkdir()
    (path / "left by a worker that was killed").write_text("")
    store = RocksSpill(path)
    assert (store.get(b"a"), list(store.scan(b"", b"z")), store.disk_bytes) == (None, [], 0)
    store.write([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], [b"b"])
    assert list(store.scan(b"a", b"c")) == [(b"a", b"1")]
    assert store.disk_bytes > 0
    store.delete_range(b"a", b"c")
    assert list(store.scan(b"", b"z")) == [(b"c", b"3")]
    assert not (path / "left by a worker that was killed").exists()
    store.close()
    assert not path.exists()
    store.write([(b"d", b"4")], [])
    assert list(store.scan(b"", b"z")) == [(b"d", b"4")]
    store.close()


def test_a_store_that_cannot_be_written_says_where_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = RocksSpill(tmp_path / "file" / "spill")
    with pytest.raises(StateError, match=r"cannot be moved out of memory to .*file/spill.*make room there"):
        store.write([(b"a", b"1")], [])


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


def test_a_disk_that_takes_no_removal_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def delete_range(self, *_: object) -> None:
            raise RuntimeError("IO error: No space left on device")

        def close(self) -> None:
            raise RuntimeError("IO error: No space left on device")

    spill = RocksSpill(tmp_path / "spill", _SMALL)
    spill.write([(b"a", b"1")], ())
    rows = spill._db
    assert rows is not None
    monkeypatch.setattr(spill, "_db", Full())
    with pytest.raises(
        StateError, match=r"cannot be moved out of memory .* No space left .* make room there"
    ):
        spill.delete_range(b"a", b"b")
    with pytest.raises(RuntimeError, match="No space left"):
        spill.close()
    assert not (tmp_path / "spill").exists()
    with suppress(Exception):  # its directory is gone
        rows.close()
