"""A table of rows by key on disk, exact as of its frontier after any crash.

The steps say what becomes durable. ``F`` is the frontier before an opening of the gate, ``G`` the one after
it.

1. ``replace_all`` reads the rows before, and keeps the new ones in memory. Later reads see them.
2. ``close_at(G)`` writes one batch: the changed rows, ``G`` with the sums over all rows, and an *undo record*
   that has what the changed rows were at ``F``.
3. The consumer applies the subscription's batch and stores its token, which says ``G``.
4. ``settle(G)`` says that this token is stored. The next batch deletes the undo records up to ``G``.

| crash between | the table is as of | the token says | and then |
|---|---|---|---|
| 1 and 2 | F | F | they agree: changes are read again from the topics |
| 2 and 3 | G | F | ``go_back_to(F)`` undoes the opening, in one batch |
| 3 and 4 | G | G | they agree; the undo record is deleted later |
| in the middle of 2 | F | F | RocksDB writes a batch whole or not at all |
| in the middle of ``go_back_to(F)`` | G | F | the same; ``go_back_to(F)`` is called again |

While the first snapshot fills the table, the table's frontier is zero. In this time its rows may be written
in several pieces: a table at zero counts as empty, and rows that a crash leaves in it are deleted when it is
opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rocksdict import DbClosedError, Rdict, WriteBatch, WriteOptions

from tidegate.client.subscribe.state.key_table_options import KeyTableOptions
from tidegate.client.subscribe.state.key_table_snapshot import KeyTableSnapshot
from tidegate.client.subscribe.state.opening_changes import OpeningChanges
from tidegate.client.subscribe.state.rocks_files import open_database, read_span, reading, writing
from tidegate.client.subscribe.state.table_directory import (
    TableDirectory,
    TableIdentity,
    require_same_table,
)
from tidegate.client.subscribe.state.table_records import (
    ABOUT_KEY,
    ROW,
    ROWS_END,
    STATE_KEY,
    TABLE_FORMAT,
    KeyTableState,
    Stored,
    about_bytes,
    read_about,
    read_state,
    sealed,
    unsealed,
)
from tidegate.client.subscribe.state.undo_log import UndoLog
from tidegate.client.subscribe.state.value_codec import decode_row, encode_row
from tidegate.errors import StateError
from tidegate.subscribe.changes.key_rows import KeyChange
from tidegate.subscribe.updates.first_error import FirstError
from tidegate.subscribe.updates.frontier import ZERO_FRONTIER, Frontier
from tidegate.subscribe.updates.update import RowValues

#: The number of keys that are read by one call.
_KEYS_AT_ONCE: Final = 1_000


class KeyTable:
    """Rows by key in RocksDB (`tidegate.subscribe.changes.key_rows.KeyRows`).

    One thread at a time may use it, and one process. After an error each call raises the same error, until
    it is opened again.

    Example::

        with KeyTable(path, TableIdentity("feed", "movr.public.rides", ("id", "city"))) as table:
            table.go_back_to(token.frontier)  # with a stored token, else table.start_over()
            source = SubscriptionSource("feed", key_rows=table)
    """

    #: Made by ``_open``.
    _db: Rdict
    _state: KeyTableState
    _undo: UndoLog
    _changes: OpeningChanges

    def __init__(self, path: Path, identity: TableIdentity, options: KeyTableOptions | None = None) -> None:
        """Open the table in the directory ``path``, or create it, empty and at the frontier zero.

        Raises ``HistoryLost`` where its rows are damaged or of other columns: call `discard_key_table`, then
        take a new snapshot. Raises ``StateError`` where it is of another table or a newer version, in use, or
        cannot be read or written.
        """
        self._path = path
        self._identity = identity
        self._options = options or KeyTableOptions()
        self._synced = WriteOptions()
        self._synced.sync = self._options.sync
        self._first_error = FirstError()
        self._snapshots: list[KeyTableSnapshot] = []
        self._directory = TableDirectory(path)
        try:
            self._open()
        except BaseException:
            self._directory.close()
            raise

    @property
    def frontier(self) -> Frontier:
        """The frontier of the table: every change below it is in the table, none at or above it."""
        return self._state.frontier

    @property
    def row_count(self) -> int:
        """The number of keys that have a row at the frontier."""
        return self._state.rows

    def replace(self, key: bytes, row: RowValues | None) -> RowValues | None:
        """Set a key's row, or remove it for ``None``. Return the row that it had before."""
        return self.replace_all([(key, row)])[0]

    def replace_all(self, changes: Iterable[KeyChange]) -> list[RowValues | None]:
        """Set or remove the rows of many keys, in order; return the rows before (step 1).

        It reads many keys by one call of RocksDB, so it is faster than a call of ``replace`` for each.

        Raises ``HistoryLost`` where a row before is damaged, ``StateError`` for a value that has no stored
        form.
        """
        with self._first_error:
            before: list[RowValues | None] = []
            remaining = iter(changes)
            while some := list(islice(remaining, _KEYS_AT_ONCE)):
                before += self._replaced(some)
            return before

    def any_key(self) -> bytes | None:
        """Return one of the keys that have a row as of the frontier; ``None`` if none has.

        Raises ``HistoryLost`` where the first row is damaged.
        """
        with self._first_error, reading(self._path):
            found = read_span(self._db, ROW, ROWS_END, 1)
        return found[0][0].removeprefix(ROW) if found and self.frontier != ZERO_FRONTIER else None

    def close_at(self, frontier: Frontier) -> None:
        """Write the changes since the last call together with ``frontier``: all or nothing (step 2).

        Raises ``StateError`` if that fails: then the table is as of the frontier before. Raises it also if
        ``frontier`` is below the table's, or if there are changes and the frontier does not rise.
        """
        with self._first_error:
            if frontier > self.frontier:
                self._write(frontier)
            elif frontier < self.frontier or self._changes:
                raise StateError(
                    f"The key table in {self._path} is as of {self.frontier}, so an opening cannot end at "
                    f"{frontier}. Nothing was written. Call go_back_to to return to an earlier frontier"
                )

    def settle(self, frontier: Frontier) -> None:
        """Say that a token of ``frontier`` is stored: nobody has to go back to an earlier frontier (step 4).

        It only notes that. Undo records that are not needed any more are deleted with the next opening.
        """
        self._undo.settle(frontier)

    def go_back_to(self, frontier: Frontier) -> None:
        """Undo the openings after ``frontier``, which is the frontier of a stored token.

        Changes that ``close_at`` has not written are dropped. Raises ``HistoryLost`` if the undo records do
        not lead back to ``frontier``, or if the table's frontier is below it.
        """
        with self._first_error:
            self._changes = OpeningChanges(self._state)
            if frontier != self.frontier:
                batch = WriteBatch(raw_mode=True)
                with reading(self._path):
                    self._state = self._undo.put_way_back(batch, self.frontier, frontier)
                self._write_synced(batch)
                self._changes = OpeningChanges(self._state)

    def snapshot(self) -> KeyTableSnapshot:
        """Return all rows as of the frontier, to be read in chunks while the table goes on. Close it."""
        with self._first_error, reading(self._path):
            self._snapshots = [each for each in self._snapshots if each.is_open]
            self._snapshots.append(KeyTableSnapshot(self._db.iter(), self._path))
            return self._snapshots[-1]

    def start_over(self) -> None:
        """Delete all rows, also after an error: the table is empty and at zero, for a new snapshot."""
        self._first_error = FirstError()
        with self._first_error:
            self._close_database()
            self._directory.remove_rows()
            self._open()

    def close(self) -> None:
        """Close the files and unlock the directory. Changes that ``close_at`` has not written are gone."""
        try:
            self._close_database()
        finally:
            self._directory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> None:
        self._db = open_database(self._directory.rows, self._options)
        try:
            with reading(self._path):
                self._state = self._read_state()
                self._undo = UndoLog(self._db, self._path, self._options.undo_bytes)
                incomplete = self.frontier == ZERO_FRONTIER and read_span(self._db, ROW, ROWS_END, 1)
        except BaseException:
            self._db.close()
            raise
        self._changes = OpeningChanges(self._state)
        self._directory.close_files_to_others()
        if incomplete:  # rows of a first snapshot that did not come to its end
            self.start_over()

    def _close_database(self) -> None:
        for snapshot in self._snapshots:
            snapshot.close()
        with suppress(DbClosedError):  # a second time
            self._db.close()
        self._directory.close_files_to_others()

    def _read_state(self) -> KeyTableState:
        about: bytes | None = self._db.get(ABOUT_KEY)
        if about is None:
            return self._begin()
        form, found = read_about(about)
        if form > TABLE_FORMAT:
            raise StateError(
                f"The key table in {self._path} has format {form}, and this version of tidegate reads format "
                f"{TABLE_FORMAT}: a newer one wrote it. Upgrade, or name another directory"
            )
        require_same_table(self._path, found, self._identity)
        state: bytes = self._db[STATE_KEY]  # type: ignore[assignment]  # KeyError where there is none
        return read_state(state)

    def _begin(self) -> KeyTableState:
        if read_span(self._db, b"", b"\xff", 1):
            raise ValueError("rows, and no record that says which feed and table they belong to")
        batch, state = WriteBatch(raw_mode=True), KeyTableState()
        batch.put(ABOUT_KEY, about_bytes(self._identity))
        batch.put(STATE_KEY, state.to_bytes())
        self._write_synced(batch)
        return state

    def _replaced(self, changes: Sequence[KeyChange]) -> list[RowValues | None]:
        unknown = self._changes.unknown(key for key, _ in changes)
        with reading(self._path):
            if unknown:
                self._changes.learn(unknown, self._db.get([ROW + key for key in unknown]) or ())
            replace, rows = self._changes.replace, list[RowValues | None]()
            for key, row in changes:
                before = replace(key, None if row is None else self._stored(key, row))
                rows.append(None if before is None else decode_row(unsealed(ROW + key, before)))
        if self.frontier == ZERO_FRONTIER and len(self._changes) >= self._options.fill_rows:
            self._write_piece()
        return rows

    def _stored(self, key: bytes, row: RowValues) -> Stored:
        try:
            return sealed(ROW + key, encode_row(row))
        except TypeError as error:
            raise StateError(
                f"The row with the key {key!r:.80} of {self._identity.table} cannot be kept: {error}. No "
                "setting helps: report it"
            ) from None

    def _write(self, frontier: Frontier) -> None:
        batch, after = WriteBatch(raw_mode=True), self._changes.state.copy()
        after.frontier = frontier
        self._changes.put_into(batch)
        batch.put(STATE_KEY, after.to_bytes())
        self._undo.add(batch, self._state, self._changes, frontier)
        self._write_synced(batch)
        self._state, self._changes = after, OpeningChanges(after)

    def _write_piece(self) -> None:
        """Write rows of the first snapshot before it is complete: at the frontier zero nobody reads them."""
        batch = WriteBatch(raw_mode=True)
        self._changes.put_into(batch)
        with writing(self._path):
            self._db.write(batch)
        self._changes.forget_rows()

    def _write_synced(self, batch: WriteBatch) -> None:
        with writing(self._path):
            self._db.write(batch, self._synced)
