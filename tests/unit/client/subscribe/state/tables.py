"""Key tables of tests, and what has to be in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.unit.client.subscribe.state.stored_values import form_of
from tidegate.client.subscribe.state.key_table import KeyTable
from tidegate.client.subscribe.state.key_table_options import KeyTableOptions
from tidegate.client.subscribe.state.table_directory import TableIdentity
from tidegate.hlc import Timestamp
from tidegate.subscribe.updates.frontier import Frontier

IDENTITY: Final = TableIdentity("feed", "movr.public.rides", ("id", "city"))
#: Small, so that tests meet full buffers; not synced: a killed process loses nothing that was written.
OPTIONS: Final = KeyTableOptions(block_cache_bytes=1 << 20, write_buffer_bytes=64 << 10, sync=False)

Rows: TypeAlias = dict[bytes, tuple[Any, ...]]


def frontier(wall: int) -> Frontier:
    """A frontier with this wall time."""
    return Frontier(Timestamp(wall))


def opened(path: Path, options: KeyTableOptions = OPTIONS) -> KeyTable:
    """The table of these tests in ``path``."""
    return KeyTable(path, IDENTITY, options)


def contents(table: KeyTable, at_once: int = 3) -> Rows:
    """All rows as of the frontier."""
    with table.snapshot() as snapshot:
        assert snapshot.frontier == table.frontier
        chunks = list(snapshot.chunks(at_once))
    rows = [row for chunk in chunks for row in chunk]
    assert all(0 < len(chunk) <= at_once for chunk in chunks)
    assert [key for key, _ in rows] == sorted(key for key, _ in rows)
    assert len(rows) == table.row_count
    return dict(rows)


def same(one: Rows, other: Rows) -> bool:
    """Whether rows are the same, also in what equality passes over."""
    rows_of_one, rows_of_other = (sorted(rows.items(), key=lambda item: item[0]) for rows in (one, other))
    return bool(form_of(rows_of_one) == form_of(rows_of_other))
