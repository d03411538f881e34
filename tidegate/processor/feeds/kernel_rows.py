"""Gives committed versions to a kernel, and to Python what the kernel refuses.

It takes the place of ``PartitionRows.decode`` and ``Emitter.emit`` for live versions. A feed gets the same
records in the same order, and fails at the same row with the same words: errors are Python's alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tidegate.changefeed.encoding.encoder import row_templates
from tidegate.errors import FeedError, StateError, brief
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import OutputRecord, StepResult, UnframedRecord
from tidegate.processor.feeds.emitter import Emission
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.kernels import Kernel, Kernels
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.row_kernel import (
    FeedRecords,
    LanePlan,
    TablePlan,
    Taken,
    VersionPlan,
)
from tidegate.processor.feeds.version_rows import Decoded, PartitionRows
from tidegate.processor.feeds.written_versions import WrittenVersions
from tidegate.processor.written_records import joined
from tidegate.ranges.version import Version
from tidegate.rows import TableDescriptor


class FeedEmission(NamedTuple):
    """What a feed emits of a batch, and the error at which it stopped."""

    feed: PartitionFeed
    records: Sequence[OutputRecord]
    unframed: list[UnframedRecord]
    error: FeedError | None


class BatchEmission(NamedTuple):
    """What a batch gives, by feed, and the highest timestamp of each table's versions in it."""

    feeds: list[FeedEmission]
    highs: dict[int, Timestamp]

    def raise_highs(self, rows: PartitionRows) -> None:
        """Tell the partition's rows which versions the kernel has read."""
        for table_id, high in self.highs.items():
            rows.raise_high(table_id, high)


class KernelRows:
    """Emits live versions by a kernel that is opened with the first batch, and told of each change."""

    def __init__(self, kernels: Kernels, rows: PartitionRows, feeds: PartitionFeeds) -> None:
        self._kernels = kernels
        self._rows = rows
        self._feeds = feeds
        self._kernel: Kernel | None = None
        self._is_open = False
        self._planned: tuple[object, ...] = ()
        self._active: Sequence[PartitionFeed] = ()
        self._is_useful = False
        #: Rises with each plan that the kernel is told.
        self.plan_number = 0

    @property
    def checks(self) -> bool:
        """Whether Python makes every record as well, and both are compared."""
        return self._kernels.checks

    def emit(self, receivers: Sequence[PartitionFeed], versions: Sequence[Version]) -> BatchEmission | None:
        """Return the rows of the versions for the receivers; ``None`` if Python has to take all versions.

        This changes nothing but the highs of refused versions.
        """
        kernel = self.ready(receivers)
        taken = None if kernel is None else kernel.take(versions)
        if taken is None:
            return None
        return self._emission(receivers, taken, [versions[number] for number in taken.refused])

    def emit_written(
        self,
        receivers: Sequence[PartitionFeed],
        written: Sequence[WrittenVersions],
        shared: Sequence[Version],
    ) -> BatchEmission | None:
        """Return what written versions, and then shared ones, give to the receivers.

        ``None``: Python has to take all of them. Receivers or descriptors are others than those for which the
        rows were written, or the kernel broke.
        """
        joined = [FeedEmission(feed, [], [], None) for feed in receivers]
        highs: dict[int, Timestamp] = {}
        for emitted in self._emissions(receivers, written, shared):
            if emitted is None:
                return None
            joined = [_continued(*pair) for pair in zip(joined, emitted.feeds, strict=True)]
            for table_id, high in emitted.highs.items():
                highs[table_id] = max(highs.get(table_id, ZERO), high)
        return BatchEmission(joined, highs)

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
        """Return what a kernel has taken, and what Python makes of the versions that it refused."""
        feeds = self._feeds
        rows = self._rows.decode(refused, feeds.wanted_tables, feeds.wanted_previous, feeds.starts)
        by_feed = zip(receivers, taken.feeds, strict=True)
        emitted = [_merged(feed, records, taken, refused, rows) for feed, records in by_feed]
        return BatchEmission(emitted, taken.highs)

    @contextmanager
    def compared(self, emitted: BatchEmission, result: StepResult) -> Iterator[None]:
        """Compare what Python puts into ``result`` meanwhile with ``emitted``.

        Raises ``StateError`` for any difference: the process ends, and what differs is not written.
        """
        before = {feed_id: (len(records), 0) for feed_id, records in result.outputs.items()}
        for feed_id, unframed in result.unframed.items():
            before[feed_id] = before.get(feed_id, (0, 0))[0], len(unframed)
        highs = dict(self._rows.highs)
        yield
        for feed, records, unframed, error in emitted.feeds:
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
        """Return the kernel with a plan for these receivers; ``None`` if it can write nothing for them."""
        if not self._is_open:
            self._is_open = True
            self._kernel = self._kernels.open()
        if self._kernel is None or not self._rows.versions:
            return None
        planned = (self._rows.versions, *((feed.id, feed.epoch) for feed in receivers))
        if planned != self._planned or self._active is not self._feeds.active:
            self._planned, self._active = planned, self._feeds.active
            self.plan_number += 1
            self._is_useful = self._kernel.plan(list(self._tables(receivers)), len(receivers))
        return self._kernel if self._is_useful else None

    def _tables(self, receivers: Sequence[PartitionFeed]) -> Iterator[TablePlan]:
        starts = self._feeds.starts.rows
        for table_id in sorted(self._feeds.wanted_tables):
            versions = tuple(
                _version_plan(table, receivers) for table in self._rows.catalog.versions(table_id)
            )
            yield TablePlan(table_id, starts.get(table_id, ZERO), versions)


def _version_plan(table: TableDescriptor, receivers: Sequence[PartitionFeed]) -> VersionPlan:
    lanes: list[LanePlan] = []
    for number, feed in enumerate(receivers):
        emitter = feed.emitter
        if emitter is None or table.id not in emitter.destinations:
            continue
        try:
            templates = row_templates(table, emitter.options)
        except Exception:
            templates = None  # the first row fails the feed, in Python's words
        if templates is None:
            return VersionPlan(table, None)
        lanes.append(LanePlan(number, emitter.start, emitter.destinations[table.id], templates))
    return VersionPlan(table, tuple(lanes))


def _continued(before: FeedEmission, more: FeedEmission) -> FeedEmission:
    """Return the emission of a feed with what follows, unless the feed has failed before that."""
    if before.error is not None:
        return before
    before.unframed.extend(more.unframed)
    return before._replace(records=joined(before.records, more.records), error=more.error)


def _merged(
    feed: PartitionFeed,
    given: FeedRecords,
    taken: Taken,
    refused: Sequence[Version],
    rows: Sequence[Decoded],
) -> FeedEmission:
    """Return a feed's records: those of the kernel, and Python's of the refused versions in their places."""
    emitter = feed.emitter
    if emitter is None or not refused:
        return FeedEmission(feed, given.records, given.unframed, None)
    into = Emission([], [])
    given = given._replace(records=list(given.records))  # parts are cut out of it: each record is made once
    begin = 0
    for number, version, row in zip(taken.refused, refused, rows, strict=True):
        end = begin
        while end < len(given.numbers) and given.numbers[end] < number:
            end += 1
        _extend(into, given, begin, end)
        begin = end
        error = emitter.emit([version], [row], into)
        if error is not None:
            return FeedEmission(feed, into.records, into.unframed, error)
    _extend(into, given, begin, len(given.numbers))
    return FeedEmission(feed, into.records, into.unframed, None)


def _extend(into: Emission, given: FeedRecords, begin: int, end: int) -> None:
    """Append records of a kernel; a feed has them in one of the two forms."""
    into.records.extend(given.records[begin:end])
    into.unframed.extend(given.unframed[begin:end])


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
