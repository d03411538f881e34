"""A partition's stage of rows with a plain kernel, and two tables and three feeds for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandTable, at, update_of
from tests.unit.processor.schemed import schemas_for, schemed_options
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import LogRecord, OutputRecord, SchemedTopic, UnframedRecord
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.kernel_rows import BatchEmission, KernelRows
from tidegate.processor.feeds.kernels import Kernel
from tidegate.processor.feeds.log_kernel import Followed, LogState, Named
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.row_kernel import FeedRecords, TablePlan, Taken
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.feeds.written_versions import WrittenVersions
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.version import Version
from tidegate.rows import table_id_of

TABLE: Final = HandTable.of(104, "t")
OTHER: Final = HandTable.of(105, "other")
TABLES: Final = (TABLE, OTHER)


class NoLogKernel:
    """The part of a kernel that reads logs. It takes none."""

    def read(self, records: Sequence[LogRecord]) -> Named | None:
        return None

    def follow(self, state: LogState) -> Followed | None:
        return None

    def versions(self) -> Sequence[Version] | None:
        return None


class PlainKernel(NoLogKernel):
    """A kernel that keeps to its plan. It refuses the versions with some raft indexes."""

    def __init__(self) -> None:
        self.plans: list[Sequence[TablePlan]] = []
        self.refuses: frozenset[int] = frozenset()
        self.is_useful = True
        self.is_broken = False
        #: The raft indexes of the versions that it was given, call by call.
        self.given: list[list[int]] = []

    def plan(self, tables: Sequence[TablePlan]) -> bool:
        self.plans.append(tables)
        return self.is_useful

    def make_records(self, versions: Sequence[Version]) -> Taken | None:
        self.given.append([version.raft_index for version in versions])
        if self.is_broken:
            return None
        tables = {table.table_id: table for table in self.plans[-1]}
        feeds, refused, highs = dict[int, FeedRecords](), list[int](), dict[int, Timestamp]()
        for place, version in enumerate(versions):
            table = None if version.key[:1] == b"\2" else tables.get(table_id_of(version.key))
            if table is None or version.timestamp <= table.start or version.omit_in_rangefeeds:
                continue
            lanes = None
            for each in table.versions:
                lanes = each.lanes if each.since <= version.timestamp else lanes
            if version.raft_index in self.refuses or lanes is None:
                refused.append(place)
                continue
            highs[table.table_id] = max(version.timestamp, highs.get(table.table_id, ZERO))
            for lane in lanes:
                if version.timestamp > lane.start:
                    records, _, numbers = feeds.setdefault(lane.feed, FeedRecords([], [], []))
                    assert isinstance(records, list)
                    records.append(by_kernel(lane.to.topic, version.raft_index))
                    numbers.append(place)
        return Taken(feeds, refused, highs)


def by_kernel(topic: str, number: int) -> OutputRecord:
    return OutputRecord(topic, 0, b"[%d]" % number, b"by the kernel", 0, [])


class Opener:
    """Opens a kernel for the partition first, and then others for single feeds."""

    def __init__(self, *, checks: bool = True) -> None:
        self.checks = checks
        self.opened: list[PlainKernel] = []
        self.refuses: frozenset[int] = frozenset()
        self.has_none = False

    def open(self) -> Kernel | None:
        if self.has_none:
            return None
        self.opened.append(PlainKernel())
        self.opened[-1].refuses = self.refuses
        return self.opened[-1]


class Stage:
    """The stage of a partition with two tables and some feeds."""

    def __init__(self, refuses: Iterable[int] = (), *, checks: bool = True) -> None:
        self.rows, self.feeds = PartitionRows(), PartitionFeeds(0)
        for table in TABLES:
            self.rows.learn(update_of(table.descriptor))
        self.kernels = Opener(checks=checks)
        self.kernels.refuses = frozenset(refuses)
        self.stage = KernelRows(self.kernels, self.rows, self.feeds)

    def begin(
        self, name: str, tables: Sequence[HandTable], start: float = 0, options: FeedOptions = WITH_MARKERS
    ) -> PartitionFeed:
        descriptors = [table.descriptor for table in tables]
        message = activation(descriptors, options, start=at(start), feed_id=name)
        feed = PartitionFeed(message, None)
        feed.activate(message)
        self.feeds.answer(feed)
        return feed

    @property
    def kernel(self) -> PlainKernel:
        return self.kernels.opened[0]

    def highs(self, emitted: BatchEmission) -> dict[int, Timestamp]:
        emitted.raise_highs(self.rows)
        return dict(self.rows.highs)


def three_feeds(stage: Stage) -> list[PartitionFeed]:
    return [
        stage.begin("t", [TABLE], 2),
        stage.begin("other", [OTHER]),
        stage.begin("both", [OTHER, TABLE], 4),
    ]


class Written(NamedTuple):
    """A version of a table: of a row, or of the store's own data."""

    table: int
    seconds: int
    omitted: bool = False

    def version(self, number: int) -> Version:
        """The version with this raft index; its row has that id."""
        key, value = TABLES[self.table % 2].pair(number, "v")
        if self.table > 1:
            key = b"\2own"
        return Version(key, at(self.seconds), value, None, self.omitted, RangeId(7), RaftIndex(number), 0)

    def is_of(self, feed: PartitionFeed) -> bool:
        """Whether a feed is given it live."""
        wanted = self.table < 2 and 104 + self.table in feed.table_ids
        return wanted and not self.omitted and at(self.seconds) > feed.start


def unframed(number: int) -> UnframedRecord:
    to = SchemedTopic("t", 1, schemas_for(TABLE.descriptor, schemed_options()))
    return UnframedRecord(to, b"%d" % number, b"", 0, [])


class _Log(NamedTuple):
    """Written versions, as commands of a log, and where each version stands in it."""

    records: Sequence[LogRecord]
    places: list[tuple[int, int]]

    @classmethod
    def of(cls, written: Sequence[Written], first: int) -> _Log:
        """Two versions of each command, each with its number as row id."""
        log = HandLog(1)
        opened = log.open_range(7, TABLE.span)
        opened.index = first - 1
        ops = [
            TABLES[each.table].put(each.seconds, number, "v") for number, each in enumerate(written, first)
        ]
        for begin in range(0, len(ops), 2):
            opened.apply(*ops[begin : begin + 2])
        return cls(log.partitions[0], [(1 + number // 2, number % 2) for number in range(len(ops))])


def written_versions(
    stage: Stage, written: Sequence[Written], refused: Sequence[int], before: list[Version]
) -> WrittenVersions:
    """Rows that a kernel has written when it followed the log; it refused those at some places."""
    log = _Log.of(written, 1)
    feeds: dict[int, FeedRecords] = {}
    for number, feed in enumerate(stage.feeds.live):
        mine = [at for at, each in enumerate(written) if at not in refused and each.is_of(feed)]
        if mine:
            records = [by_kernel("t", 1 + at) for at in mine]
            feeds[number] = FeedRecords(records, [], mine)
    high = max(each.seconds for each in written)
    taken = Taken(feeds, [*refused], {104: at(high)})
    return WrittenVersions(log.records, log.places, taken, at(high), stage.stage.plan_number, before)
