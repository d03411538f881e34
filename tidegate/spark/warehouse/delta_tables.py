"""Delta tables that follow the manifest: for each topic its changes, and its current rows.

    <root>/<topic>/changes    the data files that the manifest names, added as they are
    <root>/<topic>/current    the newest row of each key, merged in; deleted rows are gone

Every commit carries Delta's ``txn`` with the id of the load; its version is the bucket end up to which the
table is closed. From that bucket on a table is brought up to a head, whatever happened before: a commit that
is done is not done again, and a missing table is built from the manifest's first file on. So after any crash,
once ``follow`` has returned, the two tables of a topic agree, and the tables of all topics are closed at the
same bucket.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from tidegate.errors import InputError, RetryError, StateError
from tidegate.hlc import NANOS_PER_MS
from tidegate.spark.platform.file_systems import opened_by_arrow
from tidegate.spark.warehouse.buckets import BucketEnd
from tidegate.spark.warehouse.columns import DELETED, LOGICAL, META, OFFSET, PARTITION, WALL
from tidegate.spark.warehouse.data_files import changes_directory, changes_schema, current_directory
from tidegate.spark.warehouse.manifest import DataFile, LoadedTable, Manifest, ManifestHead

#: The name in a commit's metadata of the bucket end up to which the commit closes the table.
CLOSED: Final = "tidegate.closed"
_MERGED_ROWS: Final = 1_000_000
_NO_NAME: Final = frozenset(" ,;{}()\n\t=")
_ORDER: Final = ((WALL, "ascending"), (LOGICAL, "ascending"))
_META_OF_CURRENT: Final = tuple(field for field in META if field.name in (WALL, LOGICAL))


def current_schema(table: LoadedTable) -> pa.Schema:
    """Return the Arrow schema of a table of current rows: the time of each row's commit, then the row's
    columns.
    """
    return pa.schema([*_META_OF_CURRENT, *table.columns.schema(table.format)])


class DeltaFollowers:
    """The Delta tables below ``root``, a URI.

    ``merged_rows`` bounds the rows of one merge, which takes whole buckets, at least one. ``at_step`` is
    called before each change of a table.
    """

    def __init__(
        self,
        root: str,
        merged_rows: int = _MERGED_ROWS,
        at_step: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._root = root.rstrip("/")
        self._merged_rows = merged_rows
        self._at_step = at_step

    @cached_property
    def _manifest(self) -> Manifest:
        """The manifest, opened when it is first read: the file system may be away before."""
        return Manifest(*opened_by_arrow(self._root))

    def require(self, head: ManifestHead) -> None:
        """Raise if the tables cannot follow this head, which is not committed yet.

        Raises ``InputError`` for a column's name that they cannot have, and ``StateError`` for a table of
        another load in their place.
        """
        for table in head.tables:
            for directory, schema in _tables_of(table):
                _require_names(f"{self._root}/{directory}", schema)
                try:
                    _require_own(DeltaTable(f"{self._root}/{directory}"), head)
                except TableNotFoundError:
                    continue
                except DeltaError as error:
                    raise self._away(head, table, error) from None

    def follow(self, head: ManifestHead) -> None:
        """Bring every table up to the head.

        Raises ``RetryError`` for a table that cannot be read or written, ``StateError`` for a table of a
        later head, and ``InputError`` for a table that cannot be made.
        """
        for table in head.tables:
            try:
                self._follow(head, table)
            except DeltaError as error:
                raise self._away(head, table, error) from None

    def _away(self, head: ManifestHead, table: LoadedTable, error: DeltaError) -> RetryError:
        return RetryError(
            f"The Delta tables of {table.topic} in {self._root} are not brought up to {head.closed}"
            f" ({error}). The buckets are in the manifest. The next pass begins by adding them to the Delta"
            " tables."
        )

    def _follow(self, head: ManifestHead, table: LoadedTable) -> None:
        self._at_step("W7 changes")
        self._append(head, table)
        self._at_step("W7 current")
        self._merge(head, table)

    def _append(self, head: ManifestHead, table: LoadedTable) -> None:
        delta = self._opened(head, changes_directory(table.topic), changes_schema(table))
        closed = _closed(delta, head)
        if closed >= head.closed:
            return
        files = [file for file in self._manifest.files(head, closed) if file.topic == table.topic]
        _commit(delta, head, [_added(file) for file in files], head.closed)

    def _merge(self, head: ManifestHead, table: LoadedTable) -> None:
        delta = self._opened(head, current_directory(table.topic), current_schema(table))
        files = self._manifest.files(head, _closed(delta, head))
        wanted = [file for file in files if file.topic == table.topic]
        for closed, some in _slices(wanted, self._merged_rows):
            self._at_step("W7 merge")
            _merge_rows(delta, head, table, self._newest(table, some), closed)
        if _closed(delta, head) < head.closed:
            _commit(delta, head, [], head.closed)

    def _newest(self, table: LoadedTable, files: Sequence[DataFile]) -> pa.Table:
        """Return the newest row of each key in these files."""
        schema = changes_schema(table)
        root, filesystem = self._manifest.root, self._manifest.filesystem
        read = [pq.read_table(f"{root}/{file.path}", filesystem=filesystem) for file in files]
        return newest_rows(pa.concat_tables([fitted(rows, schema) for rows in read]), table.columns.key)

    def _opened(self, head: ManifestHead, directory: str, schema: pa.Schema) -> DeltaTable:
        """Return the table, created if it is missing, with new columns added if it needs them."""
        uri = f"{self._root}/{directory}"
        try:
            delta = DeltaTable(uri)
        except TableNotFoundError:
            _require_names(uri, schema)
            return DeltaTable.create(uri, schema=Schema.from_arrow(schema))
        _require_own(delta, head)
        if _closed(delta, head) > head.closed:
            raise StateError(
                f"The Delta table {uri} is closed at {_closed(delta, head)}, and the manifest at"
                f" {head.closed}: the directory's _tidegate was put back to an earlier time. Put the"
                f" tables back with it, or remove {uri}/_delta_log to have the table built anew."
            )
        known = {field.name for field in delta.schema().fields}
        new = [field for field in Schema.from_arrow(schema).fields if field.name not in known]
        if new:
            _require_names(uri, schema)
            delta.alter.add_columns(new)
        return delta


def _tables_of(table: LoadedTable) -> list[tuple[str, pa.Schema]]:
    """Return the directories of a topic's two tables, with their schemas."""
    return [
        (changes_directory(table.topic), changes_schema(table)),
        (current_directory(table.topic), current_schema(table)),
    ]


def _require_own(delta: DeltaTable, head: ManifestHead) -> None:
    """Raise ``StateError`` for a table that something else than this load has written.

    A table that was created and has no commit of the load yet has no files.
    """
    if delta.transaction_version(_application(head)) is not None:
        return
    if delta.file_uris() or any(closed_by_version(delta)):
        raise StateError(
            f"{delta.table_uri} is a Delta table that this load has not written, so it has rows that are"
            " in no table of it. Remove it if nobody needs it, or load into another directory."
        )


def _require_names(uri: str, schema: pa.Schema) -> None:
    """Raise ``InputError`` for a column name that readers of Delta tables do not accept in a plain table."""
    for name in schema.names:
        if _NO_NAME & set(name):
            raise InputError(
                f"{uri} would have a column {name!r}, and names in Delta tables have neither spaces nor any"
                " of ,;{}()=: rename it, or load without --delta into another directory."
            )


def newest_rows(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the newest of these changes for each key, deletions too."""
    ordered = changes.sort_by(_ORDER)
    # Names of our own: a table may have a column of any name, and Arrow reads a name with a dot as a path.
    names = [f"key{position}" for position in range(len(key))]
    columns = [*(ordered.column(name) for name in key), pa.array(range(len(ordered)), pa.int64())]
    numbered = pa.Table.from_arrays(columns, names=[*names, "number"])
    last = numbered.group_by(names).aggregate([("number", "max")])
    return ordered.take(last.column("number_max").sort())


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows of an earlier file with the columns that the table has now; a column that they do not
    have is NULL.
    """
    known = set(rows.schema.names)
    columns = [
        rows.column(field.name) if field.name in known else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def closed_by_version(delta: DeltaTable) -> Iterator[tuple[int, BucketEnd]]:
    """Yield the table's versions that commits of a load made, newest first, each with the bucket end up to
    which it is closed.
    """
    for commit in delta.history():
        if CLOSED in commit:
            yield commit["version"], BucketEnd(int(commit[CLOSED]))


def _closed(delta: DeltaTable, head: ManifestHead) -> BucketEnd:
    """Return the bucket end up to which the load has closed the table."""
    return BucketEnd(delta.transaction_version(_application(head)) or 0)


def _application(head: ManifestHead) -> str:
    return f"tidegate-load-{head.load}"


def _properties(head: ManifestHead, closed: BucketEnd) -> CommitProperties:
    return CommitProperties(
        custom_metadata={CLOSED: str(closed)},
        app_transactions=[Transaction(_application(head), closed)],
    )


def _commit(delta: DeltaTable, head: ManifestHead, files: list[AddAction], closed: BucketEnd) -> None:
    delta.create_write_transaction(
        list(files), "append", delta.schema(), commit_properties=_properties(head, closed)
    )
    delta.update_incremental()


def _merge_rows(
    delta: DeltaTable, head: ManifestHead, table: LoadedTable, newest: pa.Table, closed: BucketEnd
) -> None:
    columns = [field.name for field in current_schema(table)]
    taken = {_quoted(name): f"new.{_quoted(name)}" for name in columns}
    same = " AND ".join(f"old.{_quoted(name)} = new.{_quoted(name)}" for name in table.columns.key)
    (
        delta.merge(
            newest.select([*columns, DELETED]),
            same,
            source_alias="new",
            target_alias="old",
            commit_properties=_properties(head, closed),
        )
        .when_matched_delete(f"new.{_quoted(DELETED)}")
        .when_matched_update(taken)
        .when_not_matched_insert(taken, f"NOT new.{_quoted(DELETED)}")
        .execute()
    )
    delta.update_incremental()
    if _closed(delta, head) < closed:  # a merge that changes nothing makes no commit
        _commit(delta, head, [], closed)


def _slices(files: Sequence[DataFile], rows: int) -> Iterator[tuple[BucketEnd, list[DataFile]]]:
    """Yield files of whole buckets with about ``rows`` rows, each time with the last of these buckets."""
    taken: list[DataFile] = []
    for bucket, some in groupby(files, lambda file: file.bucket):
        taken += some
        if sum(file.rows for file in taken) >= rows:
            yield bucket, taken
            taken = []
    if taken:
        yield taken[-1].bucket, taken


def _added(file: DataFile) -> AddAction:
    below = file.path.removeprefix(f"{changes_directory(file.topic)}/")
    stats = {
        "numRecords": file.rows,
        "minValues": {WALL: file.lowest, PARTITION: file.partition},
        "maxValues": {WALL: file.highest, PARTITION: file.partition},
        "nullCount": {WALL: 0, PARTITION: 0, OFFSET: 0},
    }
    return AddAction(below, file.bytes, {}, file.bucket // NANOS_PER_MS, True, json.dumps(stats))


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
