"""Versions on their way from ranges to feeds: some are for all feeds, some for single feeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import FeedId
from tidegate.hlc import Timestamp
from tidegate.processor.feeds.written_versions import WrittenRows, WrittenVersions
from tidegate.raftlog.entry import KeyValue, RaftIndex, RangeId
from tidegate.ranges.version import Version

_OPLESS: Final = RaftIndex(0)


class Delivery(NamedTuple):
    """Versions for one feed, in order.

    ``scanned_at`` is the timestamp of the initial scan that found them, ``None`` for all other versions.
    ``held`` versions have waited for a scan.
    """

    versions: list[Version]
    scanned_at: Timestamp | None
    held: bool = False


class Committed(NamedTuple):
    """The committed versions of a step, by the feeds that they go to: see ``CommittedVersions.take_out``."""

    shared: list[Version]
    parted: Mapping[FeedId, Sequence[Delivery]]
    rows: Sequence[WrittenRows]


class CommittedVersions:
    """The versions that ranges have committed since the last ``take_out``.

    The ``written`` versions come before the ``shared`` ones.

    ``shared`` are for every feed that is not in ``parted``. ``parted`` has the feeds that miss versions, or
    missed some at any time since the last ``take_out``: each has its own deliveries. The rows of ``written``
    versions were written by a kernel already. Versions go to ``written`` only while no feed is parted. While
    some feed is parted, they go to ``shared``, and ``rows`` has the rows that a kernel has written of them
    already.
    """

    def __init__(self) -> None:
        self.shared: list[Version] = []
        self.parted: dict[FeedId, list[Delivery]] = {}
        self.written: list[WrittenVersions] = []
        self.rows: list[WrittenRows] = []

    def unwrite(self) -> None:
        """Turn the written versions back into shared ones."""
        if not self.written:
            return
        written, self.written = self.written, []
        parts = [part for each in written for part in (each.before, each.versions())]
        self.shared = [*chain.from_iterable(parts), *self.shared]

    def part(self, feed_id: FeedId) -> None:
        """Give the feed its own deliveries from here on.

        They begin with the versions that are shared so far.
        """
        if feed_id not in self.parted:
            self.unwrite()
            self.parted[feed_id] = [Delivery([*self.shared], None)]

    def give(
        self,
        feed_id: FeedId,
        versions: Sequence[Version],
        scanned_at: Timestamp | None = None,
        *,
        held: bool = False,
    ) -> None:
        """Add versions for one feed that has parted."""
        if not versions:
            return
        deliveries = self.parted[feed_id]
        if deliveries and deliveries[-1][1:] == (scanned_at, held):
            deliveries[-1].versions.extend(versions)
        else:
            deliveries.append(Delivery([*versions], scanned_at, held))

    def take_out(self, with_gaps: Iterable[FeedId]) -> Committed:
        """Return the versions since the last call: the shared ones, and the deliveries of parted feeds.

        Only the feeds ``with_gaps``, which still miss versions, stay parted.
        """
        taken = Committed(self.shared, self.parted, self.rows)
        self.shared, self.rows = [], []
        self.parted = {feed_id: [] for feed_id in with_gaps}
        return taken


def scanned_version(range_id: RangeId, row: KeyValue) -> Version:
    """Make a version of a row that a scan found."""
    return Version(
        row.key, row.timestamp, row.value, row.prev_value, row.omit_in_rangefeeds, range_id, _OPLESS, 0
    )
