"""Versions on their way from ranges to feeds: what all are given, and what single feeds are given instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import FeedId
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import KeyValue, RaftIndex, RangeId
from tidegate.ranges.version import Version

_OPLESS: Final = RaftIndex(0)


class Delivery(NamedTuple):
    """Versions for one feed, in order; ``scanned_at`` is the time of the initial scan that found them."""

    versions: list[Version]
    scanned_at: Timestamp | None


class CommittedVersions:
    """Collects versions until they are taken out.

    ``shared`` are those of all feeds but the ``parted`` ones, which lag, or lagged since the last
    ``take_out``.
    """

    def __init__(self) -> None:
        self.shared: list[Version] = []
        self.parted: dict[FeedId, list[Delivery]] = {}

    def part(self, feed_id: FeedId) -> None:
        """Give the feed its own versions from here on; so far it had what all have."""
        if feed_id not in self.parted:
            self.parted[feed_id] = [Delivery([*self.shared], None)]

    def give(self, feed_id: FeedId, versions: Sequence[Version], scanned_at: Timestamp | None = None) -> None:
        """Add versions for one feed that has parted."""
        if not versions:
            return
        deliveries = self.parted[feed_id]
        if deliveries and deliveries[-1].scanned_at == scanned_at:
            deliveries[-1].versions.extend(versions)
        else:
            deliveries.append(Delivery([*versions], scanned_at))

    def take_out(
        self, lagging: Iterable[FeedId]
    ) -> tuple[list[Version], Mapping[FeedId, Sequence[Delivery]]]:
        """What came since the last call; only the feeds that are ``lagging`` stay parted."""
        shared, parted = self.shared, self.parted
        self.shared = []
        self.parted = {feed_id: [] for feed_id in lagging}
        return shared, parted


def scanned_version(range_id: RangeId, row: KeyValue) -> Version:
    """A version that a scan found."""
    return Version(
        row.key, row.timestamp, row.value, row.prev_value, row.omit_in_rangefeeds, range_id, _OPLESS, 0
    )
