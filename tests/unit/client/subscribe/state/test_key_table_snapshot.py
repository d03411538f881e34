"""A snapshot has the rows of one frontier, all of them, while the table goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.unit.client.subscribe.state.tables import contents, frontier, opened
from tidegate.client.subscribe.state.key_table_snapshot import Chunk
from tidegate.errors import HistoryLost, StateError


def test_a_snapshot_stays_as_of_its_frontier(tmp_path: Path) -> None:
    with opened(tmp_path / "t") as table:
        table.replace_all([(b"%03d" % n, (n,)) for n in range(100)])
        table.close_at(frontier(1))
        table.replace(b"000", ("not of the frontier",))
        with table.snapshot() as snapshot:
            table.replace_all([(b"%03d" % n, None if n % 2 else (-n,)) for n in range(100)])
            table.close_at(frontier(2))
            for _ in range(2):
                chunks = list(snapshot.chunks(30))
                assert [len(chunk) for chunk in chunks] == [30, 30, 30, 10]
                assert [row for chunk in chunks for row in chunk] == [(b"%03d" % n, (n,)) for n in range(100)]
            assert (snapshot.frontier, snapshot.row_count) == (frontier(1), 100)
        assert contents(table) == {b"%03d" % n: (-n,) for n in range(0, 100, 2)}


def test_an_empty_table_has_no_chunk(tmp_path: Path) -> None:
    with opened(tmp_path / "t") as table, table.snapshot() as snapshot:
        assert list(snapshot.chunks()) == []


def test_a_table_can_be_closed_with_a_snapshot_half_read(tmp_path: Path) -> None:
    table = opened(tmp_path / "t")
    table.replace_all([(b"%d" % n, (n,)) for n in range(9)])
    table.close_at(frontier(1))
    chunks = table.snapshot().chunks(2)
    next(chunks)
    table.close()
    with pytest.raises(StateError, match="is closed, or its table is"):
        list(chunks)
    opened(tmp_path / "t").close()


def test_another_thread_may_read_it(tmp_path: Path) -> None:
    found: list[Chunk] = []
    with opened(tmp_path / "t") as table:
        table.replace(b"a", (1,))
        table.close_at(frontier(1))
        with table.snapshot() as snapshot:
            reader = threading.Thread(target=lambda: found.extend(snapshot.chunks()))
            reader.start()
            reader.join()
    assert found == [[(b"a", (1,))]]


@pytest.mark.parametrize("what", ["gone", "old"])
def test_rows_that_are_gone_or_old_are_noticed_before_the_last_chunk(tmp_path: Path, what: str) -> None:
    with opened(tmp_path / "t") as table:
        table.replace_all([(b"%d" % n, (n,)) for n in range(6)])
        table.close_at(frontier(1))
        old = table._db.get(b"r3")
        table.replace(b"3", ("new",))
        table.close_at(frontier(2))
        if what == "gone":
            table._db.delete(b"r3")
        else:
            table._db.put(b"r3", old)
        with table.snapshot() as snapshot:
            chunks = snapshot.chunks(2)
            assert [len(next(chunks)), len(next(chunks))] == [2, 2]
            with pytest.raises(HistoryLost, match=r"damaged .*Discard them, and begin again"):
                next(chunks)
