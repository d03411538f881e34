"""Reads the versions that ranges have committed as rows, and gives these to the feeds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import FeedError
from tidegate.processor.batch import SOURCE_HEADER, StepResult
from tidegate.processor.breaking import refused_row
from tidegate.processor.catchup.committed import Delivery
from tidegate.processor.feeds.emitter import Emission
from tidegate.processor.feeds.kernel_rows import BatchEmission
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.table_shares import TableShares
from tidegate.processor.feeds.taken_versions import TakenVersions
from tidegate.processor.feeds.version_rows import Decoded, TableRowError
from tidegate.processor.feeds.written_versions import WrittenRows
from tidegate.processor.processor_state import ProcessorState
from tidegate.processor.written_records import about_size, joined, rows_size
from tidegate.ranges.version import Version

#: The bytes of a kernel's row that are not counted: the name of the header that says where the row came from,
#: and by how much this header may be longer than that of another row.
_UNCOUNTED: Final = len(SOURCE_HEADER) + 64


class Deliveries:
    """Gives the feeds of a partition their rows. A feed with a row that cannot be written fails."""

    def __init__(self, state: ProcessorState) -> None:
        self._state = state
        self._ranges = state.ranges
        self._rows = state.rows
        self._feeds = state.feeds
        self._kernel = state.kernel

    def emit(self, result: StepResult) -> None:
        """Put the records of all versions committed so far into ``result``.

        This is done before anything takes effect that changes how rows are read or which feeds are given
        them.
        """
        fits = not self._ranges.committed.written or self._emit_written(result)
        shared, parted, rows = self._ranges.take_committed()
        if shared:
            self._state.raise_high(max(version.timestamp for version in shared))
        if self._kernel is not None:
            self._kernel.of_feeds.keep(parted)
        if parted:
            self._emit_parted(shared, parted, rows, result)
        elif shared and fits:
            self._emit_shared(shared, result)
        elif shared:
            self._emit_by_python(self.receivers(), shared, result)

    def _emit_shared(self, versions: list[Version], result: StepResult) -> None:
        """Emit versions for all feeds: none is parted."""
        receivers = self.receivers()
        if not receivers:
            return
        emitted = None if self._kernel is None else self._kernel.emit(receivers, versions)
        if emitted is None:
            self._emit_by_python(receivers, versions, result)
        else:
            self._put_or_compare(emitted, lambda: self._emit_by_python(receivers, versions, result), result)

    def _emit_parted(
        self,
        shared: list[Version],
        parted: Mapping[FeedId, Sequence[Delivery]],
        rows: Sequence[WrittenRows],
        result: StepResult,
    ) -> None:
        """Emit the shared versions for the feeds that are not parted, and for each parted feed its
        deliveries.

        ``rows`` are those of shared versions that a kernel has written already.
        """
        others = self.receivers(parted)
        live = any(each.scanned_at is None for deliveries in parted.values() for each in deliveries)
        taken = None
        if self._kernel is not None and shared and (others or live):
            taken = self._kernel.make_shared_records(self.receivers(), shared, rows)
        known = self._emit_to_others(others, shared, taken, result) if others and shared else {}
        for feed in self._feeds.active:
            for delivery in parted.get(feed.id, ()):
                self._deliver(feed, delivery, known, taken, result, is_first=not others)

    def _emit_to_others(
        self,
        others: Sequence[PartitionFeed],
        shared: list[Version],
        taken: TakenVersions | None,
        result: StepResult,
    ) -> Mapping[int, Decoded]:
        """Emit the shared versions for the feeds that are not parted.

        Returns the rows that Python has read for that, each under the ``id`` of its version object.
        """
        known: dict[int, Decoded] = {}

        def by_python() -> None:
            rows = self._emit_by_python(others, shared, result)
            known.update(zip(map(id, shared), rows, strict=True))

        if self._kernel is None or taken is None:
            by_python()
        else:
            self._put_or_compare(self._kernel.emit_all(others, taken), by_python, result)
        return known

    def receivers(self, parted: Collection[FeedId] = ()) -> Sequence[PartitionFeed]:
        """Return the live feeds that are given shared versions: all but those in ``parted``."""
        if not parted:
            return self._feeds.live
        return [feed for feed in self._feeds.live if feed.id not in parted]

    def _emit_written(self, result: StepResult) -> bool:
        """Emit versions whose rows are written, and the shared ones after them.

        If that cannot be done, the written versions become shared ones again. Returns False if then only
        Python may take them, because their rows may be too many bytes for a feed; otherwise True.
        """
        committed = self._ranges.committed
        assert self._kernel is not None
        emitted = self._kernel.emit_written(self.receivers(), committed.written, committed.shared)
        sizes = {} if emitted is None else _sizes(emitted)
        if emitted is None or not self._fit(emitted, sizes):
            committed.unwrite()
            return emitted is None
        for each in committed.written:
            self._state.raise_high(max([each.high, *(version.timestamp for version in each.before)]))
        for version in committed.shared:
            self._state.raise_high(version.timestamp)
        committed.written, committed.shared = [], []
        self._put(emitted, sizes, result)
        return True

    def _put(self, emitted: BatchEmission, sizes: Mapping[FeedId, int], result: StepResult) -> None:
        """Put what a kernel and Python have made together into ``result``."""
        for feed, records, unframed, error in emitted.feeds:
            result.row_bytes += sizes[feed.id]
            if records:
                result.outputs[feed.id] = joined(result.outputs.get(feed.id, ()), records)
            if unframed:
                result.unframed.setdefault(feed.id, []).extend(unframed)
            self._fail_at_row(feed, error, result)
        emitted.raise_highs(self._rows)

    def _put_or_compare(
        self, emitted: BatchEmission, by_python: Callable[[], object], result: StepResult
    ) -> None:
        """Put what a kernel has made into ``result``; or what Python makes, if both are compared.

        Python also makes rows that may be too many bytes for a feed: it knows at which row the feed fails.
        """
        assert self._kernel is not None
        if not self._fit(emitted, sizes := _sizes(emitted)):
            by_python()
        elif self._kernel.checks:
            with self._kernel.compared(emitted, result):
                by_python()
        else:
            self._put(emitted, sizes, result)

    def _emit_by_python(
        self, receivers: Sequence[PartitionFeed], versions: list[Version], result: StepResult
    ) -> list[Decoded]:
        feeds = self._feeds
        rows = self._rows.decode(versions, feeds.wanted_tables, feeds.wanted_previous, feeds.starts)
        shares = TableShares(versions, rows)
        for feed in receivers:
            share = None if feed.emitter is None else shares.of(feed.emitter.destinations)
            if share is not None:
                self._emit_rows(feed, share.versions, share.rows, result)
        return rows

    def _deliver(
        self,
        feed: PartitionFeed,
        delivery: Delivery,
        known: Mapping[int, Decoded],
        taken: TakenVersions | None,
        result: StepResult,
        *,
        is_first: bool,
    ) -> None:
        """Emit a delivery for one feed.

        ``known`` has the rows that were read for other feeds, each under the ``id`` of its version object;
        ``taken`` has the shared versions that a kernel has taken. ``is_first``: no feed was given the shared
        versions yet.
        """
        versions, scanned_at, _ = delivery
        if feed.scans_only and scanned_at is None:
            return
        emitted = None
        if self._kernel is not None and feed.emitter is not None:
            emitted = (
                self._kernel.emit_some(feed, taken, versions, is_first=is_first)
                if scanned_at is None
                else self._kernel.emit_scanned(feed, versions, scanned_at)
            )
        by_python = partial(self._deliver_by_python, feed, delivery, known, result)
        if emitted is None:
            by_python()
        else:
            self._put_or_compare(emitted, by_python, result)

    def _deliver_by_python(
        self, feed: PartitionFeed, delivery: Delivery, known: Mapping[int, Decoded], result: StepResult
    ) -> None:
        versions, scanned_at, held = delivery
        previous = feed.table_ids if feed.shows_previous else frozenset[int]()
        new = versions if scanned_at is not None else [each for each in versions if id(each) not in known]
        read = iter(self._rows.decode(new, feed.table_ids, previous, self._feeds.starts, scanned_at))
        rows = (
            [*read]
            if len(new) == len(versions)
            else [known[id(each)] if id(each) in known else next(read) for each in versions]
        )
        self._emit_rows(feed, versions, rows, result, scanned=scanned_at is not None, held=held)

    def _emit_rows(
        self,
        feed: PartitionFeed,
        versions: Sequence[Version],
        rows: Sequence[Decoded],
        result: StepResult,
        *,
        scanned: bool = False,
        held: bool = False,
    ) -> None:
        if feed.emitter is None:
            return
        emitted = Emission([], [], self._state.row_limits.entry_bytes, singly=held)
        error = feed.emitter.emit(versions, rows, emitted, scanned=scanned)
        result.row_bytes += emitted.size
        if emitted.records:
            result.records_of(feed.id).extend(emitted.records)
        if emitted.unframed:
            result.unframed.setdefault(feed.id, []).extend(emitted.unframed)
        self._fail_at_row(feed, error, result)

    def _fit(self, emitted: BatchEmission, sizes: Mapping[FeedId, int]) -> bool:
        """Whether each feed's rows have so few bytes that no single entry of the log can make too many."""
        most = self._state.row_limits.entry_bytes
        return all(
            sizes[each.feed.id] + _UNCOUNTED * (len(each.records) + len(each.unframed)) <= most
            for each in emitted.feeds
        )

    def _fail_at_row(self, feed: PartitionFeed, error: FeedError | None, result: StepResult) -> None:
        """Fail a feed with the error of a row; do nothing if there is no error."""
        if error is not None:
            if isinstance(error, TableRowError):
                result.keep_aside(refused_row(error, self._state.position.offset, feed.id, self._rows))
            self._feeds.fail(feed.id, error)


def _sizes(emitted: BatchEmission) -> dict[FeedId, int]:
    """Return about how many bytes the rows of each feed have."""
    return {each.feed.id: rows_size(each.records) + about_size(each.unframed) for each in emitted.feeds}
