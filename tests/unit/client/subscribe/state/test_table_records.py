"""A key table gives back what was written, or refuses it: it never misreads."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from rocksdict import Rdict, WriteBatch

from tests.examples import USUAL
from tests.unit.client.subscribe.state.tables import IDENTITY, OPTIONS, contents, frontier, opened
from tidegate.client.subscribe.state.table_directory import discard_key_table
from tidegate.client.subscribe.state.table_records import (
    STATE_KEY,
    KeyTableState,
    UndoRecord,
    about_bytes,
    read_about,
    read_state,
    read_undo,
    sealed,
    undo_frontier,
    undo_key,
    unsealed,
)
from tidegate.errors import HistoryLost, StateError
from tidegate.hlc import MAX
from tidegate.subscribe.updates.frontier import Frontier

_SEED: Final = 8
_SAMPLE: Final = 60
_ROWS: Final = {b"[%d]" % n: (n, f"text {n}", None) for n in range(4)}


def _many() -> bool:
    return settings().max_examples > USUAL


def test_stored_records_keep_their_bytes() -> None:
    """They stand on somebody's disk: another form is another format, which the changelog tells."""
    assert sealed(b"r[1]", b"\x01i\x01\x01").hex() == "3486bda601690101"
    state = KeyTableState(frontier(7), 2, 300)
    assert state.to_bytes()[4:] == b'{"frontier":"7.0000000000","rows":2,"seals":300}'
    assert about_bytes(IDENTITY)[4:] == (
        b'{"columns":["id","city"],"feed":"feed","format":1,"table":"movr.public.rides"}'
    )
    assert about_bytes(replace(IDENTITY, reduced_keys=True))[4:] == (
        b'{"columns":["id","city"],"feed":"feed","format":2,"table":"movr.public.rides"}'
    )
    undo = UndoRecord(state, [(b"[1]", None), (b"[2]", b"seal and row")]).to_bytes(frontier(9))
    assert undo[4:] == b"4" + state.to_bytes() + b"\x03[1]\x00" + b"\x03[2]\x0cseal and row"
    assert undo_key(frontier(9)).hex() == "75" + "0000000000000009" + "00000000"


def test_records_are_read_back() -> None:
    state = KeyTableState(Frontier(MAX), 2, 300)
    assert read_state(state.to_bytes()) == state
    reduced = replace(IDENTITY, reduced_keys=True)
    assert read_about(about_bytes(IDENTITY)) == (1, IDENTITY)
    assert read_about(about_bytes(reduced)) == (2, reduced)
    undo = UndoRecord(state, [(b"", None), (b"x" * 200, b"y" * 20_000)])
    assert read_undo(undo_key(frontier(1)), undo.to_bytes(frontier(1))) == undo
    assert undo_frontier(undo_key(Frontier(MAX))) == Frontier(MAX)


def test_a_value_under_another_key_is_refused() -> None:
    with pytest.raises(ValueError, match="is not what was written"):
        unsealed(b"r[2]", sealed(b"r[1]", b"row"))


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A table of two openings, which was closed."""
    with opened(tmp_path / "whole") as table:
        table.replace_all([(key, (0, "before", None)) for key in (*_ROWS, b"gone")])
        table.close_at(frontier(1))
        table.replace_all([*_ROWS.items(), (b"gone", None)])
        table.close_at(frontier(2))
    return tmp_path / "whole"


def _require_sound(path: Path, how: str) -> None:
    """All that is read is as of the frontier, or it is refused."""
    try:
        with opened(path) as table:
            wall = table.frontier.wall
            before = dict.fromkeys((*_ROWS, b"gone"), (0, "before", None))
            expected = {0: {}, 1: before, 2: _ROWS}[wall]
            assert contents(table) == expected, how
            assert table.replace_all([(key, None) for key in expected]) == [*expected.values()], how
            if wall == 2:
                table.go_back_to(frontier(1))
                assert contents(table) == before, how
    except HistoryLost as error:
        assert "Discard" in str(error)  # noqa: PT017 - either is right
        discard_key_table(path)
        with opened(path) as table:
            assert contents(table) == {}
    except StateError as error:
        assert "newer one wrote it" in str(error) or "of its own" in str(error), how  # noqa: PT017


def _flipped(stored: bytes, at: int) -> bytes:
    changed = bytearray(stored)
    changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def _flips(stored: Mapping[bytes, bytes]) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(key, key or another, value or another) for each bit."""
    for key, value in stored.items():
        for at in range(8 * len(key)):
            yield key, _flipped(key, at), value
        for at in range(8 * len(value)):
            yield key, key, _flipped(value, at)


@pytest.mark.long
def test_any_one_bit_of_a_key_or_value_that_flips_is_never_misread(whole: Path) -> None:
    path = whole / "rows"
    db = Rdict(str(path), OPTIONS.build())
    stored = {bytes(key): bytes(value) for key, value in db.items()}  # type: ignore[arg-type]  # raw mode
    db.close()
    assert STATE_KEY in stored
    flips = list(_flips(stored))
    for key, other, value in flips if _many() else random.Random(_SEED).sample(flips, _SAMPLE):
        shutil.rmtree(path, ignore_errors=True)
        db = Rdict(str(path), OPTIONS.build())
        batch = WriteBatch(raw_mode=True)
        for each in stored:
            if each != key:
                batch.put(each, stored[each])
        batch.put(other, value)
        db.write(batch)
        db.close()
        _require_sound(whole, f"seed {_SEED}: {key!r} -> {other!r}: {value!r}")


@pytest.mark.parametrize("flushed", [False, True], ids=["in the write-ahead log", "in a table file"])
def test_a_flipped_bit_in_any_file_is_never_misread(whole: Path, tmp_path: Path, flushed: bool) -> None:
    if flushed:
        db = Rdict(str(whole / "rows"), OPTIONS.build())
        db.flush()
        db.close()
    rng = random.Random(_SEED)
    files = [
        path for path in sorted((whole / "rows").iterdir()) if path.stat().st_size and path.name != "LOG"
    ]
    for _ in range(20 * _SAMPLE if _many() else _SAMPLE // 2):
        damaged = rng.choice(files)
        at = rng.randrange(8 * damaged.stat().st_size)
        shutil.copytree(whole, tmp_path / "copy")
        (tmp_path / "copy" / "rows" / damaged.name).write_bytes(_flipped(damaged.read_bytes(), at))
        _require_sound(tmp_path / "copy", f"seed {_SEED}: bit {at} of {damaged.name}")
        shutil.rmtree(tmp_path / "copy")


def test_any_file_that_is_gone_is_never_misread(whole: Path, tmp_path: Path) -> None:
    db = Rdict(str(whole / "rows"), OPTIONS.build())
    db.flush()
    db.close()
    for file in sorted((whole / "rows").iterdir()):
        shutil.copytree(whole, tmp_path / "copy")
        (tmp_path / "copy" / "rows" / file.name).unlink()
        _require_sound(tmp_path / "copy", f"without {file.name}")
        shutil.rmtree(tmp_path / "copy")
