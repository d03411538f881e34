"""A feed that begins when its log has been read for a while, and the store that answers its scans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven, StoredState, rows_of, timestamp_of
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.lifecycle.control import Activate, Register
from tidegate.hlc import Timestamp
from tidegate.processor.batch import OutputRecord
from tidegate.processor.catchup.gap_scans import CatchUpLimits
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import KeyValue
from tidegate.raftlog.request import Scan

LATE = FeedId("late")
LIVE = activation([PLAIN.descriptor], feed_id="live")


def late_feed(
    *, cursor: float | None = None, scan: InitialScan = InitialScan.NO, start: float = 0
) -> Activate:
    options = replace(
        WITH_MARKERS, cursor=None if cursor is None else at(cursor), initial_scan=scan, mvcc_timestamp=True
    )
    first = at(start if cursor is None else cursor)
    return activation([PLAIN.descriptor], options, start=first, feed_id=LATE)


class Late:
    """One range with rows of seconds 1 and 2, a live feed, and one that is activated then."""

    def __init__(self, message: Activate, limits: CatchUpLimits | None = None) -> None:
        self.log = HandLog(partitions=1)
        self.log.describe(PLAIN)
        self.range = self.log.open_range(1, PLAIN.span)
        self.range.apply(PLAIN.put(1, 1, "first"), close=0)
        self.range.apply(PLAIN.put(2, 1, "second"), PLAIN.put(2, 200, "other"), close=2)
        self.config = ProcessorConfig(catch_up=limits)
        self.driven = Driven(PartitionProcessor(0, 1, self.config))
        self.driven.control(LIVE)
        self.run()
        self.driven.control(Register(message.definition), message)
        self.run()

    def run(self) -> None:
        self.driven.read_on(self.log.partitions[0])

    def restart(self) -> None:
        state: StoredState = self.driven.state
        rows = ((table, key, value) for (table, key), value in state.items())
        processor = PartitionProcessor.restore(0, 1, self.config, rows)
        results = self.driven.results
        self.driven = Driven(processor, state)
        self.driven.results = results
        self.run()

    @property
    def scans(self) -> list[Scan]:
        requests = (request for result in self.driven.results for request in result.requests)
        return [request for request in requests if isinstance(request, Scan)]

    @property
    def rows(self) -> list[tuple[bytes, Timestamp, Timestamp]]:
        """Key, ``updated`` and ``mvcc_timestamp`` of the late feed's rows."""
        return [_times(row) for result in self.driven.results for row in rows_of(result, LATE)]

    @property
    def live(self) -> list[Timestamp]:
        rows = (row for result in self.driven.results for row in rows_of(result, FeedId("live")))
        return list(map(timestamp_of, rows))

    def named(self) -> Iterator[bool]:
        """Yield, for each checkpoint, whether it names the late feed."""
        for result in self.driven.results:
            if result.checkpoint is not None:
                yield LATE in {feed.feed_id for feed in result.checkpoint.feeds}

    @property
    def has_gaps(self) -> bool:
        return bool(self.driven.processor.status().with_gaps)

    @property
    def reserve_ns(self) -> int | None:
        (found,) = self.driven.processor.status().with_gaps
        return found.reserve_ns


def _times(record: OutputRecord) -> tuple[bytes, Timestamp, Timestamp]:
    row = parse_record(record.key, record.value)
    assert isinstance(row, RowRecord)
    assert row.updated is not None
    assert row.mvcc_timestamp is not None
    return record.key, row.updated, row.mvcc_timestamp


def kv(seconds: float, number: int, text: str) -> KeyValue:
    key, value = PLAIN.pair(number, text)
    return KeyValue(key, at(seconds), value)


def live_row(number: int, seconds: float) -> tuple[bytes, Timestamp, Timestamp]:
    return b"[%d]" % number, at(seconds), at(seconds)
