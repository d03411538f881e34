"""Keeps the versions of table descriptors, and finds the one that governs a row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from tidegate.errors import DescriptorConflict, UnknownTable
from tidegate.hlc import Timestamp
from tidegate.rows.decoded_descriptors import decoded_descriptor
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.stored_descriptor import DescriptorHead, head_of
from tidegate.rows.table_codec import TableCodec
from tidegate.rows.table_key import index_span
from tidegate.spans import Span

#: Codecs are kept for versions whose stored forms together have at most so many bytes. Others are compiled
#: again.
_CODEC_BYTES_MAX: Final = 4 << 20
#: The most primary indexes of a table's forgotten versions that stay known.
INDEXES_MAX: Final = 64


class PrimaryIndex(NamedTuple):
    """The primary index that a table has from the time ``since`` on."""

    since: Timestamp
    index_id: int


class TablePast(NamedTuple):
    """What stays known of a table's forgotten versions: the number of the newest, and their primary indexes.

    If several versions in a row have the same index, it stands there once.
    """

    version: int
    indexes: tuple[PrimaryIndex, ...]


_NO_PAST: Final = TablePast(-1, ())


class Catalog:
    """All known versions of all known tables; each `DescriptorUpdate` of the log may add one.

    Versions are kept in their stored form. A version is decoded, and its codec is compiled, when it is first
    asked for. So a table that no feed wants takes little memory, and a table that cannot be fed concerns only
    feeds that want it.
    """

    __slots__ = ("_codec_bytes", "_codecs", "_modified", "_past", "_single", "_versions")

    def __init__(self) -> None:
        self._versions: dict[int, list[DescriptorHead]] = {}  # by table id; in order of version and time
        self._modified: dict[int, list[Timestamp]] = {}
        self._codecs: dict[tuple[int, int], TableCodec] = {}  # by table id and version
        self._codec_bytes = 0
        self._single: dict[int, tuple[Timestamp, TableCodec]] = {}  # tables with one version only
        self._past: dict[int, TablePast] = {}

    def add(self, descriptor: TableDescriptor) -> bool:
        """Add a version; return ``False`` if an identical one is known.

        Raises `DescriptorConflict` when the version is known with other content, or when versions and their
        times are not in the same order.
        """
        known = self.head(descriptor.id, descriptor.version)
        if known is not None:
            if _decoded(known) != descriptor:
                raise _other_content(known)
            return False
        self.put(head_of(descriptor))
        return True

    def put(self, head: DescriptorHead) -> None:
        """Add a version that is not known. Raises as `add` does."""
        versions = self._versions.get(head.id, [])
        at = bisect_right(versions, head.version, key=_version_of)
        _require_rising([*versions[max(at - 1, 0) : at], head, *versions[at : at + 1]])
        self._versions.setdefault(head.id, versions).insert(at, head)
        self._modified.setdefault(head.id, []).insert(at, head.modified)
        self._single.pop(head.id, None)

    def head(self, table_id: int, version: int) -> DescriptorHead | None:
        """Return the head of a known version; ``None`` if it is not known."""
        versions = self._versions.get(table_id, [])
        at = bisect_right(versions, version, key=_version_of)
        return versions[at - 1] if at and versions[at - 1].version == version else None

    def has(self, table_id: int, version: int) -> bool:
        """Return whether that version is known."""
        return self.head(table_id, version) is not None

    def has_table(self, table_id: int) -> bool:
        """Return whether any version of the table is known."""
        return table_id in self._versions

    def versions(self, table_id: int) -> tuple[TableDescriptor, ...]:
        """Return the known versions of a table, by their modification times."""
        return tuple(map(self._descriptor, self._versions.get(table_id, ())))

    def count(self, table_id: int) -> int:
        """Return how many versions of a table are known."""
        return len(self._versions.get(table_id, ()))

    def has_before(self, table_id: int, timestamp: Timestamp) -> bool:
        """Return whether a version of the table is known that was valid at ``timestamp`` or before."""
        modified = self._modified.get(table_id)
        return modified is not None and modified[0] <= timestamp

    def at(self, table_id: int, timestamp: Timestamp) -> TableCodec:
        """Return the codec of the version that governs rows written at ``timestamp``.

        It is the version with the greatest modification time at or below ``timestamp``. Raises `UnknownTable`
        if no such version is known, and `UnsupportedTable` for a version that cannot be fed.
        """
        single = self._single.get(table_id)
        if single is not None and single[0] <= timestamp:
            return single[1]
        governing = self._head_at(table_id, timestamp)
        codec = self._codec(governing)
        if len(self._known(table_id)) == 1:
            self._single[table_id] = (governing.modified, codec)
        return codec

    def version_at(self, table_id: int, timestamp: Timestamp) -> TableDescriptor:
        """Return the version that governs rows written at ``timestamp``.

        Raises `UnknownTable` if no such version is known.
        """
        return self._descriptor(self._head_at(table_id, timestamp))

    def _head_at(self, table_id: int, timestamp: Timestamp) -> DescriptorHead:
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
        """Return the spans of the indexes that are primary at any moment from ``first`` to ``last``, both
        included.

        Returns ``None`` if they are not known, since no descriptor of the table is valid at ``first``. The
        primary indexes of forgotten versions count too.
        """
        versions = self._versions.get(table_id, [])
        times = self._modified.get(table_id, [])
        past = [
            each for each in self._past.get(table_id, _NO_PAST).indexes if not times or each.since < times[0]
        ]
        times = [*(each.since for each in past), *times] if past else times
        low, high = bisect_right(times, first) - 1, bisect_right(times, last)
        if low < 0:
            return None
        ids = [*(each.index_id for each in past), *(head.primary_index_id for head in versions)]
        return tuple(index_span(table_id, index_id) for index_id in dict.fromkeys(ids[low:high]))

    def by_name(self, name: str) -> TableDescriptor | None:
        """Return the newest version of the table called ``name``, ``schema.name`` or
        ``database.schema.name``.

        Dropped tables are left out. If several tables have that name, the one with the lowest id counts.
        """
        for newest in self.newest():
            if not newest.dropped and name in _names(newest):
                return self._descriptor(newest)
        return None

    def newest(self) -> Iterator[DescriptorHead]:
        """Yield the head of the newest version of each table, by table id."""
        for table_id in sorted(self._versions):
            yield self._versions[table_id][-1]

    def newest_of(self, table_id: int) -> TableDescriptor:
        """Return the newest known version of a table. Raises `UnknownTable` if no version is known."""
        return self._descriptor(self._known(table_id)[-1])

    def descriptors(self) -> Iterator[TableDescriptor]:
        """Yield every known version, by table id and modification time."""
        for table_id in sorted(self._versions):
            yield from map(self._descriptor, self._versions[table_id])

    # ---- what is forgotten ----

    def past(self, table_id: int) -> TablePast | None:
        """Return what is left of a table's forgotten versions; ``None`` if none was forgotten."""
        return self._past.get(table_id)

    @property
    def pasts(self) -> Mapping[int, TablePast]:
        """What is left of forgotten versions, by table id."""
        return self._past

    def tables_before(self, timestamp: Timestamp) -> list[int]:
        """Return the tables with versions that govern no row written at ``timestamp`` or later."""
        return [
            table_id for table_id, times in self._modified.items() if len(times) > 1 and times[1] <= timestamp
        ]

    def is_governed(self, table_id: int, version: int, timestamp: Timestamp) -> bool:
        """Return whether a known version later than ``version`` is valid at ``timestamp``."""
        versions = self._versions.get(table_id, [])
        at = bisect_right(versions, version, key=_version_of)
        return at < len(versions) and versions[at].modified <= timestamp

    def is_followed(self, table_id: int, version: int, modified: Timestamp) -> bool:
        """Return whether later versions than ``version`` are known, and the next one begins after
        ``modified``.
        """
        versions = self._versions.get(table_id, [])
        at = bisect_right(versions, version, key=_version_of)
        return at < len(versions) and versions[at].modified > modified

    def set_past(self, table_id: int, past: TablePast) -> None:
        """Set what is left of a table's forgotten versions, for a catalog that is restored from its state."""
        self._past[table_id] = past

    def forget(self, table_id: int, timestamp: Timestamp) -> list[DescriptorHead]:
        """Forget the versions of a table that govern no row written at ``timestamp`` or later, and return
        them.

        Their primary indexes stay known.
        """
        versions, times = self._versions.get(table_id, []), self._modified.get(table_id, [])
        count = bisect_right(times, timestamp) - 1
        if count <= 0:
            return []
        forgotten = versions[:count]
        before = self._past.get(table_id, _NO_PAST)
        gone = (PrimaryIndex(each.modified, each.primary_index_id) for each in forgotten)
        indexes = sorted({*before.indexes, *gone})
        self._past[table_id] = TablePast(
            max(before.version, forgotten[-1].version), _changes(indexes)[-INDEXES_MAX:]
        )
        del versions[:count], times[:count]
        for each in forgotten:
            self._drop_codec((table_id, each.version), len(each.stored))
        return forgotten

    # ---- decoded, and compiled ----

    def _known(self, table_id: int) -> list[DescriptorHead]:
        versions = self._versions.get(table_id)
        if versions is None:
            raise UnknownTable(f"table {table_id} is unknown: no descriptor of it has come in the log")
        return versions

    def _descriptor(self, head: DescriptorHead) -> TableDescriptor:
        known = self._codecs.get((head.id, head.version))
        return _decoded(head) if known is None else known.descriptor

    def _codec(self, head: DescriptorHead) -> TableCodec:
        key = head.id, head.version
        known = self._codecs.get(key)
        if known is None:
            known = TableCodec(_decoded(head))
            self._codecs[key] = known
            self._codec_bytes += len(head.stored)
            while self._codec_bytes > _CODEC_BYTES_MAX and len(self._codecs) > 1:
                oldest = next(iter(self._codecs))
                of = self.head(*oldest)
                self._drop_codec(oldest, 0 if of is None else len(of.stored))
        return known

    def _drop_codec(self, key: tuple[int, int], size: int) -> None:
        if self._codecs.pop(key, None) is not None:
            self._codec_bytes -= size
            self._single.pop(key[0], None)


def _version_of(head: DescriptorHead) -> int:
    return head.version


def _decoded(head: DescriptorHead) -> TableDescriptor:
    # Its size was checked when it came in the log, or an earlier version has stored it.
    return decoded_descriptor(head.stored, is_bounded=False)


def _changes(indexes: Iterable[PrimaryIndex]) -> tuple[PrimaryIndex, ...]:
    """Return the indexes without those that are equal to the index before them."""
    found: list[PrimaryIndex] = []
    for each in indexes:
        if not found or found[-1].index_id != each.index_id:
            found.append(each)
    return tuple(found)


def _names(table: DescriptorHead) -> tuple[str, str, str]:
    in_schema = f"{table.schema}.{table.name}"
    return table.name, in_schema, f"{table.database}.{in_schema}"


def _other_content(known: DescriptorHead) -> DescriptorConflict:
    return DescriptorConflict(
        f"version {known.version} of table {known.name} ({known.id}) came twice with different content"
    )


def _require_rising(versions: list[DescriptorHead]) -> None:
    """Require that later versions have later modification times, since one instant can have only one
    version.
    """
    for before, after in pairwise(versions):
        if after.modified <= before.modified:
            raise DescriptorConflict(
                f"version {after.version} of table {after.name} ({after.id}) begins at {after.modified}, not "
                f"after version {before.version} at {before.modified}"
            )
