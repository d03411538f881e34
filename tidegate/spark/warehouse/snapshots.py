"""Loaded tables for readers: closed buckets, and nothing else.

Only the manifest is asked. Any engine can read the files that it names; ``rows`` reads them by pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tidegate.errors import InputError, StateError
from tidegate.hlc import Timestamp
from tidegate.spark.platform.file_systems import opened_by_arrow
from tidegate.spark.platform.whole_files import awaited
from tidegate.spark.warehouse.buckets import BucketEnd
from tidegate.spark.warehouse.columns import DELETED
from tidegate.spark.warehouse.data_files import changes_directory, changes_schema, current_directory
from tidegate.spark.warehouse.delta_tables import (
    closed_by_version,
    current_schema,
    fitted,
    newest_rows,
)
from tidegate.spark.warehouse.manifest import DataFile, Manifest, ManifestHead

_TRIES: Final = 3

_T = TypeVar("_T")


class Warehouse:
    """The tables in the directory ``root``, a URI.

    Raises ``InputError`` if nothing was ever loaded there, ``SettingsError`` for a file system that cannot be
    opened, and ``StoreAway`` for one that does not answer.
    """

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")
        with awaited(self._root):
            self._manifest = Manifest(*opened_by_arrow(self._root))
            self._head()

    @property
    def closed(self) -> Timestamp:
        """The time up to which the tables are complete now."""
        return Timestamp(self._head().closed)

    @property
    def first(self) -> Timestamp:
        """The earliest time at which tables can be read: before it not all feeds had begun."""
        return Timestamp(self._head().first)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are loaded."""
        return tuple(table.topic for table in self._head().tables)

    def key(self, topic: str) -> tuple[str, ...]:
        """Return the columns of a topic's primary key."""
        return self._head().table(topic).columns.key

    def columns(self, topic: str) -> tuple[str, ...]:
        """Return the columns of a topic's rows."""
        return self._head().table(topic).columns.names

    def files(self, topic: str, at: Timestamp | None = None) -> list[str]:
        """Return the URIs of the files with all changes of a topic up to ``at``, the end of a closed bucket.

        Without ``at`` they have all changes up to the end of the last closed bucket. Raises as ``changes``
        does.
        """
        return [f"{self._root}/{file.path}" for file in self._read(lambda head: self._files(head, topic, at))]

    def changes(self, topic: str, at: Timestamp | None = None) -> pa.Table:
        """Return all changes of a topic up to ``at``, in no order.

        Raises ``InputError`` for a time that is not the end of a closed bucket, or before ``first``.
        """
        return self._read(lambda head: self._changes(head, topic, at))

    def rows(self, topic: str, at: Timestamp | None = None) -> pa.Table:
        """Return the rows of a topic's table at ``at``; without it, at the end of the last closed bucket.

        Raises ``InputError`` for a time that is not the end of a closed bucket, or before ``first``, and for
        a feed that began without a scan.
        """
        return self._read(lambda head: self._rows(head, topic, at))

    def current_version(self, topic: str, at: Timestamp) -> int:
        """Return the version of the Delta table ``<topic>/current`` that shows the table as of ``at``.

        Raises ``InputError`` when no version does, since a commit may close several buckets together.
        """
        delta = DeltaTable(f"{self._root}/{current_directory(topic)}")
        return version_at(delta, BucketEnd(at.wall), topic)

    def changes_version(self, topic: str, at: Timestamp) -> int:
        """Return the version of the Delta table ``<topic>/changes`` with all changes up to ``at``.

        Raises as ``current_version`` does.
        """
        delta = DeltaTable(f"{self._root}/{changes_directory(topic)}")
        return version_at(delta, BucketEnd(at.wall), topic)

    def _head(self) -> ManifestHead:
        head = self._manifest.head()
        if head is None:
            raise InputError(
                f"Nothing was ever loaded into {self._root}: `tidegate spark load --to` loads tables there."
            )
        return head

    def _read(self, read: Callable[[ManifestHead], _T]) -> _T:
        """Return what ``read`` returns; call it again when a commit has replaced the pages of the head
        meanwhile.
        """
        for _ in range(_TRIES):
            head = self._head()
            try:
                return read(head)
            except StateError:
                if self._head().number == head.number:
                    raise
        return read(self._head())

    def _files(self, head: ManifestHead, topic: str, at: Timestamp | None) -> list[DataFile]:
        head.table(topic)
        bucket = head.closed if at is None else _bucket(head, at)
        return [file for file in self._manifest.files(head, upto=bucket) if file.topic == topic]

    def _changes(self, head: ManifestHead, topic: str, at: Timestamp | None) -> pa.Table:
        schema = changes_schema(head.table(topic))
        root, filesystem = self._manifest.root, self._manifest.filesystem
        read = [
            fitted(pq.read_table(f"{root}/{file.path}", filesystem=filesystem), schema)
            for file in self._files(head, topic, at)
        ]
        return pa.concat_tables([schema.empty_table(), *read])

    def _rows(self, head: ManifestHead, topic: str, at: Timestamp | None) -> pa.Table:
        table = head.table(topic)
        if not table.whole:
            raise InputError(
                f"Feed {table.feed} of {topic} began without a scan, so its rows that have not changed since"
                " are missing: there is no table of its rows at any time. `changes` has its changes. Load a"
                " feed WITH initial_scan for tables."
            )
        newest = newest_rows(self._changes(head, topic, at), table.columns.key)
        return newest.filter(pc.invert(newest.column(DELETED))).select(current_schema(table).names)


def version_at(delta: DeltaTable, bucket: BucketEnd, topic: str) -> int:
    """Return the version of a Delta table as of the end of ``bucket``. Raises ``InputError`` without one."""
    for version, closed in closed_by_version(delta):
        if closed == bucket:
            return version
    raise InputError(
        f"No version of the Delta table of {topic} ends at {Timestamp(bucket)}: several buckets were closed"
        " at once. Its changes show every bucket."
    )


def _bucket(head: ManifestHead, at: Timestamp) -> BucketEnd:
    bucket = head.buckets.of(at)
    if not head.first <= bucket <= head.closed or Timestamp(bucket) != at:
        raise InputError(
            f"{at} is not the end of a closed bucket: these are each {head.buckets.length_ns / 1e9:g} s from"
            f" {Timestamp(head.first)} to {Timestamp(head.closed)}."
        )
    return bucket
