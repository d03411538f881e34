"""Several log partitions whose ranges move between them, driven one step at a time."""

from __future__ import annotations

from collections.abc import Sequence

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven, timestamp_of
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import Timestamp
from tidegate.processor.batch import ExchangeRecord, OutputRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import KeyValue, Offset, RangeId
from tidegate.raftlog.request import Scan
from tidegate.ranges.handoff import Exchange, receiver_of

FEED = activation([PLAIN.descriptor])
MIDDLE, UPPER = PLAIN.key(100), PLAIN.key(200)


class Partitions:
    """Processors of all partitions of a log, one feed, and the hand-off topic between them."""

    def __init__(self, log: HandLog, feed: Activate = FEED, config: ProcessorConfig | None = None) -> None:
        self.log = log
        count = len(log.partitions)
        self.driven = [Driven(PartitionProcessor(number, count, config)) for number in range(count)]
        for driven in self.driven:
            driven.control(feed)
        self.sent: list[list[Exchange]] = [[] for _ in range(count)]
        self.emitted: list[OutputRecord] = []

    def read(self, number: int, upto: int | None = None, batch: int = 10_000) -> None:
        """Step what partition ``number`` has not read, up to an offset."""
        driven = self.driven[number]
        start = int(driven.processor.next_offset or 0)
        records = self.log.partitions[number][start:upto]
        for result in driven.run(records, batch):
            self._note(number, result.exchanges)
        self._go_on(number)

    def note_step(self, number: int, result: StepResult) -> None:
        """Note a step that was driven by hand."""
        self._note(number, self.driven[number].note(result).exchanges)

    def exchange(self, number: int) -> None:
        """Give partition ``number`` everything that the hand-off topic has for it."""
        driven = self.driven[number]
        first = int(driven.processor.next_hand_off)
        records = [
            ExchangeRecord(Offset(offset), message)
            for offset, message in enumerate(self.sent[number])
            if offset >= first
        ]
        self._note(number, driven.note(driven.processor.exchange(records)).exchanges)
        self._go_on(number)

    def settle(self) -> None:
        """Read everything, and pass everything on, until nothing moves."""
        for number in range(len(self.driven)):
            self.read(number)
        for _ in range(8):
            for number in range(len(self.driven)):
                self.exchange(number)

    def restart(self, number: int, config: ProcessorConfig | None = None) -> None:
        """A new owner begins with what was committed."""
        state = self.driven[number].state
        results = self.driven[number].results
        self.driven[number] = Driven.restored(state, number, len(self.driven), config)
        self.driven[number].results = results

    def _go_on(self, number: int) -> None:
        while self.driven[number].processor.ready:
            self._note(number, self.driven[number].step(()).exchanges)

    def _note(self, number: int, messages: Sequence[Exchange]) -> None:
        for message in messages:
            self.sent[partition_of(receiver_of(message), len(self.driven))].append(message)

    def rows(self) -> dict[int, list[Timestamp]]:
        """The timestamps that each partition emitted, in order."""
        return {number: list(map(timestamp_of, driven.rows)) for number, driven in enumerate(self.driven)}

    def causes(self) -> list[str]:
        """Return what operators would have read."""
        return [cause for driven in self.driven for cause in driven.causes]

    def resolved(self, range_id: int) -> Timestamp | None:
        """The last checkpoint of a range."""
        found = [
            driven.checkpoints[RangeId(range_id)].resolved
            for driven in self.driven
            if RangeId(range_id) in driven.checkpoints
        ]
        return max(found, default=None)

    def parked(self) -> list[tuple[int, tuple[RangeId, ...]]]:
        """The ranges that wait, and for whom."""
        return [
            (item.range_id, item.parents)
            for driven in self.driven
            for item in driven.processor.status().parked
        ]


def split_log(partitions: int = 2) -> HandLog:
    """Range 2 (partition 0) splits off range 3 (partition 1), which writes a key that its parent wrote."""
    log = HandLog(partitions)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "parent"), close=4)
    child = parent.split(MIDDLE, 3, close=6)
    child.apply(PLAIN.put(8, 150, "child"), close=7)
    parent.apply(PLAIN.put(9, 50, "parent"), close=8)
    return log


def chain_log() -> tuple[HandLog, HandRange, HandRange]:
    """2 splits off 3, 3 splits off 4, and 3 takes 4 back, each in a partition of its own.

    Returns ranges 2 and 3 too.
    """
    log = HandLog(3)
    log.describe(PLAIN)
    first = log.open_range(2, PLAIN.span)
    first.apply(PLAIN.put(1, 250, "first"), close=1)
    second = first.split(MIDDLE, 3, close=2)
    second.apply(PLAIN.put(3, 250, "second"), close=2)
    third = second.split(UPPER, 4, close=4)
    third.apply(PLAIN.put(5, 250, "third"), close=4)
    second.merge(third, close=6)
    second.apply(PLAIN.put(7, 250, "merged"), close=7)
    return log, first, second


def scans_of(run: Partitions, number: int) -> list[Scan]:
    requests = [request for result in run.driven[number].results for request in result.requests]
    return [request for request in requests if isinstance(request, Scan)]


def beats(log: HandLog, ranges: Sequence[HandRange], first: int, last: int) -> None:
    """Let these ranges say every few seconds that time passes."""
    for seconds in range(first, last, 5):
        log.wait_for(at(seconds))
        for range_ in ranges:
            range_.heartbeat(seconds)


def row_of(seconds: float, number: int, text: str) -> KeyValue:
    key, value = PLAIN.pair(number, text)
    return KeyValue(key, at(seconds), value)
