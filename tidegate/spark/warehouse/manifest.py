"""The manifest: it says which files and buckets of a warehouse directory count.

    <root>/_tidegate/head.json           replaced as a whole by each commit; names everything else
    <root>/_tidegate/pages/<name>.json   the data files of the buckets that end on one day
    <root>/<topic>/changes/<day>/...     data files

Pages and data files are never changed, and no two attempts give one the same name. A file that no head names
does not exist for readers, and is removed.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeVar

from pyarrow import fs

from tidegate.changefeed.definition.options import Format
from tidegate.errors import SettingsError, StateError, brief
from tidegate.hlc import ZERO, Timestamp, parse_decimal
from tidegate.spark.platform.whole_files import read_replaced, read_whole, write_whole
from tidegate.spark.warehouse.buckets import NO_BUCKET, BucketEnd, Buckets, day_of
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.verify import TopicPartition

_HEAD_VERSION: Final = 2  # in version 1 a position has no ``read_to``, and a table no ``whole``
_PAGE_VERSION: Final = 1

#: More partitions than a topic of Kafka has. A table keeps a position for each partition.
_PARTITIONS_MAX: Final = 1 << 20
#: The exceptions that may come when stored JSON does not have the form that was written.
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file with the rows of one bucket and one partition.

    ``path`` is below the root. ``lowest`` and ``highest`` are the lowest and highest wall time of its rows,
    in nanoseconds.
    """

    bucket: BucketEnd
    topic: str
    partition: int
    path: str
    rows: int
    bytes: int
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A topic that is loaded, the feed that writes it, and facts about it that may not change.

    ``columns`` only grow. ``whole`` says that the feed began with a scan: without it the rows that have not
    changed since are missing, and the changes do not make a whole table.
    """

    topic: str
    topic_id: str
    partitions: int
    feed: str
    format: Format
    columns: Columns
    whole: bool = True

    @property
    def places(self) -> list[TopicPartition]:
        """The partitions of the topic."""
        return [TopicPartition(self.topic, number) for number in range(self.partitions)]


@dataclass(frozen=True, slots=True)
class LoadPosition:
    """The place from which the next pass reads a partition.

    ``offset`` is the lowest offset of a row that is in no closed bucket. ``marker`` is the highest marker
    seen so far, which may stand before that offset. ``read_to`` is the offset below which passes have read,
    so the marker stands below it.
    """

    offset: int = 0
    marker: Timestamp = ZERO
    read_to: int = 0


@dataclass(frozen=True, slots=True)
class ManifestHead:
    """A commit. Buckets up to ``closed`` are closed: a page names the file of every row in them.

    ``load`` is the id of the load, ``number`` counts its commits. ``first`` is the first bucket at whose end
    all tables are whole, since before it not all feeds had begun. ``before`` is the value of ``closed`` in
    the commit before. ``pages`` has the name of each day's page.
    """

    load: str
    buckets: Buckets
    first: BucketEnd
    closed: BucketEnd
    before: BucketEnd
    tables: tuple[LoadedTable, ...]
    delta: bool = False
    number: int = 0
    positions: Mapping[TopicPartition, LoadPosition] = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)

    def table(self, topic: str) -> LoadedTable:
        """Return the table of a topic. Raises ``StateError`` for a topic that is not loaded."""
        for table in self.tables:
            if table.topic == topic:
                return table
        names = ", ".join(table.topic for table in self.tables)
        raise StateError(f"{topic} is not loaded into this directory; {names} are.")

    def position(self, place: TopicPartition) -> LoadPosition:
        """Return where the next pass reads a partition from."""
        return self.positions.get(place, LoadPosition())


class Manifest:
    """The manifest of the directory ``root`` of ``filesystem``."""

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        self.filesystem = filesystem
        self.root = root
        self._pages = f"{root}/_tidegate/pages"
        self._head = f"{root}/_tidegate/head.json"

    def head(self) -> ManifestHead | None:
        """Return the newest commit; ``None`` when there is none.

        Raises ``StateError`` for a commit that is torn.
        """
        content = read_replaced(self.filesystem, self._head)
        return None if content is None else _loaded(content, self._head, _head_from)

    def files(
        self, head: ManifestHead, above: BucketEnd = NO_BUCKET, upto: BucketEnd | None = None
    ) -> list[DataFile]:
        """Return the files of closed buckets above ``above`` and up to ``upto``, by bucket, topic and
        partition.

        Raises ``StateError`` for a page that is missing or torn.
        """
        high = head.closed if upto is None else min(upto, head.closed)
        days = [day for day in sorted(head.pages) if day_of(above) <= day <= day_of(high)]
        found = [file for day in days for file in self._page(head.pages[day])]
        return sorted((file for file in found if above < file.bucket <= high), key=_order)

    def files_of_days(self, head: ManifestHead, since: str) -> list[DataFile]:
        """Return the files of all buckets that end on the day ``since`` or later.

        Raises as ``files`` does.
        """
        return [file for day, name in head.pages.items() if day >= since for file in self._page(name)]

    def write_pages(self, head: ManifestHead, files: Iterable[DataFile]) -> Mapping[str, str]:
        """Write new pages for days that get more files; return the pages of the next commit.

        No head names them yet.
        """
        by_day: dict[str, list[DataFile]] = defaultdict(list)
        for file in files:
            by_day[day_of(file.bucket)].append(file)
        pages = dict(head.pages)
        for day, added in sorted(by_day.items()):
            known = self._page(pages[day]) if day in pages else []
            name = f"{day}-{head.number + 1:010d}-{uuid.uuid4().hex}"
            body = {"version": _PAGE_VERSION, "files": [asdict(file) for file in [*known, *added]]}
            self.filesystem.create_dir(self._pages)
            self._write(f"{self._pages}/{name}.json", body)
            pages[day] = name
        return pages

    def commit(self, head: ManifestHead) -> None:
        """Make ``head`` the newest commit, if the newest commit is still the one before it.

        Raises ``StateError`` if another loader has committed since.
        """
        if self._newest() != ((None, 0) if head.number == 0 else (head.load, head.number - 1)):
            raise self._other_loader()
        self.filesystem.create_dir(f"{self.root}/_tidegate")
        self._write(self._head, _head_to(head))

    def require_newest(self, head: ManifestHead) -> None:
        """Raise ``StateError`` if ``head`` is not the newest commit."""
        if self._newest() != (head.load, head.number):
            raise self._other_loader()

    def require_unused(self, directories: Iterable[str]) -> None:
        """Raise ``StateError`` if a load has made one of these directories below the root, or pages.

        If one is there, there was a head too, and it is lost.
        """
        places = [self._pages, *(f"{self.root}/{directory}" for directory in directories)]
        found = self.filesystem.get_file_info(places)
        left = [info.path for info in found if info.type == fs.FileType.Directory]
        if left:
            raise StateError(
                f"{self._head} is missing, and {left[0]} is there, which only a load makes: nobody can say"
                " what the tables have. Nothing is loaded and nothing removed. Put the file back, or begin a"
                " new load in another directory."
            )

    def _newest(self) -> tuple[str | None, int]:
        now = self.head()
        return (None, 0) if now is None else (now.load, now.number)

    def _other_loader(self) -> StateError:
        return StateError(
            f"Another loader has written to {self.root} since this one's last commit: one directory has one"
            " loader at a time. Nothing of this one's last pass is in the tables; stop one of the two."
        )

    def remove_pages(self, *kept: ManifestHead) -> None:
        """Remove the pages that none of these commits names."""
        names = {name for head in kept for name in head.pages.values()}
        found = self.filesystem.get_file_info(fs.FileSelector(self._pages, allow_not_found=True))
        for info in found:
            if info.type == fs.FileType.File and info.base_name.removesuffix(".json") not in names:
                self.filesystem.delete_file(info.path)

    def _page(self, name: str) -> list[DataFile]:
        path = f"{self._pages}/{name}.json"
        content = read_whole(self.filesystem, path)
        if content is None:
            raise StateError(
                f"{path} is missing, which the newest commit names: put it back, or begin a new load in"
                " another directory"
            )
        return _loaded(content, path, _files_from, _PAGE_VERSION)

    def _write(self, path: str, body: Mapping[str, Any]) -> None:
        write_whole(self.filesystem, path, json.dumps(body, sort_keys=True, indent=1).encode())


def advanced(
    head: ManifestHead,
    closed: BucketEnd,
    tables: Sequence[LoadedTable],
    positions: Mapping[TopicPartition, LoadPosition],
    pages: Mapping[str, str],
) -> ManifestHead:
    """Return the commit that follows ``head``."""
    return replace(
        head,
        number=head.number + 1,
        before=head.closed,
        closed=closed,
        tables=tuple(tables),
        positions=positions,
        pages=pages,
    )


def _order(file: DataFile) -> tuple[int, str, int, str]:
    return file.bucket, file.topic, file.partition, file.path


def _loaded(
    content: bytes, path: str, read: Callable[[dict[str, Any]], _T], newest: int = _HEAD_VERSION
) -> _T:
    try:
        body = json.loads(content)
        if body["version"] > newest:
            raise StateError(f"{path} was written by a newer version of tidegate: go on with that one")
        return read(body)
    except (*_UNREADABLE, SettingsError) as error:
        raise StateError(
            f"{path} is torn ({brief(repr(error))}): put it back, or begin a new load in another directory"
        ) from None


def _head_to(head: ManifestHead) -> dict[str, Any]:
    return {
        "version": _HEAD_VERSION,
        "load": head.load,
        "number": head.number,
        "bucket_ns": head.buckets.length_ns,
        "first": head.first,
        "closed": head.closed,
        "before": head.before,
        "delta": head.delta,
        "tables": [
            {
                "topic": table.topic,
                "topic_id": table.topic_id,
                "partitions": table.partitions,
                "feed": table.feed,
                "format": table.format.value,
                "whole": table.whole,
                "key": list(table.columns.key),
                "columns": [[column.name, column.type] for column in table.columns.columns],
                "positions": [_position_to(head.position(place)) for place in table.places],
            }
            for table in head.tables
        ],
        "pages": dict(head.pages),
    }


def _head_from(body: dict[str, Any]) -> ManifestHead:
    tables = tuple(
        LoadedTable(
            each["topic"],
            each["topic_id"],
            _partitions(each["partitions"]),
            each["feed"],
            Format(each["format"]),
            Columns(tuple(each["key"]), tuple(LoadedColumn(*column) for column in each["columns"])),
            each.get("whole", True),
        )
        for each in body["tables"]
    )
    positions = {
        place: _position_from(*position)
        for table, each in zip(tables, body["tables"], strict=True)
        for place, position in zip(table.places, each["positions"], strict=True)
    }
    return ManifestHead(
        body["load"],
        Buckets(body["bucket_ns"]),
        BucketEnd(body["first"]),
        BucketEnd(body["closed"]),
        BucketEnd(body["before"]),
        tables,
        body["delta"],
        body["number"],
        positions,
        body["pages"],
    )


def _position_to(position: LoadPosition) -> list[int | str]:
    return [position.offset, position.marker.decimal(), position.read_to]


def _position_from(offset: int, marker: str, read_to: int | None = None) -> LoadPosition:
    """Return a stored position.

    A position in a head of version 1 does not say how far passes have read. Its marker may stand after
    records that the next pass does not reach. So the marker counts only when it is read again.
    """
    if read_to is None:
        return LoadPosition(offset, ZERO, offset)
    return LoadPosition(offset, parse_decimal(marker), max(offset, read_to))


def _partitions(stored: int) -> int:
    if not 0 < stored <= _PARTITIONS_MAX:
        raise ValueError(f"{stored!r} is no number of partitions")
    return stored


def _files_from(body: dict[str, Any]) -> list[DataFile]:
    return [DataFile(**each) for each in body["files"]]
