"""A scan by which a feed catches up in one range, and its held versions (docs/protocols/catch-up.md, C2 to
C5)."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, NamedTuple

from tidegate.hlc import ZERO
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.raftlog.entry import Offset
from tidegate.ranges.gap import Gap
from tidegate.ranges.range_state import RangeState
from tidegate.ranges.scan import RangeScan, ScanPart
from tidegate.ranges.version import Version

_VERSION_BYTES: Final = 200  # what a held version takes in memory besides its key and values
_NOWHERE: Final = Offset(0)


class CatchUpScan:
    """A scan of one gap of one feed, and the versions that wait for its chunks.

    The scan reads up to one timestamp. While it is ``holding``, it keeps newly committed versions of its keys
    above that timestamp, until the chunk with their key comes. When it is not ``holding``, some versions
    above the timestamp were not kept, so another scan has to follow. ``went_on_ms`` is the elapsed log time
    at which the scan began or its last chunk came.
    """

    __slots__ = (
        "_held",
        "_held_keys",
        "feed",
        "gap",
        "held_bytes",
        "held_row_bytes",
        "holding",
        "scan",
        "taken",
        "went_on_ms",
    )

    def __init__(self, feed: PartitionFeed, state: RangeState, gap: Gap, now_ms: int) -> None:
        self.feed, self.gap = feed, gap
        self.went_on_ms = now_ms
        newest = gap.complete_to is None
        upto = feed.start if newest else state.high
        self.scan = RangeScan(
            state.range_id,
            _NOWHERE,
            gap.span,
            [ScanPart(gap.span, gap.complete_to or ZERO)],
            upto,
            with_prev=feed.shows_previous and not newest,
            newest=newest,
        )
        self.holding = not feed.scans_only and upto >= state.high
        #: The held versions by key. ``_held_keys`` is a heap of the same keys: it finds the keys that a chunk
        #: covers without a look at all the others.
        self._held: dict[bytes, list[_Held]] = {}
        self._held_keys: list[bytes] = []
        self.held_bytes = 0
        #: About how many bytes of rows will be made of the held versions.
        self.held_row_bytes = 0
        self.taken = state.snapshots_taken

    def is_of(self, state: RangeState) -> bool:
        """Whether the range can give checkpoints, and has taken no snapshot since the scan began."""
        return self.taken == state.snapshots_taken and state.checkpointable

    def hold(self, version: Version, row_bytes: int) -> None:
        """Keep a version until the chunk with its key comes.

        It makes about ``row_bytes`` of rows. Versions that the scan reads itself, and versions of keys that
        chunks have covered, are not kept.
        """
        scan, key = self.scan, version.key
        if self.holding and version.timestamp > scan.upto and scan.next_key <= key < scan.span.end:
            held = _Held(version, _VERSION_BYTES + version.size_bytes, row_bytes)
            versions = self._held.get(key)
            if versions is None:
                self._held[key] = [held]
                heappush(self._held_keys, key)
            else:
                versions.append(held)
            self.held_bytes += held.size
            self.held_row_bytes += held.row_bytes

    def hold_nothing(self) -> None:
        """Drop all held versions, and hold none from here on."""
        self.holding, self._held, self._held_keys = False, {}, []
        self.held_bytes = self.held_row_bytes = 0

    def release(self) -> list[Version]:
        """Return the held versions of all keys that chunks have covered by now, key by key."""
        released: list[_Held] = []
        while self._held_keys and self._held_keys[0] < self.scan.next_key:
            released += self._held.pop(heappop(self._held_keys))
        self.held_bytes -= sum(held.size for held in released)
        self.held_row_bytes -= sum(held.row_bytes for held in released)
        return [held.version for held in released]


class _Held(NamedTuple):
    """A held version, what it takes in memory, and about how many bytes of rows it makes."""

    version: Version
    size: int
    row_bytes: int
