"""Checkpoints in files: whole, private, and of one process at a time."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.places import CHECKOUT
from tests.examples import examples
from tests.unit.client.subscribe.state.checkpoint_cases import AT_ONCE, CASES, named, token_at
from tidegate.client.subscribe.state import file_checkpoints
from tidegate.client.subscribe.state.file_checkpoints import FileCheckpoints, HeldFile, _digest
from tidegate.errors import Fenced, HistoryLost, SettingsError, StateError


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_store_of_files(tmp_path: Path, case: Any) -> None:
    case(lambda: FileCheckpoints(tmp_path), AT_ONCE, token_at)


@examples(15)
@given(data=st.data())
def test_whatever_processes_do_only_the_last_holder_stores(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Some processes acquire and commit in any order, with clocks that go as they like."""
    directory = tmp_path_factory.mktemp("checkpoints")
    held: list[HeldFile] = []
    stored: str | None = None
    for number in range(data.draw(st.integers(1, 20))):
        if not held or data.draw(st.booleans()):
            taken = FileCheckpoints(directory, lambda: data.draw(st.integers(0, 10))).acquire("n")
            assert taken.token == stored
            assert all(taken.epoch > each.epoch for each in held)
            held.append(taken)
            continue
        who = data.draw(st.sampled_from(held))
        if who is held[-1]:
            who.require_held()
            who.commit(str(number))
            stored = str(number)
        else:
            with pytest.raises(Fenced):
                who.commit("not stored")
            with pytest.raises(Fenced):
                who.require_held()


def test_files_are_private_and_nothing_else_is_left(tmp_path: Path) -> None:
    FileCheckpoints(tmp_path / "c").acquire("../n").commit("token")
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "c").iterdir()}
    assert modes == {"..%2Fn.checkpoint": 0o600, "..%2Fn.lock": 0o600}


def test_stored_checkpoints_keep_their_bytes(tmp_path: Path) -> None:
    FileCheckpoints(tmp_path, lambda: 7).acquire("n").commit("token")
    assert (tmp_path / "n.checkpoint").read_bytes() == (
        b'{"epoch":7,"format":1,"name":"n","token":"token","updated_ms":7}\n'
        b"6838f69851c09c472f6e55cd9917c6c5\n"
    )


def test_any_flipped_bit_or_cut_is_history_lost(tmp_path: Path) -> None:
    held = FileCheckpoints(tmp_path).acquire("n")
    file = tmp_path / "n.checkpoint"
    whole = file.read_bytes()
    for at in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[at // 8] ^= 1 << at % 8
        file.write_bytes(damaged)
        for call in (held.require_held, lambda: held.commit("token")):
            with pytest.raises(HistoryLost, match=r"n.checkpoint is damaged .* Remove the file"):
                call()
    for at in range(len(whole)):
        file.write_bytes(whole[:at])
        with pytest.raises(HistoryLost):
            FileCheckpoints(tmp_path).acquire("n")


def test_a_file_that_was_removed_does_not_let_its_holder_go_on(tmp_path: Path) -> None:
    held = FileCheckpoints(tmp_path).acquire("n")
    (tmp_path / "n.checkpoint").unlink()
    for call in (held.require_held, lambda: held.commit("token")):
        with pytest.raises(Fenced, match="the epoch of nobody"):
            call()
    FileCheckpoints(tmp_path).acquire("n")
    with pytest.raises(Fenced):
        held.commit("token")


@pytest.mark.parametrize("members", [{"format": 2, "name": "n"}, {"format": 1, "name": "m"}])
def test_a_newer_format_and_another_name_are_refused(tmp_path: Path, members: dict[str, Any]) -> None:
    line = json.dumps(members).encode()
    (tmp_path / "n.checkpoint").write_bytes(line + b"\n" + _digest(line) + b"\n")
    with pytest.raises(StateError, match="Upgrade, or name another directory"):
        FileCheckpoints(tmp_path).acquire("n")


def test_names_that_are_no_file_names_are_refused(tmp_path: Path) -> None:
    for name in ("", "é" * 100):
        with pytest.raises(SettingsError):
            FileCheckpoints(tmp_path).acquire(name)


def test_a_process_that_stands_still_in_a_commit_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_checkpoints, "_LOCK_S", 0.05)
    store = FileCheckpoints(tmp_path)
    held = store.acquire("n")
    with store._locked("n"), pytest.raises(StateError, match=r"has held .*n.lock for 0.05 s"):
        held.commit("token")


def test_a_directory_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot be written"):
        FileCheckpoints(tmp_path / "file").acquire("n")


#: Acquires the name, tells its epoch, and commits numbers until it is fenced; each is told when it is stored.
_HOLDER: Final = """
import itertools, sys
from pathlib import Path
from tidegate.client.subscribe.state.file_checkpoints import FileCheckpoints
from tidegate.errors import Fenced
held = FileCheckpoints(Path(sys.argv[1])).acquire("n")
print(held.epoch, held.token or 0, flush=True)
try:
    for number in itertools.count(int(held.token or 0) + 1):
        held.commit(str(number))
        print(number, flush=True)
except Fenced as error:
    print("fenced", error, flush=True)
"""


def holder(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(directory)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.long
def test_a_second_process_fences_the_first_and_goes_on_where_it_was(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        assert first.stdout is not None
        epoch, token = map(int, first.stdout.readline().split())
        assert token == 0
        assert [first.stdout.readline() for _ in range(3)] == ["1\n", "2\n", "3\n"]
        second = FileCheckpoints(tmp_path).acquire("n")
        told = first.stdout.read().splitlines()  # until it ends
    assert second.epoch > epoch
    assert "fenced The checkpoint n is not held any more" in told[-1]
    assert second.token == (told[-2] if len(told) > 1 else "3")
    second.commit("4711")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_process_leaves_the_token_before_or_the_new_one(tmp_path: Path, seed: int) -> None:
    with holder(tmp_path) as process:
        assert process.stdout is not None
        for _ in range(random.Random(seed).randrange(2, 60)):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split("\n")[:-1]
    found = int(FileCheckpoints(tmp_path).acquire("n").token or 0)
    last = int(rest[-1]) if rest else found
    assert found in (last, last + 1)
