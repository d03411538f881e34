"""Gives committed versions to a kernel, and to Python what the kernel refuses.

It takes the place of ``PartitionRows.decode`` and ``Emitter.emit`` for live versions. A feed gets the same
records in the same order, and fails at the same row with the same words: only Python makes errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import EncodingError, StateError, brief
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import StepResult
from tidegate.processor.feeds.feed_kernels import FeedKernels, version_plans
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.kernels import Kernel, Kernels
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.plan_credit import PlanCredit
from tidegate.processor.feeds.row_kernel import FeedRecords, TablePlan, Taken
from tidegate.processor.feeds.taken_versions import (
    FeedEmission,
    RowByPython,
    TakenVersions,
    joined_taken,
    merged,
    woven,
)
from tidegate.processor.feeds.version_rows import Decoded, PartitionRows, table_of
from tidegate.processor.feeds.written_versions import WrittenRows, WrittenVersions
from tidegate.processor.written_records import joined
from tidegate.ranges.version import Version
from tidegate.rows import table_id_of


class BatchEmission(NamedTuple):
    """The records of a batch, by feed, and the highest timestamp of each table's versions in it."""

    feeds: list[FeedEmission]
    highs: dict[int, Timestamp]

    def raise_highs(self, rows: PartitionRows) -> None:
        """Raise the tables' highest timestamps in ``rows`` to those of the versions of this batch."""
        for table_id, high in self.highs.items():
            rows.raise_high(table_id, high)


class _Planned(NamedTuple):
    """The versions and feeds that a plan was made of. Each change of a feed makes new lists of feeds."""

    versions: int
    receivers: Sequence[PartitionFeed]
    active: Sequence[PartitionFeed]

    def is_same(self, other: _Planned) -> bool:
        """Whether no descriptor was learnt, and no feed has changed, between the two."""
        return self.versions == other.versions and self.is_for_the_feeds_of(other)

    def is_for_the_feeds_of(self, other: _Planned) -> bool:
        """Whether no feed has changed between the two."""
        return self.receivers is other.receivers and self.active is other.active


class KernelRows:
    """Emits live versions by a kernel. The kernel is opened with the first batch, and gets a new plan with
    each change.
    """

    def __init__(self, kernels: Kernels, rows: PartitionRows, feeds: PartitionFeeds) -> None:
        self._kernels = kernels
        self._rows = rows
        self._feeds = feeds
        self._kernel: Kernel | None = None
        self._is_open = False
        self.credit = PlanCredit()
        #: The kernels of feeds that catch up.
        self.of_feeds = FeedKernels(kernels, rows, feeds, self.credit)
        self._planned = _Planned(0, (), ())
        self._is_useful = False
        #: Rises with each plan that the kernel is told.
        self.plan_number = 0

    @property
    def checks(self) -> bool:
        """Whether Python makes every record as well, and both are compared."""
        return self._kernels.checks

    def emit(self, receivers: Sequence[PartitionFeed], versions: Sequence[Version]) -> BatchEmission | None:
        """Return the rows of the versions for the receivers; ``None`` if Python has to take all versions.

        The call has one side effect: the highest timestamps of tables rise to those of the versions that the
        kernel refused.
        """
        taken = self._taken(receivers, versions)
        if taken is None:
            return None
        return self._emission(receivers, taken, [versions[number] for number in taken.refused])

    def make_shared_records(
        self, receivers: Sequence[PartitionFeed], versions: Sequence[Version], written: Sequence[WrittenRows]
    ) -> TakenVersions | None:
        """Return the kernel's records of versions that go to some feeds only; ``None`` as for `emit`.

        Rows that are ``written`` already are taken as they are, if they are of the present plan.
        """
        kernel = self.ready(receivers)
        if kernel is None or not self._is_useful:
            return None
        valid = [each for each in written if each.plan == self.plan_number]
        parts = [(each.first, each.rows) for each in valid]
        begins, ends = [0, *(each.end for each in valid)], [*(each.first for each in valid), len(versions)]
        for begin, end in zip(begins, ends, strict=True):
            if begin < end:
                taken = kernel.make_records(versions[begin:end])
                if taken is None:
                    return None
                parts.append((begin, taken))
        return TakenVersions(receivers, versions, joined_taken(sorted(parts, key=itemgetter(0))))

    def emit_all(self, feeds: Sequence[PartitionFeed], taken: TakenVersions) -> BatchEmission:
        """Return the records that all taken versions give to some of their receivers."""
        return self._emission(feeds, taken.of(feeds), taken.refused)

    def emit_some(
        self,
        feed: PartitionFeed,
        taken: TakenVersions | None,
        versions: Sequence[Version],
        *,
        is_first: bool,
    ) -> BatchEmission | None:
        """Return the records that ``versions`` give to a parted feed: taken versions and others, in order.

        ``is_first``: nobody was given the taken versions before, so their highest timestamps are not told
        yet; those of the feed's own tables are told here. ``None``: Python has to take all versions.
        """
        others = [
            (place, version)
            for place, version in enumerate(versions)
            if taken is None or not taken.has(version)
        ]
        ours = self.of_feeds.make_records(feed, [version for _, version in others]) if others else None
        if taken is None and ours is None:
            return None
        given = FeedRecords([], [], []) if taken is None else taken.given(feed, versions)
        highs = self._highs(feed, filter(taken.has, versions)) if taken is not None and is_first else {}
        if ours is not None:
            records, unframed, numbers = ours.feeds.get(0) or FeedRecords([], [], [])
            given = woven(given, FeedRecords(records, unframed, [others[number][0] for number in numbers]))
            for table_id, high in ours.highs.items():
                highs[table_id] = max(highs.get(table_id, ZERO), high)
            others = [others[number] for number in ours.refused]
        previous = feed.table_ids if feed.shows_previous else frozenset[int]()
        rows = self._rows.decode(
            [version for _, version in others], feed.table_ids, previous, self._feeds.starts
        )
        refused = [RowByPython(*other, row) for other, row in zip(others, rows, strict=True)]
        return BatchEmission([merged(feed, given, refused)], highs)

    def emit_scanned(
        self, feed: PartitionFeed, versions: Sequence[Version], scanned_at: Timestamp
    ) -> BatchEmission | None:
        """Return the records that versions give to a feed whose initial scan found them at ``scanned_at``.

        ``None`` is as for `emit`.
        """
        taken = self.of_feeds.make_records(feed, versions, scanned_at)
        if taken is None:
            return None
        refused = [versions[place] for place in taken.refused]
        rows = self._rows.decode(refused, feed.table_ids, scanned_at=scanned_at)
        by_python = list(map(RowByPython, taken.refused, refused, rows))
        given = taken.feeds.get(0) or FeedRecords([], [], [])
        emitted = merged(feed, given, by_python, scanned=True)
        return BatchEmission([emitted], dict.fromkeys(taken.highs, scanned_at))

    def _highs(self, feed: PartitionFeed, versions: Iterable[Version]) -> dict[int, Timestamp]:
        """Return, for each table of the feed, the highest timestamp of the ``versions`` that any feed wants.

        These are the versions above the lowest start of the table's feeds. A table without such a version is
        left out.
        """
        starts, highs = self._feeds.starts.rows, dict[int, Timestamp]()
        for version in versions:
            table_id = None if version.omit_in_rangefeeds else _table_of(version)
            if table_id is None or table_id not in feed.table_ids:
                continue
            if version.timestamp > max(starts.get(table_id, ZERO), highs.get(table_id, ZERO)):
                highs[table_id] = version.timestamp
        return highs

    def _taken(self, receivers: Sequence[PartitionFeed], versions: Sequence[Version]) -> Taken | None:
        kernel = self.ready(receivers)
        return kernel.make_records(versions) if kernel is not None and self._is_useful else None

    def emit_written(
        self,
        receivers: Sequence[PartitionFeed],
        written: Sequence[WrittenVersions],
        shared: Sequence[Version],
    ) -> BatchEmission | None:
        """Return what written versions, and then shared ones, give to the receivers.

        ``None``: Python has to take all of them. Then receivers or descriptors are not those for which the
        rows were written, or the kernel broke.
        """
        joined: dict[FeedId, FeedEmission] = {}
        highs: dict[int, Timestamp] = {}
        for emitted in self._emissions(receivers, written, shared):
            if emitted is None:
                return None
            for more in emitted.feeds:
                before = joined.get(more.feed.id)
                joined[more.feed.id] = more if before is None else _continued(before, more)
            for table_id, high in emitted.highs.items():
                highs[table_id] = max(highs.get(table_id, ZERO), high)
        return BatchEmission([joined[feed.id] for feed in receivers if feed.id in joined], highs)

    def _emissions(
        self,
        receivers: Sequence[PartitionFeed],
        written: Sequence[WrittenVersions],
        shared: Sequence[Version],
    ) -> Iterator[BatchEmission | None]:
        if self.ready(receivers) is None:
            yield None
            return
        for each in written:
            if each.before:
                yield self.emit(receivers, each.before)
            is_valid = each.plan == self.plan_number
            yield self._emission(receivers, each.rows, each.at(each.rows.refused)) if is_valid else None
        if shared:
            yield self.emit(receivers, shared)

    def _emission(
        self, receivers: Sequence[PartitionFeed], taken: Taken, refused: Sequence[Version]
    ) -> BatchEmission:
        """Return what a kernel has taken, and what Python makes of the versions that it refused.

        A feed that is given nothing is left out, unless a refused version of a table of it is not above its
        start.
        """
        feeds = self._feeds
        rows = self._rows.decode(refused, feeds.wanted_tables, feeds.wanted_previous, feeds.starts)
        by_table = _by_table(zip(taken.refused, refused, rows, strict=True))
        found: list[FeedEmission] = []
        for number in range(len(receivers)) if by_table else sorted(taken.feeds):
            feed, given = receivers[number], taken.feeds.get(number)
            by_python = _of_feed(feed, by_table)
            if given is not None or by_python:
                found.append(merged(feed, given or FeedRecords([], [], []), by_python))
        return BatchEmission(found, taken.highs)

    @contextmanager
    def compared(self, emitted: BatchEmission, result: StepResult) -> Iterator[None]:
        """Compare what Python puts into ``result`` meanwhile with ``emitted``.

        Raises ``StateError`` for any difference: the process ends, and what differs is not written.
        """
        before = {feed_id: (len(records), 0) for feed_id, records in result.outputs.items()}
        for feed_id, unframed in result.unframed.items():
            before[feed_id] = before.get(feed_id, (0, 0))[0], len(unframed)
        highs, active = dict(self._rows.highs), self._feeds.active
        yield
        ours = {emission.feed.id: emission for emission in emitted.feeds}
        for feed in (*active, *(each.feed for each in emitted.feeds if each.feed not in active)):
            _, records, unframed, error = ours.get(feed.id) or FeedEmission(feed, [], [], None)
            outputs, others = before.get(feed.id, (0, 0))
            _require_equal(feed.id, "records", records, result.outputs.get(feed.id, [])[outputs:])
            _require_equal(
                feed.id, "records without ids", unframed, result.unframed.get(feed.id, [])[others:]
            )
            _require_equal(feed.id, "failures", [brief(str(error)) if error else ""], [feed.reason])
        for table_id, high in emitted.highs.items():
            highs[table_id] = max(highs.get(table_id, ZERO), high)
        _require_equal("", "highest timestamps", sorted(highs.items()), sorted(self._rows.highs.items()))

    def ready(self, receivers: Sequence[PartitionFeed]) -> Kernel | None:
        """Return the kernel with a plan for these receivers.

        Returns ``None`` if there is no kernel, or no descriptor, or no credit for the plan that a new
        descriptor asks for. The kernel follows the log even if it can write nothing for these receivers.
        """
        if not self._is_open:
            self._is_open = True
            self._kernel = self._kernels.open()
        if self._kernel is None or not self._rows.versions:
            return None
        planned = _Planned(self._rows.versions, receivers, self._feeds.active)
        if planned.is_for_the_feeds_of(self._planned) and not self._is_news(self._planned.versions):
            self._planned = planned
        elif not planned.is_same(self._planned):
            if not self._may_plan(planned):
                return None
            self._planned = planned
            self.plan_number += 1
            self._is_useful = self._kernel.plan(list(self._tables(receivers)))
        return self._kernel

    def _is_news(self, known: int) -> bool:
        """Whether any descriptor that was learnt after the first ``known`` ones is of a wanted table."""
        return self._rows.learnt_since(self._feeds.wanted_tables, known)

    def _may_plan(self, planned: _Planned) -> bool:
        lanes = sum(map(self._rows.catalog.count, self._feeds.wanted_tables))
        for emitter in (feed.emitter for feed in planned.receivers if feed.emitter is not None):
            lanes += sum(map(self._rows.catalog.count, emitter.destinations))
        if planned.is_for_the_feeds_of(self._planned):
            return self.credit.pays(lanes)
        self.credit.grant(lanes)
        return True

    def _tables(self, receivers: Sequence[PartitionFeed]) -> Iterator[TablePlan]:
        starts = self._feeds.starts.rows
        for table_id in sorted(self._feeds.wanted_tables) if receivers else ():
            versions = version_plans(self._rows, table_id, receivers)
            yield TablePlan(table_id, starts.get(table_id, ZERO), versions)


def _by_table(refused: Iterable[tuple[int, Version, Decoded]]) -> Mapping[int, list[RowByPython]]:
    """Return the refused versions that have rows, by their tables."""
    found: dict[int, list[RowByPython]] = {}
    for place, version, row in refused:
        if row is not None:
            found.setdefault(table_of(row), []).append(RowByPython(place, version, row))
    return found


def _of_feed(feed: PartitionFeed, by_table: Mapping[int, list[RowByPython]]) -> list[RowByPython]:
    """Return the refused versions of the feed's tables, in the order of the log."""
    if feed.emitter is None or not by_table:
        return []
    found = [by_table[table_id] for table_id in feed.emitter.destinations if table_id in by_table]
    return found[0] if len(found) == 1 else sorted(chain.from_iterable(found), key=_place)


def _place(row: RowByPython) -> int:
    return row.place


def _table_of(version: Version) -> int | None:
    try:
        return table_id_of(version.key)
    except EncodingError:
        return None  # it is not a table's key, but the store's own data


def _continued(before: FeedEmission, more: FeedEmission) -> FeedEmission:
    """Return the emission of a feed with what follows, unless the feed has failed before that."""
    if before.error is not None:
        return before
    before.unframed.extend(more.unframed)
    return before._replace(records=joined(before.records, more.records), error=more.error)


def _require_equal(feed_id: str, what: str, ours: Sequence[object], reference: Sequence[object]) -> None:
    if ours != reference:
        pairs = enumerate(zip(ours, reference, strict=False))
        at = next((at for at, (one, other) in pairs if one != other), min(len(ours), len(reference)))
        shown = [repr(each[at])[:500] if at < len(each) else "nothing" for each in (ours, reference)]
        raise StateError(
            f"the kernel and Python differ in {what} of feed {feed_id!r}, at {at} of {len(reference)}: "
            f"{shown[0]} by the kernel, {shown[1]} by Python. This is a defect: set TIDEGATE_KERNEL=off, "
            "and please report it"
        )
