"""A key table is exactly as of its frontier: whatever it holds, and wherever a process ends."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Rdict

from stack.places import CHECKOUT
from tests.examples import examples
from tests.unit.client.subscribe.state.stored_values import ROWS, form_of
from tests.unit.client.subscribe.state.tables import (
    IDENTITY,
    OPTIONS,
    Rows,
    contents,
    frontier,
    opened,
    same,
)
from tidegate.changefeed.definition.feed import TableName
from tidegate.client.subscribe.durable_key_rows import open_key_rows
from tidegate.client.subscribe.state.key_table import KeyTable
from tidegate.client.subscribe.state.rocks_files import read_span
from tidegate.client.subscribe.state.table_directory import TableDirectory, discard_key_table
from tidegate.client.subscribe.state.table_records import ABOUT_KEY, UNDO, UNDO_END, sealed, undo_key
from tidegate.errors import HistoryLost, StateError
from tidegate.subscribe.changes.key_rows import KeyChange, MemoryKeyRows
from tidegate.subscribe.updates.frontier import ZERO_FRONTIER
from tidegate.subscribe.updates.relation import Relation

KEYS: Final = st.sampled_from([b"", b"[1]", b"[2]", b"\x00state", b"\xff\xff", b"r", b"[1]\x00"])
OPENINGS: Final = st.lists(st.lists(st.tuples(KEYS, st.none() | ROWS), max_size=8), min_size=1, max_size=6)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[KeyTable]:
    with opened(tmp_path / "t") as made:
        yield made


def changed(rows: Rows, changes: list[KeyChange]) -> Rows:
    """The rows after some changes."""
    after = dict(rows)
    for key, row in changes:
        after.pop(key, None)
        if row is not None:
            after[key] = row
    return after


def test_a_new_table_is_empty_and_at_zero(table: KeyTable) -> None:
    assert (table.frontier, table.row_count, contents(table)) == (ZERO_FRONTIER, 0, {})
    assert table.replace(b"k", None) is None


def test_a_batch_sees_its_own_changes_and_what_was_before(table: KeyTable) -> None:
    table.replace(b"a", (1,))
    table.close_at(frontier(1))
    changes = [(b"a", (2,)), (b"b", (True,)), (b"a", None), (b"b", (1,)), (b"a", (3,))]
    assert form_of(table.replace_all(changes)) == form_of([(1,), None, (2,), (True,), None])
    assert contents(table) == {b"a": (1,)}  # as of the frontier
    table.close_at(frontier(2))
    assert contents(table) == {b"a": (3,), b"b": (1,)}


def test_a_key_is_one_that_has_a_row_at_the_frontier(table: KeyTable) -> None:
    table.replace(b"b", (1,))
    assert table.any_key() is None
    table.close_at(frontier(1))
    table.replace(b"a", (1,))
    assert table.any_key() == b"b"
    table.close_at(frontier(2))
    assert table.any_key() == b"a"


@pytest.mark.long
@examples(15)
@given(openings=OPENINGS, data=st.data())
def test_it_is_a_table_in_memory_that_survives(
    tmp_path_factory: pytest.TempPathFactory, openings: list[list[KeyChange]], data: st.DataObject
) -> None:
    """After each step a copy of the directory, as a crash would leave it, is as of its frontier."""
    path = tmp_path_factory.mktemp("t") / "t"
    memory, rows = MemoryKeyRows(), Rows()
    options = replace(OPTIONS, fill_rows=data.draw(st.sampled_from([1, 3, 10_000])))
    with opened(path, options) as table:
        for number, changes in enumerate(openings, 1):
            assert form_of(table.replace_all(changes)) == form_of(memory.replace_all(changes))
            crashed(path, number - 1, rows)
            table.close_at(frontier(number))
            rows = changed(rows, changes)
            crashed(path, number, rows)
        assert same(contents(table), rows)
    with opened(path) as again:
        assert again.frontier == frontier(len(openings))
        assert same(contents(again), rows)


def crashed(path: Path, wall: int, rows: Rows) -> None:
    """Check what another process finds if this one ends now."""
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    with opened(copy) as table:
        assert table.frontier == frontier(wall)
        assert same(contents(table), rows)
    shutil.rmtree(copy)


@examples(10)
@given(openings=st.integers(1, 20), kept=st.floats(0.0, 1.0))
def test_a_torn_write_leaves_an_earlier_frontier_with_its_rows(
    tmp_path_factory: pytest.TempPathFactory, openings: int, kept: float
) -> None:
    """A machine that fails leaves the beginning of the write-ahead log."""
    path = tmp_path_factory.mktemp("torn") / "t"
    with opened(path) as table:
        for number in range(1, openings + 1):
            table.replace_all([(b"%d" % (number % 3), (number, "x" * 50)), (b"n", (number,))])
            table.close_at(frontier(number))
        log = max((path / "rows").glob("*.log"), key=lambda file: file.stat().st_size)
        torn = log.read_bytes()[: int(log.stat().st_size * kept)]
    for file in (path / "rows").glob("*.log"):
        file.unlink()
    log.write_bytes(torn)
    with opened(path) as again:
        wall = again.frontier.wall
        assert wall <= openings
        last = {b"%d" % (number % 3): (number, "x" * 50) for number in range(1, wall + 1)}
        assert contents(again) == (last | {b"n": (wall,)} if wall else {})


#: Writes openings without end, and tells the wall time of each one that was written.
_WRITER: Final = """
import sys
from pathlib import Path
from tests.unit.client.subscribe.state.tables import frontier, opened
table = opened(Path(sys.argv[1]))
number = table.frontier.wall
while True:
    number += 1
    table.replace_all([(b"%d" % (number * at % 101), (number, "x" * at)) for at in range(1, 40)])
    table.close_at(frontier(number))
    print(number, flush=True)
"""


def written_by(numbers: int) -> Rows:
    """Return what that process has written after so many openings."""
    return {
        b"%d" % (number * at % 101): (number, "x" * at)
        for number in range(1, numbers + 1)
        for at in range(1, 40)
    }


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_killed_process_leaves_the_opening_before_or_behind_its_write(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path / "t")], cwd=CHECKOUT, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            told = [int(process.stdout.readline()) for _ in range(rng.randrange(1, 30))][-1]
            process.send_signal(signal.SIGKILL)
            told = ([told] + [int(line) for line in process.stdout.read().split(b"\n")[:-1]])[-1]
        with opened(tmp_path / "t") as table:
            wall = table.frontier.wall
            assert wall in (told, told + 1)
            assert contents(table, 1_000) == written_by(wall)
            back = rng.randrange(max(1, wall - 5), wall + 1)
            table.go_back_to(frontier(back))
            assert contents(table, 1_000) == written_by(back)


@examples(20)
@given(openings=OPENINGS, data=st.data())
def test_it_goes_back_to_each_frontier_that_a_token_may_have(
    tmp_path_factory: pytest.TempPathFactory, openings: list[list[KeyChange]], data: st.DataObject
) -> None:
    path, states = tmp_path_factory.mktemp("t") / "t", [Rows()]
    settled = data.draw(st.integers(0, len(openings)))
    with opened(path) as table:
        for number, changes in enumerate(openings, 1):
            table.replace_all(changes)
            table.close_at(frontier(number))
            if number == settled:
                table.settle(frontier(number))
            states.append(changed(states[-1], changes))
    target = data.draw(st.integers(max(1, settled), len(openings)))
    with opened(path) as table:
        table.replace_all([(b"lost", (1,))])
        table.go_back_to(frontier(target))
        crashed(path, target, states[target])
        assert table.replace(b"lost", None) is None
        # what follows is as if the later openings had never been
        table.replace_all(openings[-1])
        table.close_at(frontier(100))
        assert same(contents(table), changed(states[target], openings[-1]))
        table.go_back_to(frontier(target))
        assert same(contents(table), states[target])


def test_the_way_back_over_several_openings_ends_at_the_oldest_and_leaves_no_record(tmp_path: Path) -> None:
    with opened(tmp_path / "t") as table:
        for number in (1, 2, 3, 4):
            table.replace_all([(b"a", (number,)), (b"%d" % number, (number,))])
            table.close_at(frontier(number))
        table.go_back_to(frontier(2))
        assert contents(table) == {b"a": (2,), b"1": (1,), b"2": (2,)}
    with opened(tmp_path / "t") as table:
        assert contents(table) == {b"a": (2,), b"1": (1,), b"2": (2,)}
        assert read_span(table._db, UNDO, UNDO_END, 10)[-1][0] == undo_key(frontier(2))


def test_a_way_back_that_was_settled_or_never_was_is_history_lost(tmp_path: Path) -> None:
    with opened(tmp_path / "t") as table:
        for number in (1, 2, 4, 5):
            table.settle(frontier(number - 2)) if number > 2 else None
            table.replace(b"a", (number,))
            table.close_at(frontier(number))
    for wall, how in ((1, "cannot be brought back"), (3, "cannot be brought back"), (6, "cannot be brought")):
        with opened(tmp_path / "t") as table:
            with pytest.raises(HistoryLost, match=how):
                table.go_back_to(frontier(wall))
            with pytest.raises(HistoryLost, match=how):  # and nothing follows an error
                table.replace(b"a", None)
    with opened(tmp_path / "t") as table:
        assert table.frontier == frontier(5)
        table.go_back_to(frontier(4))
        assert contents(table) == {b"a": (4,)}


def test_undo_records_are_bounded_and_lose_their_oldest_first(tmp_path: Path) -> None:
    with opened(tmp_path / "t", replace(OPTIONS, undo_bytes=2_500)) as table:
        for number in range(1, 10):
            table.replace(b"a", (number, "x" * 1_000))
            table.close_at(frontier(number))
        table.go_back_to(frontier(8))
        table.go_back_to(frontier(7))
        with pytest.raises(HistoryLost):
            table.go_back_to(frontier(6))


def test_the_last_opening_can_be_undone_however_large_it_is(tmp_path: Path) -> None:
    with opened(tmp_path / "t", replace(OPTIONS, undo_bytes=1)) as table:
        for number in (1, 2, 3):
            table.replace_all([(b"%d" % key, (number, "x" * 1_000)) for key in range(100)])
            table.close_at(frontier(number))
        table.go_back_to(frontier(2))
        assert contents(table, 1_000) == {b"%d" % key: (2, "x" * 1_000) for key in range(100)}
        with pytest.raises(HistoryLost):
            table.go_back_to(frontier(1))


def test_a_frontier_does_not_fall_by_an_opening(table: KeyTable) -> None:
    table.close_at(frontier(5))
    table.close_at(frontier(5))
    with pytest.raises(StateError, match="go_back_to"):
        table.close_at(frontier(4))


def test_a_snapshot_that_was_not_complete_leaves_no_rows(tmp_path: Path) -> None:
    options = replace(OPTIONS, fill_rows=2)
    with opened(tmp_path / "t", options) as table:
        assert table.replace_all([(b"%d" % (n % 7), (n,)) for n in range(20)])[-1] == (12,)
    with opened(tmp_path / "t", options) as table:
        assert (table.frontier, contents(table)) == (ZERO_FRONTIER, {})
        table.replace_all([(b"%d" % n, (n,)) for n in range(5)])
        table.close_at(frontier(1))
    with opened(tmp_path / "t") as table:
        assert contents(table) == {b"%d" % n: (n,) for n in range(5)}


def test_a_table_that_starts_over_is_empty_also_after_an_error(table: KeyTable) -> None:
    table.replace(b"a", (1,))
    table.close_at(frontier(1))
    with pytest.raises(HistoryLost):
        table.go_back_to(frontier(7))
    table.start_over()
    assert (table.frontier, contents(table)) == (ZERO_FRONTIER, {})
    table.replace(b"b", (2,))
    table.close_at(frontier(1))
    assert contents(table) == {b"b": (2,)}


def test_a_value_that_cannot_be_stored_ends_the_table_before_anything_is_written(tmp_path: Path) -> None:
    with opened(tmp_path / "t") as table:
        with pytest.raises(StateError, match=r"key b'\[1\]' of movr.public.rides cannot be kept: .* object"):
            table.replace_all([(b"[0]", (0,)), (b"[1]", (object(),))])
        with pytest.raises(StateError):
            table.close_at(frontier(1))
    with opened(tmp_path / "t") as table:
        assert (table.frontier, contents(table)) == (ZERO_FRONTIER, {})


@pytest.mark.parametrize(
    ("other", "error", "sentence"),
    [
        (
            replace(IDENTITY, feed="other"),
            StateError,
            "of the feed 'feed', not of movr.public.rides of 'other'",
        ),
        (replace(IDENTITY, table="x"), StateError, "Give each subscription a directory of its own"),
        (
            replace(IDENTITY, columns=("city", "id")),
            HistoryLost,
            "have the columns id, city, and .* city, id",
        ),
        (
            replace(IDENTITY, reduced_keys=True),
            HistoryLost,
            "rows that were deleted may be among them.* begin again with a snapshot",
        ),
    ],
)
def test_rows_of_something_else_are_refused_and_kept(
    tmp_path: Path, other: Any, error: type[Exception], sentence: str
) -> None:
    with opened(tmp_path / "t") as table:
        table.replace(b"a", (1, "x"))
        table.close_at(frontier(1))
    with pytest.raises(error, match=sentence):
        KeyTable(tmp_path / "t", other, OPTIONS)
    with opened(tmp_path / "t") as table:
        assert contents(table) == {b"a": (1, "x")}


def test_rows_under_reduced_keys_are_those_of_such_a_table_alone(tmp_path: Path) -> None:
    reduced = replace(IDENTITY, reduced_keys=True)
    for wall in (1, 2):
        with KeyTable(tmp_path / "t", reduced, OPTIONS) as table:
            table.replace(b"[1.5]", (1, "x"))
            table.close_at(frontier(wall))
    with pytest.raises(HistoryLost, match=r"by the values of DECIMAL .* begin again with a snapshot"):
        opened(tmp_path / "t")


def test_rows_of_before_their_keys_were_reduced_are_given_up_for_a_new_snapshot_alone(tmp_path: Path) -> None:
    relation = Relation(TableName("rides"), ("id", "city"), ("id",))
    reduced = replace(relation, composite=frozenset({"id"}))
    rows = open_key_rows(tmp_path / "t", "feed", relation)
    rows.replace(b"[1.50]", (1, "x"))
    rows.close_at(frontier(1))
    rows.close()
    with pytest.raises(HistoryLost, match="rows that were deleted may be among them"):
        open_key_rows(tmp_path / "t", "feed", reduced)
    open_key_rows(tmp_path / "t", "feed", relation).close()
    for discard_lost in (True, False):
        anew = open_key_rows(tmp_path / "t", "feed", reduced, discard_lost=discard_lost)
        assert anew.frontier == ZERO_FRONTIER
        anew.close()


def test_a_newer_format_is_refused_and_kept(tmp_path: Path) -> None:
    with opened(tmp_path / "t") as table:
        table._db.put(ABOUT_KEY, sealed(ABOUT_KEY, b'{"format":3,"something":"else"}'))
    for _ in range(2):
        with pytest.raises(StateError, match=r"has format 3, and this version .* format 2: .* Upgrade"):
            opened(tmp_path / "t")


def _open_and_say(path: Path, pipe: Any) -> None:
    try:
        with opened(path):
            pipe.send("opened")
    except StateError as error:
        pipe.send(str(error))


@pytest.mark.long
def test_two_processes_do_not_have_one_table(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with opened(tmp_path / "t"):
        with pytest.raises(StateError, match=f"in use by the process {os.getpid()}: two would write over"):
            opened(tmp_path / "t")
        ours, theirs = context.Pipe()
        other = context.Process(target=_open_and_say, args=(tmp_path / "t", theirs))
        other.start()
        assert f"in use by the process {os.getpid()}" in ours.recv()
        other.join()
    opened(tmp_path / "t").close()


def test_rows_that_somebody_else_has_open_are_not_called_damaged(tmp_path: Path) -> None:
    opened(tmp_path / "t").close()
    held = Rdict(str(tmp_path / "t" / "rows"))
    try:
        with pytest.raises(
            StateError, match=r"Its rows are as they were\. .*end the process that has its files open"
        ):
            opened(tmp_path / "t")
    finally:
        held.close()


def test_others_cannot_read_it(tmp_path: Path) -> None:
    path = tmp_path / "above" / "t"
    with opened(path) as table:
        table.replace(b"a", (1,))
        table.close_at(frontier(1))
        assert path.stat().st_mode & 0o777 == 0o700
    files = [file for file in path.rglob("*") if file.is_file()]
    assert len(files) > 4
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_discarded_rows_are_gone_and_another_process_keeps_its_own(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("not ours")
    with opened(tmp_path) as table:
        table.replace(b"a", (1,))
        table.close_at(frontier(1))
        with pytest.raises(StateError, match="in use"):
            discard_key_table(tmp_path)
    discard_key_table(tmp_path)
    with opened(tmp_path) as table:
        assert contents(table) == {}
    assert (tmp_path / "note").read_text() == "not ours"


@pytest.mark.parametrize("files_deleted", [0, 1, 3, 100])
def test_a_process_that_is_killed_while_it_removes_rows_leaves_an_empty_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files_deleted: int
) -> None:
    class Killed(BaseException):
        pass

    def rmtree(path: Path) -> None:
        for file in sorted(path.iterdir())[:files_deleted]:
            file.unlink()
        raise Killed

    with opened(tmp_path) as table:
        table.replace(b"a", (1,))
        table.close_at(frontier(1))
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", rmtree)
            with pytest.raises(Killed):
                table.start_over()
    with opened(tmp_path) as table:
        assert (table.frontier, contents(table)) == (frontier(0), {})
    assert {file.name for file in tmp_path.iterdir()} == {"lock", "rows"}, "nothing takes room"


def test_a_directory_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"cannot be written .*name another one"):
        TableDirectory(tmp_path / "file" / "t")


def test_a_disk_that_takes_nothing_is_a_sentence_and_the_table_is_as_before(tmp_path: Path) -> None:
    with opened(tmp_path / "t") as table:
        table.replace(b"a", (1,))
        table.close_at(frontier(1))
        table.replace(b"a", (2,))
        table._db.close()
        with pytest.raises(StateError, match=r"cannot be written: .*start again from the stored token"):
            table.close_at(frontier(2))
        with pytest.raises(StateError, match="cannot be written"):
            table.replace(b"a", (2,))
    with opened(tmp_path / "t") as table:
        assert contents(table) == {b"a": (1,)}


#: Runs what needs no RocksDB where there is none.
_WITHOUT_ROCKSDICT: Final = """
import sys
sys.modules["rocksdict"] = None  # an import of it raises ImportError
import tidegate.client, tidegate.subscribe
import tidegate.client.subscribe.state.file_checkpoints
import tidegate.client.subscribe.state.group_checkpoints
import tidegate.client.subscribe.state.sql_checkpoints
from tidegate.cli.main import main
sys.argv = ["tidegate", "--help"]
main()
"""


@pytest.mark.long
def test_clients_and_commands_need_no_rocksdict() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_ROCKSDICT], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "feed" in done.stdout
