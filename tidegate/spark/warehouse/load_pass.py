"""The loader's driver: it runs one pass after the other (docs/warehouse.md, steps W1 to W8).

    W1  read the head, and commit it once more as the next one, which shuts out any other loader; bring Delta
        tables up to it, and remove what an unfinished pass left
    W2  ask the feeds how they are, and then the topics where they end; begin Delta tables that are asked for
        only now
    W3  one task for each partition: data files of the buckets that its own markers close
    W4  ask for the feeds and the topics' ids once more; the bound: the last bucket that every partition has
        closed; if it has not risen, nothing is committed
    W5  check that the files are there, and that Delta tables can have new columns; write pages, which say
        which files the buckets of each day have
    W6  the head: the commit
    W7  Delta tables: each one's changes, then its current rows
    W8  remove what no head names

Only W6 changes the rows that count: the commits of W1 and W2 have the same rows as the one before. If a pass
ends before W6, no head names what W3 and W5 have written. W7 brings Delta tables up to the head.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, Protocol, TypeAlias

from pyarrow import fs

from tidegate.changefeed.definition.options import Format
from tidegate.client.kafka.cluster import Bounds
from tidegate.client.kafka.settled_bounds import settled_bounds
from tidegate.client.subscribe.feed_term import FeedTerm
from tidegate.errors import InputError, StateError, TopologyError
from tidegate.hlc import Timestamp
from tidegate.spark.platform.file_systems import opened_by_arrow
from tidegate.spark.platform.whole_files import awaited
from tidegate.spark.warehouse.buckets import BucketEnd, Buckets, day_of
from tidegate.spark.warehouse.columns import Columns
from tidegate.spark.warehouse.data_files import changes_directory, current_directory, remove_unnamed
from tidegate.spark.warehouse.manifest import (
    DataFile,
    LoadedTable,
    Manifest,
    ManifestHead,
    advanced,
)
from tidegate.spark.warehouse.partition_task import (
    LoadTask,
    PartitionAnswer,
    TopicReading,
    load_partition,
)
from tidegate.verify import TopicPartition

#: Runs tasks in any order, and returns all answers.
RunTasks: TypeAlias = Callable[[Sequence[LoadTask]], list[PartitionAnswer]]

_READ_AGAIN: Final = 2  # rows may have an unknown member the first time; its column is then read from the log


class SourceTable(NamedTuple):
    """A topic, as its feed and its cluster describe it now.

    ``complete`` says that nothing more will come on it: its feed was a scan of its tables at ``start``, and
    has succeeded. ``term`` says which of the topic's records are the feed's. ``scanned`` says that the feed
    began with a scan.
    """

    topic: str
    topic_id: str
    partitions: int
    feed: str
    format: Format
    start: Timestamp
    complete: bool
    reading: TopicReading
    term: FeedTerm
    scanned: bool = True


class LoadSource(Protocol):
    """The questions that a pass of the loader asks about its feeds."""

    def tables(self) -> Sequence[SourceTable]:
        """Return the topics of the feeds. Raises ``InputError`` for a feed that cannot be loaded."""

    def bounds(self, tables: Sequence[SourceTable]) -> Mapping[TopicPartition, Bounds]:
        """Return where the topics' partitions begin and end now."""

    def columns(self, topics: Sequence[str], loaded: Mapping[str, Columns]) -> Mapping[str, Columns]:
        """Return the columns of the topics' rows, as they are known now.

        ``loaded`` are the columns of topics that are loaded already: what is text there stays text. Raises
        ``InputError`` for rows that do not mean the same since the feed's start, and ``StateError`` for text
        that was asked for too late.
        """


class DeltaTables(Protocol):
    """Tables of another format that follow the manifest."""

    def require(self, head: ManifestHead) -> None:
        """Raise if the tables cannot follow this head, which is not committed yet."""

    def follow(self, head: ManifestHead) -> None:
        """Bring the tables up to the head."""


@dataclass(frozen=True, slots=True)
class PassReport:
    """The result of a pass.

    ``closed`` is the bucket up to which the tables are closed, and ``news`` says whether the pass closed
    more. ``rows`` and ``files`` are what it added. ``more`` says that another pass has something to do: a
    task stopped before the end, a feed ended while its records were read, or the next pass is to say that a
    later feed has the topic.
    """

    closed: BucketEnd
    news: bool = False
    rows: int = 0
    files: int = 0
    repeats: int = 0
    more: bool = False


class Loader:
    """Loads output topics into the directory ``root``, a URI.

    ``at_step`` is called before each step, and ``wait`` with seconds that have to pass.
    """

    def __init__(
        self,
        source: LoadSource,
        run_tasks: RunTasks,
        root: str,
        buckets: Buckets,
        delta: DeltaTables | None = None,
        records: int = 0,
        at_step: Callable[[str], object] = lambda _: None,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._source = source
        self._run_tasks = run_tasks
        self._root = root
        self._buckets = buckets
        self._delta = delta
        self._records = records
        self._at_step = at_step
        self._wait = wait
        self._head: ManifestHead | None = None

    @cached_property
    def _manifest(self) -> Manifest:
        """The manifest, opened by the first pass: a file system that is away is waited for there."""
        return Manifest(*opened_by_arrow(self._root))

    def run_pass(self) -> PassReport:
        """Run one pass: load the buckets that are closed by the records that the pass reads.

        An error before the commit (W6) leaves the tables as they were. After a later error the next pass does
        the rest.

        Raises ``InputError`` for records or feeds that cannot be loaded, ``TopologyError`` for topics that
        are not those that the load began with, ``StateError`` for a directory that cannot be used,
        ``SettingsError`` for a file system that cannot be opened, and ``RetryError`` when something does not
        answer, such as the directory's file system.
        """
        with awaited(self._root):
            return self._pass()

    def _pass(self) -> PassReport:
        is_new, head = self._head is None, self._head or self._opened()
        self._head = None  # after a failure the next pass opens the directory again, which repairs it
        self._at_step("W2")
        sources = self._source.tables()
        _require_same(head, sources)
        _require_owned(head, sources)
        if is_new:
            head = replace(head, tables=_told_whole(head.tables, sources))
            self._described(head.tables)
            if head.delta:
                _require_whole(head)
            if self._delta is not None and not head.delta:
                head = self._with_delta(head, self._delta)
        waiting = {source.topic for source in sources if not _is_loaded(head, source)}
        read_to = {place: each.read_to for place, each in head.positions.items() if place.topic in waiting}
        bounds = settled_bounds(lambda: self._source.bounds(sources), read_to, self._wait)
        tables, answers = self._run(head, sources, bounds)
        self._at_step("W4")
        now = self._source.tables()
        _require_same(head, now)  # a topic that was created again meanwhile may have been read
        going_on = {source.topic: source for source in now if not source.complete}
        complete = {source.topic for source in sources if source.complete}
        has_completed = any(source.complete and source.topic not in complete for source in now)
        is_unsure = has_completed or _is_unsure(head, answers, going_on)
        closed = _bound(answers, complete, head.closed)
        if is_unsure or closed <= head.closed:
            self._manifest.require_newest(head)  # what another loader has written is not ours to remove
            self._remove(head)
            self._head = head
            return PassReport(head.closed, more=is_unsure)
        files = [file for answer in answers for file in answer.files if file.bucket <= closed]
        self._head = self._commit(head, closed, tables, answers, files)
        return PassReport(
            closed,
            news=True,
            rows=sum(file.rows for file in files),
            files=len(files),
            repeats=sum(answer.repeats for answer in answers),
            more=any(answer.more or _has_stopped(answer, closed, going_on) for answer in answers),
        )

    def _opened(self) -> ManifestHead:
        """Read the head, and finish what an earlier pass has left (step W1). Without a head, store one."""
        self._at_step("W1")
        head = self._manifest.head()
        if head is None:
            head = self._begun()
        else:
            self._require_options(head)
            head = replace(head, number=head.number + 1)
        self._manifest.commit(head)
        if self._delta is not None and head.delta:
            self._delta.follow(head)
        self._remove(head)
        self._manifest.remove_pages(head)
        return head

    def _with_delta(self, head: ManifestHead, delta: DeltaTables) -> ManifestHead:
        """Begin Delta tables of a load that has had none. That cannot be undone, so it is first checked that
        it can be done.
        """
        _require_whole(head)
        delta.require(head)
        begun = replace(head, number=head.number + 1, delta=True)
        self._manifest.commit(begun)
        delta.follow(begun)
        return begun

    def _require_options(self, head: ManifestHead) -> None:
        if head.buckets != self._buckets:
            raise StateError(
                f"The tables in {self._root} have buckets of {head.buckets.length_ns / 1e9:g} s: load with"
                " that length, or into another directory."
            )
        if head.delta and self._delta is None:
            raise StateError(
                f"The tables in {self._root} are kept as Delta tables too, which would be left behind: load"
                " with --delta, or into another directory."
            )

    def _begun(self) -> ManifestHead:
        sources = self._source.tables()
        self._manifest.require_unused(
            directory(source.topic)
            for source in sources
            for directory in (changes_directory, current_directory)
        )
        columns = self._source.columns([source.topic for source in sources], {})
        tables = tuple(
            LoadedTable(
                each.topic,
                each.topic_id,
                each.partitions,
                each.feed,
                each.format,
                columns[each.topic],
                each.scanned,
            )
            for each in sources
        )
        starts = [self._buckets.of(source.start) for source in sources]
        before = self._buckets.before(min(starts))
        delta = self._delta is not None
        head = ManifestHead(uuid.uuid4().hex, self._buckets, max(starts), before, before, tables, delta)
        if self._delta is not None:
            _require_whole(head)
            self._delta.require(head)
        return head

    def _run(
        self, head: ManifestHead, sources: Sequence[SourceTable], bounds: Mapping[TopicPartition, Bounds]
    ) -> tuple[tuple[LoadedTable, ...], list[PartitionAnswer]]:
        """Read and write the rows (step W3), except for topics that are loaded to their end.

        If rows have members for which the tables have no column, all of it is done again with those columns.
        The descriptors are read after the rows, so they include the descriptors of these rows.
        """
        tables = head.tables
        for _ in range(_READ_AGAIN):
            tasks = [
                self._task(head, table, source, place, bounds[place])
                for table, source in zip(tables, sources, strict=True)
                if not _is_loaded(head, source)
                for place in table.places
            ]
            self._at_step("W3")
            answers = self._run_tasks(tasks)
            described = tables
            if any(answer.files or answer.unknown or answer.fault for answer in answers):
                described = self._described(tables)
            _require_no_fault(answers)
            unknown = {(answer.place.topic, name) for answer in answers for name in answer.unknown}
            if not unknown:
                return tables, answers
            tables = described
        topic, name = min(unknown)
        raise InputError(
            f"Rows of {topic} have a member {name}, and no descriptor in the log has a column of that name:"
            " is --topic-prefix that of the store's log?"
        )

    def _described(self, tables: Sequence[LoadedTable]) -> tuple[LoadedTable, ...]:
        """Return the tables with the columns that their descriptors have now.

        Raises ``InputError`` for a column or a primary key that is not what it was.
        """
        loaded = {table.topic: table.columns for table in tables}
        columns = self._source.columns(list(loaded), loaded)
        return tuple(
            replace(table, columns=table.columns.grown(columns[table.topic], table.topic)) for table in tables
        )

    def _task(
        self,
        head: ManifestHead,
        table: LoadedTable,
        source: SourceTable,
        place: TopicPartition,
        bounds: Bounds,
    ) -> LoadTask:
        position, records = head.position(place), self._records
        if bounds.low > position.offset:
            raise TopologyError(
                f"The records of {place} below offset {bounds.low} are deleted, and those from"
                f" {position.offset} on were not loaded yet: the tables would lack rows. They stay as they"
                f" are, closed at {Timestamp(head.closed)}. Begin a new load in another directory, from a new"
                " feed with an initial scan, and give its topics a longer retention."
            )
        if bounds.end < position.read_to:
            raise TopologyError(
                f"{place} ends at offset {bounds.end}, and was read to {position.read_to}: the topic was cut,"
                " as by a new leader that lacked its last records. The tables may have rows that it has lost,"
                " and other rows may get the offsets that were read. The tables stay as they are, closed at"
                f" {Timestamp(head.closed)}. Begin a new load in another directory, from a new feed with an"
                " initial scan."
            )
        if source.complete:  # nothing more comes, so the topic counts as if a marker stood at its end
            promised = Timestamp(head.buckets.of(source.start))
            position, records = replace(position, marker=max(position.marker, promised)), 0
        return LoadTask(
            source.reading,
            self._root,
            table,
            place,
            head.buckets,
            head.closed,
            position,
            bounds.end,
            records,
            source.term,
            source.start if source.complete else None,
        )

    def _commit(
        self,
        head: ManifestHead,
        closed: BucketEnd,
        tables: Sequence[LoadedTable],
        answers: Iterable[PartitionAnswer],
        files: Sequence[DataFile],
    ) -> ManifestHead:
        """Commit the bound with its files, bring Delta tables up to it, and tidy up (steps W5 to W8)."""
        positions = {**head.positions, **{answer.place: answer.position(closed) for answer in answers}}
        self._at_step("W5")
        if self._delta is not None and tables != head.tables:
            self._delta.require(replace(head, tables=tuple(tables)))
        self._require_files(head, files)
        pages = self._manifest.write_pages(head, files)
        self._at_step("W6")
        committed = advanced(head, closed, tables, positions, pages)
        self._manifest.commit(committed)
        self._at_step("W7")
        if self._delta is not None:
            self._delta.follow(committed)
        self._at_step("W8")
        self._remove(committed)
        self._manifest.remove_pages(committed, head)  # readers may still use the head before
        return committed

    def _require_files(self, head: ManifestHead, files: Sequence[DataFile]) -> None:
        """Raise ``StateError`` for a file that is not in the directory as its task has written it.

        Executors without a common mount write to their own disks. Another loader may also have removed the
        file.
        """
        root, filesystem = self._manifest.root, self._manifest.filesystem
        found = filesystem.get_file_info([f"{root}/{file.path}" for file in files])
        for file, info in zip(files, found, strict=True):
            if info.type != fs.FileType.File or info.size != file.bytes:
                self._manifest.require_newest(head)
                there = f"has {info.size} bytes" if info.type == fs.FileType.File else "is missing"
                raise StateError(
                    f"{info.path} {there} where the driver looks, and a task has written {file.bytes} bytes"
                    f" to it: the driver and the executors do not share {self._root}. Nothing of this pass is"
                    " in the tables. Load into a directory that every machine reaches by the same path, such"
                    " as a mount that they share, or into an object store."
                )

    def _remove(self, head: ManifestHead) -> None:
        """Remove files that tasks wrote since the commit before ``head``, and that ``head`` does not name."""
        since = day_of(head.before)
        topics = [table.topic for table in head.tables]
        named = self._manifest.files_of_days(head, since)
        remove_unnamed(self._manifest.filesystem, self._manifest.root, topics, since, named)


def run_here(tasks: Sequence[LoadTask]) -> list[PartitionAnswer]:
    """Run tasks in this process, one after the other."""
    return [load_partition(task) for task in tasks]


def _is_loaded(head: ManifestHead, source: SourceTable) -> bool:
    """Return whether a topic is loaded to its end. Its records now may be those of a later feed."""
    return source.complete and head.buckets.of(source.start) <= head.closed


def _bound(answers: Sequence[PartitionAnswer], complete: Set[str], before: BucketEnd) -> BucketEnd:
    """Return the last bucket that every partition has closed; ``before`` if there are no answers.

    Topics on which nothing more comes do not hold back other topics.
    """
    going_on = [answer.closed for answer in answers if answer.place.topic not in complete]
    return min(going_on) if going_on else max((answer.closed for answer in answers), default=before)


def _has_stopped(answer: PartitionAnswer, closed: BucketEnd, going_on: Mapping[str, SourceTable]) -> bool:
    """Return whether a later feed's marker keeps a partition from ever closing a bucket above ``closed``."""
    return answer.later is not None and answer.place.topic in going_on and answer.closed <= closed


def _is_unsure(
    head: ManifestHead, answers: Iterable[PartitionAnswer], going_on: Mapping[str, SourceTable]
) -> bool:
    """Return whether the answers do not count, since a feed ended, or was about to end, meanwhile.

    ``going_on`` has the topics as their feeds describe them after the answers. Raises ``InputError`` if a
    later feed has a topic and all buckets before that are closed.
    """
    for answer in answers:
        source = going_on.get(answer.place.topic)
        if source is None:
            continue
        if source.term.is_later(answer.marker):
            return True
        if answer.later is None or not _has_stopped(answer, head.closed, going_on):
            continue
        if not source.term.is_later(answer.later):
            return True
        raise InputError(
            f"Feed {source.feed} has ended, and is complete up to {source.term.end}. The marker at offset"
            f" {answer.read_to} of {answer.place} is at {answer.later}: a later feed has the topic. No feed"
            f" has written the changes between the two, so the tables stay closed at"
            f" {Timestamp(head.closed)}. Load the later feed into another directory."
        )
    return False


def _require_no_fault(answers: Iterable[PartitionAnswer]) -> None:
    faults = [answer.fault for answer in answers if answer.fault]
    if faults:
        raise InputError(min(faults))


def _told_whole(tables: Sequence[LoadedTable], sources: Sequence[SourceTable]) -> tuple[LoadedTable, ...]:
    """Return the tables, and say in each if its feed began with a scan: heads of version 1 do not."""
    return tuple(replace(table, whole=source.scanned) for table, source in zip(tables, sources, strict=True))


def _require_whole(head: ManifestHead) -> None:
    """Raise ``InputError`` if there would be a Delta table of current rows that lacks rows."""
    for table in head.tables:
        if not table.whole:
            raise InputError(
                f"Feed {table.feed} of {table.topic} began without a scan, so its rows that have not changed"
                " since are missing, and --delta keeps a table of current rows. Load its changes without"
                " --delta, or load a feed WITH initial_scan, into another directory."
            )


def _require_same(head: ManifestHead, sources: Sequence[SourceTable]) -> None:
    known = {table.topic: table for table in head.tables}
    if [source.topic for source in sources] != [table.topic for table in head.tables]:
        raise StateError(
            f"This directory holds tables of {', '.join(known)}, and not of"
            f" {', '.join(source.topic for source in sources)}: load the same feeds into it, or these into"
            " another."
        )
    for source in sources:
        table = known[source.topic]
        if source.feed != table.feed:
            raise StateError(
                f"{source.topic} was loaded from the feed {table.feed}, and not from {source.feed}, which has"
                " positions of its own: load that one into another directory."
            )
        if (source.topic_id, source.partitions) != (table.topic_id, table.partitions):
            raise TopologyError(
                f"The topic {source.topic} is not the one that this directory was loaded from: it was created"
                " again, or has other partitions. The tables stay as they are; load what it has now into"
                " another directory."
            )


def _require_owned(head: ManifestHead, sources: Sequence[SourceTable]) -> None:
    """Raise ``StateError`` for tables with buckets of a later feed, as earlier versions loaded them."""
    for table, source in zip(head.tables, sources, strict=True):
        for place in table.places:
            marker = head.position(place).marker
            if not source.complete and source.term.is_later(marker):
                raise StateError(
                    f"Feed {source.feed} has ended, and is complete up to {source.term.end}, but {place} was"
                    f" loaded up to the marker {marker}, which a later feed has written: the tables may lack"
                    " changes between the two. Load the later feed into another directory."
                )
