"""A range whose log has a hole, and the store that answers its scans."""

from __future__ import annotations

from tests.feeds import activation
from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven, active, timestamp_of
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.table.breakages import Breakage
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import KeyValue, RangeId
from tidegate.raftlog.request import Scan
from tidegate.spans import Span

FEED = activation([PLAIN.descriptor])
MIDDLE = PLAIN.key(100)


def row_of(seconds: float, number: int, text: str) -> KeyValue:
    key, value = PLAIN.pair(number, text)
    return KeyValue(key, at(seconds), value)


def scans_in(driven: Driven) -> list[Scan]:
    requests = (request for result in driven.results for request in result.requests)
    return [request for request in requests if isinstance(request, Scan)]


class Broken:
    """A range that breaks behind its row of second 5, closed up to 6, and misses one of second 8."""

    def __init__(self, breakage: Breakage | None = None, span: Span = PLAIN.span) -> None:
        self.log = HandLog(partitions=1)
        self.log.describe(PLAIN)
        self.range = self.log.open_range(1, span)
        self.range.apply(PLAIN.put(5, 1, "before"), close=6)
        if breakage is None:
            self.log.write_bytes(0, encode_key(RangeId(1)), b"\xff\xff\xff")
            self.range.index += 1
        else:
            breakage(self.log, self.range)
        self.driven = active(FEED)

    def run(self, batch: int = 10_000) -> None:
        start = int(self.driven.processor.next_offset or 0)
        self.driven.run(self.log.partitions[0][start:], batch)
        while self.driven.processor.ready:
            self.driven.step(())

    def heal(self) -> Scan:
        """Write the snapshot that heals, and return what is asked for then."""
        self.range.snapshot(close=9, high=8)
        self.range.apply(PLAIN.put(10, 1, "after"), close=9)
        self.run()
        return scans_in(self.driven)[-1]

    def beat_at(self, seconds: float) -> None:
        """Let so much time have passed, and the source go on as it does."""
        self.log.wait_for(at(seconds))
        self.range.heartbeat(seconds)
        self.run()

    @property
    def times(self) -> list[object]:
        return list(map(timestamp_of, self.driven.rows))

    @property
    def quarantined(self) -> bool:
        return bool(self.driven.processor.status().quarantined)
