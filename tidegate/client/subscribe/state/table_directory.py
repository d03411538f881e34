"""The directory of a key table: private, for one process at a time, and of one table.

    <path>/lock       held while the table is open; the kernel frees it when the process ends
    <path>/rows/      RocksDB's files
    <path>/removed/   RocksDB's files that are being deleted; never opened again

Nothing else in ``path`` is ever touched.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate.access.directory_lock import DirectoryInUse, DirectoryLock
from tidegate.access.private_files import make_private
from tidegate.errors import HistoryLost, StateError

_ROWS: Final = "rows"
_REMOVED: Final = "removed"


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """The feed, table and columns that a key table belongs to. Rows of another feed, table or columns are not
    read as rows of this table.

    Attributes:
        feed: the feed that is read, as in the fingerprint of tokens.
        table: the table's full name.
        columns: its columns, in the order of the rows' values.
        reduced_keys: whether keys are reduced before rows are put under them.
    """

    feed: str
    table: str
    columns: tuple[str, ...]
    reduced_keys: bool = False


class TableDirectory:
    """A locked directory of a key table."""

    __slots__ = ("_lock", "path")

    def __init__(self, path: Path) -> None:
        """Create ``path`` if it is missing, close it to other users and lock it.

        Raises ``StateError`` where it cannot be written, or another process has it open.
        """
        self.path = path
        with self._writing():
            make_private(path)
            self._lock = self._locked()
        try:
            self._finish_removal()
        except BaseException:
            self._lock.close()
            raise

    @property
    def rows(self) -> Path:
        """The directory in which RocksDB keeps its files."""
        return self.path / _ROWS

    def remove_rows(self) -> None:
        """Delete the rows, whatever their state. Raises ``StateError`` where that fails.

        They are renamed first. A process that ends meanwhile leaves either all of the rows or none, never a
        part of RocksDB's files, which it could not open.
        """
        self._finish_removal()
        with self._writing():
            if self.rows.exists():
                self.rows.rename(self._removed)
        self._finish_removal()

    def close_files_to_others(self) -> None:
        """Give each file of the rows the mode 0600.

        RocksDB makes its files with the umask of the process, also while the table is open. Before this call
        only the mode of the directory keeps other users from new files.
        """
        with suppress(FileNotFoundError):
            for file in self.rows.iterdir():
                with suppress(FileNotFoundError):  # RocksDB has deleted it since
                    file.chmod(0o600)

    def close(self) -> None:
        """Unlock the directory."""
        self._lock.close()

    @property
    def _removed(self) -> Path:
        return self.path / _REMOVED

    def _finish_removal(self) -> None:
        with self._writing():
            if self._removed.exists():
                shutil.rmtree(self._removed)

    def _locked(self) -> DirectoryLock:
        try:
            return DirectoryLock(self.path)
        except DirectoryInUse as error:
            raise StateError(
                f"The key table in {self.path} is in use by the process {error.holder}: two would write over "
                "each other's rows. End that one, or give this subscription a directory of its own"
            ) from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StateError(
                f"The directory {self.path} of a key table cannot be written ({error.strerror}). Make it "
                "writable for this user, with room on its disk, or name another one"
            ) from None


def discard_key_table(path: Path) -> None:
    """Delete the rows of the key table in ``path``, also damaged ones: a new snapshot fills it again.

    Raises ``StateError`` where another process has it open.
    """
    directory = TableDirectory(path)
    try:
        directory.remove_rows()
    finally:
        directory.close()


def require_same_table(path: Path, found: TableIdentity, wanted: TableIdentity) -> None:
    """Raise ``StateError`` where the rows in ``path`` are of another table, ``HistoryLost`` where its columns
    have changed, or rows are told apart by other keys."""
    if (found.feed, found.table) != (wanted.feed, wanted.table):
        raise StateError(
            f"The key table in {path} is of the table {found.table} of the feed {found.feed!r}, not of "
            f"{wanted.table} of {wanted.feed!r}. Give each subscription a directory of its own"
        )
    if found.columns != wanted.columns:
        raise HistoryLost(
            f"The rows by key in {path} have the columns {', '.join(found.columns)}, and {wanted.table} has "
            f"{', '.join(wanted.columns)}: what later changes retract is not known in these. Discard the "
            "rows, and begin again with a snapshot"
        )
    if found.reduced_keys != wanted.reduced_keys:
        fault = "by the text of their DECIMAL and FLOAT keys: rows that were deleted may be among them"
        if found.reduced_keys:
            fault = "by the values of DECIMAL and FLOAT keys, and now they are by all bytes of their keys"
        raise HistoryLost(
            f"The rows by key in {path}, of {wanted.table}, were told apart {fault}. Discard the rows, and "
            "begin again with a snapshot"
        )
