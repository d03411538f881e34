"""A feed whose sink takes no rows, and another one that follows, over one log."""

from __future__ import annotations

from collections.abc import Sequence

from tests.feeds import activation
from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven, rows_of, timestamp_of
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedId
from tidegate.hlc import Timestamp
from tidegate.processor.batch import StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import KeyValue
from tidegate.raftlog.request import Scan

STUCK, OTHER = FeedId("stuck"), FeedId("other")
WATCHED = PLAIN.span
MIDDLE = PLAIN.key(100)


class Stuck:
    """A range with a row of second 1, committed, and one of second 3 that is not; closed at 2 and 4."""

    def __init__(self, partitions: int = 1) -> None:
        self.log = HandLog(partitions)
        self.log.describe(PLAIN)
        self.range = self.log.open_range(partitions, PLAIN.span)
        self.driven = Driven(PartitionProcessor(0, partitions, ProcessorConfig(detachable=True)))
        self.driven.control(activation([PLAIN.descriptor], feed_id="stuck"))
        self.driven.control(activation([PLAIN.descriptor], feed_id="other"))
        self.range.apply(PLAIN.put(1, 1, "one"), close=2)
        self.committed(*self.run())
        self.range.apply(PLAIN.put(3, 1, "three"), close=4)
        self.uncommitted = self.run()

    def run(self) -> list[StepResult]:
        start = int(self.driven.processor.next_offset or 0)
        return [*self.driven.run(self.log.partitions[0][start:]), self.driven.step(())]

    def committed(self, *results: StepResult) -> None:
        self.driven.processor.committed(results[-1].serial)

    def detach(self) -> StepResult:
        return self.driven.note(self.driven.processor.detach(STUCK, self.uncommitted))

    def restart(self) -> list[StepResult]:
        self.driven = Driven.restored(self.driven.state)
        return self.run()


def times(results: Sequence[StepResult], feed: FeedId) -> list[Timestamp]:
    return [timestamp_of(row) for result in results for row in rows_of(result, feed)]


def scans(results: Sequence[StepResult]) -> list[Scan]:
    return [item for result in results for item in result.requests if isinstance(item, Scan)]


def kv(seconds: float, number: int, text: str) -> KeyValue:
    key, value = PLAIN.pair(number, text)
    return KeyValue(key, at(seconds), value)
