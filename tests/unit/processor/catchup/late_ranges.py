"""A feed that misses rows of several ranges, and a log time that a test moves on at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven, rows_of, timestamp_of
from tests.unit.processor.late_feed import LATE, late_feed
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Activate, Register
from tidegate.hlc import Timestamp
from tidegate.processor.catchup.gap_scans import CatchUpLimits, FeedGapStatus
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import KeyValue, RangeId
from tidegate.raftlog.request import Scan
from tidegate.spans import Span


def key_of(number: int) -> bytes:
    """The whole key of a row's value; ``PLAIN.key`` is shorter."""
    return PLAIN.pair(number, "")[0]


class LateRanges:
    """Ranges 1, 2 and so on, each with a row of second 1; a feed starts at 0.5 when these are passed.

    Range ``n`` has the keys from row ``100 * (n - 1)`` on, and the row of that number.
    """

    def __init__(
        self, ranges: int, limits: CatchUpLimits | None = None, message: Activate | None = None
    ) -> None:
        self.log = HandLog(partitions=1)
        self.log.describe(PLAIN)
        bounds = [PLAIN.span.start, *(key_of(100 * number) for number in range(1, ranges)), PLAIN.span.end]
        self.ranges = [
            self.log.open_range(number, Span(*span)) for number, span in enumerate(pairwise(bounds), 1)
        ]
        for number, each in enumerate(self.ranges):
            each.apply(PLAIN.put(1, 100 * number, "first"), close=2)
        self.config = ProcessorConfig(catch_up=limits, detachable=True)
        self.driven = Driven(PartitionProcessor(0, 1, self.config))
        self.run()
        self.message = message or late_feed(cursor=0.5)
        self.begin(self.message)

    def begin(self, message: Activate) -> None:
        self.driven.control(Register(message.definition), message)
        self.run()

    def begin_another(self, name: str) -> FeedId:
        """Let a feed begin that misses the same rows."""
        definition = replace(self.message.definition, id=FeedId(name))
        self.begin(replace(self.message, definition=definition))
        return definition.id

    def run(self) -> None:
        """Read what was written since, and whatever becomes of it."""
        self.driven.read_on(self.log.partitions[0])

    def restart(self) -> None:
        """A new owner begins with what was stored."""
        results, state = self.driven.results, self.driven.state
        self.driven = Driven.restored(state, config=self.config)
        self.driven.results = results
        self.run()

    def elapse(self, seconds: float) -> None:
        """Let so much log time elapse, in which nothing is read."""
        self.driven.processor._ranges.table.clock.elapsed_ms += round(1_000 * seconds)
        self.driven.step(())

    def answer(self, number: int, *rows: KeyValue, span: Span | None = None, last: bool = True) -> None:
        """The source answers the last request for rows of this range."""
        scan = next(each for each in reversed(self.scans) if each.range_id == number)
        self.ranges[number - 1].scanned(scan, *rows, span=span, last=last)
        self.run()

    @property
    def scans(self) -> list[Scan]:
        requests = (request for result in self.driven.results for request in result.requests)
        return [request for request in requests if isinstance(request, Scan)]

    @property
    def asked(self) -> list[RangeId]:
        """The ranges that were asked for rows, one after the other."""
        return [each.range_id for each in self.scans]

    @property
    def statuses(self) -> dict[FeedId, FeedGapStatus]:
        return {each.feed_id: each for each in self.driven.processor.status().with_gaps}

    @property
    def under_way(self) -> int:
        return sum(each.scans for each in self.statuses.values())

    @property
    def held_bytes(self) -> int:
        return self.statuses[LATE].held_bytes

    def times(self, feed: FeedId = LATE) -> list[Timestamp]:
        return [timestamp_of(row) for result in self.driven.results for row in rows_of(result, feed)]

    def left(self) -> Sequence[RangeId]:
        """The ranges that are quarantined."""
        return [each.range_id for each in self.driven.processor.status().quarantined]


def first_row(number: int) -> KeyValue:
    """The row that range ``number`` has of second 1."""
    key, value = PLAIN.pair(100 * (number - 1), "first")
    return KeyValue(key, at(1), value)
