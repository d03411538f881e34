"""Keeps the versions of table descriptors, and finds the one that governs a row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from tidegate.errors import DescriptorConflict, UnknownTable
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.table_codec import TableCodec
from tidegate.rows.table_key import index_span
from tidegate.spans import Span


class Catalog:
    """All known versions of all known tables; each `DescriptorUpdate` of the log may add one.

    Codecs are compiled when they are first asked for. So a table that cannot be fed concerns only feeds that
    want it.
    """

    __slots__ = ("_codecs", "_modified", "_single", "_versions")

    def __init__(self) -> None:
        self._versions: dict[int, list[TableDescriptor]] = {}  # by table id; in order of version and time
        self._modified: dict[int, list[Timestamp]] = {}
        self._codecs: dict[tuple[int, int], TableCodec] = {}  # by table id and version
        self._single: dict[int, tuple[Timestamp, TableCodec]] = {}  # tables with one version only

    def add(self, descriptor: TableDescriptor) -> bool:
        """Add a version; return ``False`` if an identical one is known.

        Raises `DescriptorConflict` when the version is known with other content, or when versions and their
        times are not in the same order.
        """
        versions = self._versions.get(descriptor.id, [])
        at = bisect_right(versions, descriptor.version, key=lambda known: known.version)
        if at and versions[at - 1].version == descriptor.version:
            _require_identical(versions[at - 1], descriptor)
            return False
        _require_rising([*versions[max(at - 1, 0) : at], descriptor, *versions[at : at + 1]])
        self._versions.setdefault(descriptor.id, versions).insert(at, descriptor)
        self._modified.setdefault(descriptor.id, []).insert(at, descriptor.modified)
        self._single.pop(descriptor.id, None)
        return True

    def has(self, table_id: int, version: int) -> bool:
        """Return whether that version is known."""
        versions = self._versions.get(table_id, [])
        at = bisect_right(versions, version, key=lambda known: known.version)
        return at > 0 and versions[at - 1].version == version

    def versions(self, table_id: int) -> tuple[TableDescriptor, ...]:
        """Return the known versions of a table, by their modification times."""
        return tuple(self._versions.get(table_id, ()))

    def count(self, table_id: int) -> int:
        """Return how many versions of a table are known."""
        return len(self._versions.get(table_id, ()))

    def has_before(self, table_id: int, timestamp: Timestamp) -> bool:
        """Return whether a version of the table is known that was valid at ``timestamp`` or before."""
        modified = self._modified.get(table_id)
        return modified is not None and modified[0] <= timestamp

    def at(self, table_id: int, timestamp: Timestamp) -> TableCodec:
        """Return the codec of the version that governs rows written at ``timestamp``.

        That is the version with the greatest modification time at or below it. Raises `UnknownTable`, and
        `UnsupportedTable` for a version that cannot be fed.
        """
        single = self._single.get(table_id)
        if single is not None and single[0] <= timestamp:
            return single[1]
        governing = self.version_at(table_id, timestamp)
        codec = self._codec(governing)
        if len(self._known(table_id)) == 1:
            self._single[table_id] = (governing.modified, codec)
        return codec

    def version_at(self, table_id: int, timestamp: Timestamp) -> TableDescriptor:
        """Return the version that governs rows written at ``timestamp``. Raises `UnknownTable`."""
        versions = self._known(table_id)
        at = bisect_right(self._modified[table_id], timestamp)
        if at == 0:
            raise UnknownTable(
                f"no descriptor of table {table_id} is valid at {timestamp}: the oldest known one begins at "
                f"{versions[0].modified}"
            )
        return versions[at - 1]

    def latest(self, table_id: int) -> TableCodec:
        """Return the codec of the newest known version. Raises as `at` does."""
        return self._codec(self._known(table_id)[-1])

    def primary_keys(self, table_id: int, first: Timestamp, last: Timestamp) -> tuple[Span, ...] | None:
        """Return the keys of the indexes that are primary at any moment from ``first`` to ``last``, both
        included.

        Returns ``None`` when that is not known, since no descriptor of the table is valid at ``first``.
        """
        versions = self._versions.get(table_id, [])
        modified = self._modified.get(table_id, [])
        low, high = bisect_right(modified, first) - 1, bisect_right(modified, last)
        if low < 0:
            return None
        indexes = {version.primary_index_id: None for version in versions[low:high]}
        return tuple(index_span(table_id, index_id) for index_id in indexes)

    def by_name(self, name: str) -> TableDescriptor | None:
        """Return the newest version of the table called ``name``, ``schema.name`` or
        ``database.schema.name``.

        Dropped tables are left out. Of several tables with that name it is the one with the lowest id.
        """
        for table_id in sorted(self._versions):
            newest = self._versions[table_id][-1]
            if not newest.dropped and name in _names(newest):
                return newest
        return None

    def descriptors(self) -> Iterator[TableDescriptor]:
        """Yield every known version, by table id and modification time."""
        for table_id in sorted(self._versions):
            yield from self._versions[table_id]

    def _known(self, table_id: int) -> list[TableDescriptor]:
        versions = self._versions.get(table_id)
        if versions is None:
            raise UnknownTable(f"table {table_id} is unknown: no descriptor of it has come in the log")
        return versions

    def _codec(self, descriptor: TableDescriptor) -> TableCodec:
        known = self._codecs.get((descriptor.id, descriptor.version))
        if known is None:
            known = self._codecs[descriptor.id, descriptor.version] = TableCodec(descriptor)
        return known


def _names(descriptor: TableDescriptor) -> tuple[str, str, str]:
    in_schema = f"{descriptor.schema}.{descriptor.name}"
    return descriptor.name, in_schema, f"{descriptor.database}.{in_schema}"


def _require_identical(known: TableDescriptor, offered: TableDescriptor) -> None:
    if known != offered:
        raise DescriptorConflict(
            f"version {known.version} of table {known.name} ({known.id}) came twice with different content"
        )


def _require_rising(versions: list[TableDescriptor]) -> None:
    """Require that later versions have later modification times, since one instant can have only one
    version.
    """
    for before, after in pairwise(versions):
        if after.modified <= before.modified:
            raise DescriptorConflict(
                f"version {after.version} of table {after.name} ({after.id}) begins at {after.modified}, not "
                f"after version {before.version} at {before.modified}"
            )
