"""Kernels that each write the rows of a single feed: the versions that its scans have brought.

The kernel of the partition writes each version for all feeds that want it. But the versions of a scan are
given to one feed only. So while a feed catches up, it has a kernel of its own, with a plan for this feed
alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterator, Sequence
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.encoder import as_named, row_templates
from tidegate.errors import FeedError
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.kernels import Kernel, Kernels
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.plan_credit import PlanCredit
from tidegate.processor.feeds.row_kernel import LanePlan, TablePlan, Taken, VersionPlan
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.ranges.version import Version
from tidegate.rows import TableDescriptor

#: The most kernels of a partition. To make room for one more, the kernel whose versions came longest ago is
#: given up. A feed may have two: for its initial scan, and for what was held meanwhile.
_KERNELS_MAX: Final = 4
#: If there are fewer versions than this, Python takes them: a kernel costs about a millisecond before its
#: first row.
_FEW: Final = 32
#: A time before all versions.
_NEVER: Final = Timestamp(-1)


class _Planned(NamedTuple):
    """A kernel, and what its plan was made of. The list of active feeds is made anew with each change."""

    kernel: Kernel
    versions: int
    active: Sequence[PartitionFeed]
    is_useful: bool


class FeedKernels:
    """The kernels of the feeds that catch up."""

    def __init__(
        self, kernels: Kernels, rows: PartitionRows, feeds: PartitionFeeds, credit: PlanCredit
    ) -> None:
        self._kernels = kernels
        self._credit = credit
        self._rows = rows
        self._feeds = feeds
        #: If there are fewer versions than this, Python takes them.
        self.least = 1 if kernels.checks else _FEW
        self._planned: OrderedDict[tuple[FeedId, Timestamp | None], _Planned] = OrderedDict()

    def make_records(
        self, feed: PartitionFeed, versions: Sequence[Version], scanned_at: Timestamp | None = None
    ) -> Taken | None:
        """Return what a kernel makes of versions that only one feed is given. ``None``: Python takes all.

        ``scanned_at`` is the time of the initial scan that found them: the descriptor of that time reads
        them, wherever the feed starts. Versions that their writer wanted omitted from feeds are written too.
        """
        if len(versions) < self.least:
            return None
        planned = self._ready(feed, scanned_at)
        if planned is None or not planned.is_useful:
            return None
        if scanned_at is not None:
            versions = [
                each._replace(omit_in_rangefeeds=False) if each.omit_in_rangefeeds else each
                for each in versions
            ]
        return planned.kernel.make_records(versions)

    def keep(self, feeds: Container[FeedId]) -> None:
        """Give up the kernels of all feeds but ``feeds``, and their memory: those feeds miss no versions any
        more.
        """
        for key in [key for key in self._planned if key[0] not in feeds]:
            del self._planned[key]

    def _ready(self, feed: PartitionFeed, scanned_at: Timestamp | None) -> _Planned | None:
        """Return a kernel with a plan for the feed; ``None`` if this process has no kernel, or there is no
        credit for the plan.
        """
        key = feed.id, scanned_at
        known = self._planned.get(key)
        versions, active = self._rows.versions, self._feeds.active
        if known is not None and not self._rows.learnt_since(feed.table_ids, known.versions):
            known = known._replace(versions=versions)
        if known is None or known.versions != versions or known.active is not active:
            counts = map(self._rows.catalog.count, feed.table_ids)
            lanes = len(feed.table_ids) if scanned_at is not None else sum(counts)
            if not self._credit.pays(lanes):
                return None
            kernel = self._new_kernel() if known is None else known.kernel
            if kernel is None:
                return None
            tables = self._live(feed) if scanned_at is None else self._scanned(feed, scanned_at)
            known = _Planned(kernel, versions, active, kernel.plan(list(tables)))
        self._planned[key] = known
        self._planned.move_to_end(key)
        return known

    def _new_kernel(self) -> Kernel | None:
        while len(self._planned) >= _KERNELS_MAX:
            self._planned.popitem(last=False)
        return self._kernels.open()

    def _live(self, feed: PartitionFeed) -> Iterator[TablePlan]:
        starts = self._feeds.starts.rows
        for table_id in sorted(feed.table_ids):
            plans = version_plans(self._rows, table_id, [feed])
            yield TablePlan(table_id, starts.get(table_id, ZERO), plans)

    def _scanned(self, feed: PartitionFeed, at: Timestamp) -> Iterator[TablePlan]:
        for table_id in sorted(feed.table_ids):
            try:
                table = self._rows.version_at(table_id, at)
            except FeedError:
                plans: tuple[VersionPlan, ...] = ()  # each row fails the feed, in Python's words
            else:
                plans = (version_plan(table, _NEVER, [feed], at),)
            yield TablePlan(table_id, _NEVER, plans)


def version_plans(
    rows: PartitionRows, table_id: int, receivers: Sequence[PartitionFeed]
) -> tuple[VersionPlan, ...]:
    """Return the plans of all versions of a table. Rows of a refused one fail feeds, in Python's words."""
    return tuple(
        version_plan(table, since, receivers) if is_read else VersionPlan(table, since, None)
        for table, since, is_read in rows.read_by(table_id)
    )


def version_plan(
    table: TableDescriptor,
    since: Timestamp,
    receivers: Sequence[PartitionFeed],
    scanned_at: Timestamp | None = None,
) -> VersionPlan:
    """Return the plan of a table version whose rows these feeds are given.

    The version governs rows from ``since`` on. ``scanned_at`` is the time of the initial scan that finds the
    rows, if one does.
    """
    lanes: list[LanePlan] = []
    for number, feed in enumerate(receivers):
        emitter = feed.emitter
        if emitter is None or table.id not in emitter.destinations:
            continue
        named = as_named(table, emitter.destinations[table.id].name)
        try:
            templates = row_templates(named, emitter.options)
        except Exception:
            templates = None  # the first row fails the feed, in Python's words
        if templates is None:
            return VersionPlan(table, since, None)
        start = emitter.start
        if scanned_at is not None:
            templates, start = templates.of_scan(), ZERO
        lanes.append(LanePlan(number, start, emitter.destinations[table.id], templates, scanned_at))
    return VersionPlan(table, since, tuple(lanes))
