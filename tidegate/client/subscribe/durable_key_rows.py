"""The store of the rows by key that a subscription needs: in memory, or in a directory."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from tidegate.errors import HistoryLost, SettingsError
from tidegate.subscribe.changes.key_rows import KeyRows
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.update import RowValues


class KeyRowsSnapshot(Protocol):
    """All rows as of one frontier. Later changes of the table do not change them. Close it."""

    @property
    def row_count(self) -> int:
        """The number of rows."""

    def chunks(self) -> Iterator[Sequence[tuple[bytes, RowValues]]]:
        """Yield the rows in the order of their keys, some at a time. Raises ``HistoryLost`` for damage."""

    def __enter__(self) -> Self:
        """Return the snapshot itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the snapshot: its rows need not be kept any more."""


_LOGGER: Final = logging.getLogger("tidegate.subscribe")


class DurableKeyRows(KeyRows, Protocol):
    """Rows by key that outlive the process, with a way back to the frontier of a stored token."""

    def go_back_to(self, frontier: Frontier) -> None:
        """Undo the changes at or above a token's frontier. Raises ``HistoryLost`` if they are not known any
        more."""

    def start_over(self) -> None:
        """Delete all rows, for a new snapshot."""

    def settle(self, frontier: Frontier) -> None:
        """Take note that a token of ``frontier`` is stored: nobody goes back to an earlier frontier."""

    def snapshot(self) -> KeyRowsSnapshot:
        """Return all rows as of the frontier, to be read while the table goes on."""

    def close(self) -> None:
        """Close the files."""


def open_key_rows(
    directory: Path, feed: str, relation: Relation, *, discard_lost: bool = False
) -> DurableKeyRows:
    """Open the rows by key of a table in a directory, or create it.

    ``feed`` is the feed and its topic, as in the fingerprint of tokens. With ``discard_lost`` damaged rows
    are deleted, and the table begins empty. Raises ``SettingsError`` without the extra, ``HistoryLost`` for
    damaged rows, ``StateError`` for a directory of another table or in use.
    """
    _require_rocksdb()
    try:
        return _opened(directory, feed, relation, durable=True)
    except HistoryLost as lost:
        if not discard_lost:
            raise
        _LOGGER.warning("rows by key are read again: %s", lost)
    return open_empty_key_rows(directory, feed, relation, durable=True)


def open_empty_key_rows(directory: Path, feed: str, relation: Relation, *, durable: bool) -> DurableKeyRows:
    """Delete the rows by key in a directory, whatever their state, and open the directory empty.

    ``durable`` says whether each opening is on the disk before its batch is given out. Raises as
    `open_key_rows` does, except for damaged rows.
    """
    _require_rocksdb()
    from tidegate.client.subscribe.state.table_directory import discard_key_table

    discard_key_table(directory)
    return _opened(directory, feed, relation, durable=durable)


def _require_rocksdb() -> None:
    try:
        # Imported here: RocksDB is in an extra, which most subscriptions do not need.
        import rocksdict  # noqa: F401
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"A key table needs {error.name}, which is not installed: pip install 'tidegate[subscribe]'"
        ) from None


def _opened(directory: Path, feed: str, relation: Relation, *, durable: bool) -> DurableKeyRows:
    from tidegate.client.subscribe.state.key_table import KeyTable
    from tidegate.client.subscribe.state.key_table_options import KeyTableOptions
    from tidegate.client.subscribe.state.table_directory import TableIdentity

    identity = TableIdentity(feed, str(relation.name), relation.columns, bool(relation.composite))
    return KeyTable(directory, identity, KeyTableOptions(sync=durable))
