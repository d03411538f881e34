"""Log partitions that are read independently, while ranges move between them and entries are lost.

How far each partition is read is drawn, so one partition may be minutes of log time ahead of another: ranges
are claimed that are in a hole, parked, or not known yet. Feeds with cursors begin on the way, are detached,
stalled and resumed; processors begin anew from what they stored; RangeEnds and Snapshots do not arrive; the
store answers scans of the ranges that it has. At its end everything is read, and nothing is lost any more.

What feeds are given is compared with the store's history at every step. In the end everything must have come:
a range that a feed waits for and that no partition has would hold the feed for ever.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, HandTable, at, seconds_of
from tests.plain_frontier import PlainFrontier
from tests.simulation.feed_judge import BrokenPromise
from tests.unit.processor.driving import Driven, rows_of, timestamp_of
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import Timestamp
from tidegate.processor.batch import ExchangeRecord, OutputRecord, PartitionCheckpoint, StepResult
from tidegate.processor.checkpoint import report_of
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.range_claims import RangeClaims
from tidegate.processor.step_size import RowLimits
from tidegate.raftlog.encode import encode_key, partition_of
from tidegate.raftlog.entry import Entry, KeyValue, Offset, RangeEnd, Snapshot, WriteValue
from tidegate.raftlog.request import RangeRequest, Scan
from tidegate.ranges.handoff import receiver_of
from tidegate.spans import Span

_TABLE: Final = HandTable.of(104, "plain")
_OTHER: Final = HandTable.of(105, "other")
_KEYS: Final = [_TABLE.key(number) for number in range(200)]
_READ_MAX: Final = 200
_RANGES_MAX: Final = 6
_FEEDS_MAX: Final = 4
_CALM_ROUNDS: Final = 150
_CALM_STEP_S: Final = 29  # less than a clock lets elapse at once
_BEHIND_S: Final = 2 * _CALM_STEP_S
_END: Final[Mapping[type[Entry], float]] = {RangeEnd: 1.0}
_SNAPSHOTS: Final[Mapping[type[Entry], float]] = {Snapshot: 0.2}


class _LossyLog(HandLog):
    """A log in which RangeEnds, or Snapshots after splits and merges, do not arrive, as drawn for the run.

    If both of a merge are lost, nobody is told that its right side has ended
    (docs/protocols/catch-up.md#silent).
    """

    def __init__(self, rng: Random, count: int) -> None:
        super().__init__(count)
        self._rng = rng
        #: How likely each is lost.
        self.losses: Mapping[type[Entry], float] = {}

    def write(self, entry: Entry, partition: int | None = None) -> None:
        """Write an entry, or lose it."""
        chance = self.losses.get(type(entry), 0.0)
        if not chance or self._rng.random() >= chance:
            super().write(entry, partition)


class PartitionsApart:
    """One run; a function of its seed.

    ``sides`` is the number of sides of a die that chooses what happens next: six of its sides are something
    else than a row. It is drawn if not given. ``count`` is the number of partitions.
    """

    def __init__(self, seed: int, sides: int | None = None, count: int = 2) -> None:
        self.rng = rng = Random(seed)
        self.count = count
        self.log = _LossyLog(rng, count)
        self.log.describe(_TABLE, _OTHER)
        low, high = _TABLE.split(100)
        self.ranges = [self.log.open_range(1, low), self.log.open_range(2, high)]
        self._others = [
            self.log.open_range(98, _OTHER.span),
            self.log.open_range(99, Span(b"\xff\x01", b"\xff\x02")),
        ]
        self.log.losses = rng.choice([{}, _END, _SNAPSHOTS])
        #: Whether ranges may end without a record that says so.
        self.loses_both = Random(f"{seed}:both").random() < 0.2
        if self.loses_both:
            self.log.losses = {**_END, **_SNAPSHOTS}
        self._sides = rng.choice([13, 9, 7]) if sides is None else sides
        self.history: list[WriteValue] = []
        #: The values of each row, by the row's key (as feeds write it) and its timestamp.
        self._written: dict[tuple[bytes, Timestamp], list[int | str]] = {}
        self.now_s = 1
        self._next_id = 10
        self._sent = 0
        self._inboxes: list[list[ExchangeRecord]] = [[] for _ in range(count)]
        self._answered: set[tuple[int, int]] = set()
        self._claims = RangeClaims()
        self.feeds: dict[FeedId, Activate] = {}
        self._frontiers: dict[FeedId, PlainFrontier] = {}
        self._given: dict[FeedId, dict[bytes, list[Timestamp]]] = {}
        #: The partitions that have not heard of a feed.
        self._untold: dict[FeedId, list[int]] = {}
        # In half of the seeds most steps end before the end of what they are given. With given sides no step
        # does.
        drawn = Random(f"{seed}:steps").choice((300, 1_500, 64 << 20, 64 << 20))
        step_bytes = drawn if sides is None else 64 << 20
        self._config = ProcessorConfig(detachable=True, rows=RowLimits(step_bytes))
        self.partitions = [Driven(PartitionProcessor(number, count, self._config)) for number in range(count)]
        self._create(at(rng.choice([0, 3, 30])))
        self._tell_everybody()

    def run(self) -> None:
        """Let things happen, then let everything calm down. Raises ``BrokenPromise`` when a promise is
        broken."""
        for _ in range(self.rng.randrange(20, 80)):
            self._turn()
            self._check()
        self.log.losses = {}
        self._tell_everybody()
        for driven in self.partitions:
            for feed_id in list(driven.processor.detached):
                self._note_result(driven, driven.processor.resume(feed_id))
        for number in range(_CALM_ROUNDS):
            if self._calm(with_snapshots=number % 8 == 1):
                return
        self._require_active()
        lagging = {feed_id: seconds_of(self._marker(feed_id)) for feed_id in self.feeds}
        raise BrokenPromise(f"at {self.now_s} s the feeds are complete to {lagging}, and nothing moves")

    def _marker(self, feed_id: FeedId) -> Timestamp:
        return self._frontiers[feed_id].minimum

    # ---- what happens

    def _turn(self) -> None:
        rng = self.rng
        self.now_s += rng.choice([1, 1, 2, 20, 100, 300])
        self._write()
        if rng.random() < 0.6:
            self._beat()
        if rng.random() < 0.06 and len(self.feeds) < _FEEDS_MAX:
            self._create(at(max(self.now_s - rng.choice([0, 5, 50, 500, 2_000]), 0)))
        self._tell_some()
        if rng.random() < 0.04:
            self._move_a_sink()
        if rng.random() < 0.6:
            self._read(rng.choice(self.partitions), rng.choice([1, 3, 50]))

    def _write(self) -> None:
        """Let the store do the next thing."""
        range_, what = self.rng.choice(self.ranges), self.rng.randrange(self._sides)
        acts: dict[int, Callable[[HandRange], None]] = {
            1: self._corrupt,
            2: self._snapshot,
            3: self._snapshot,
            4: self._split,
            5: self._merge,
            6: self._lose,
        }
        acts.get(what, self._put)(range_)

    def _put(self, range_: HandRange) -> None:
        rows = [number for number, key in enumerate(_KEYS) if range_.span.contains(key)]
        if rows:
            number, text = self.rng.choice(rows), f"v{len(self.history)}"
            version = _TABLE.put(self.now_s + 0.5, number, text)
            self.history.append(version)
            self._written[b"[%d]" % number, version.timestamp] = [number, text]
            range_.apply(version, close=self.now_s)

    def _corrupt(self, range_: HandRange) -> None:
        self.log.write_bytes(partition_of(range_.id, self.count), encode_key(range_.id), b"\xff\xff")
        range_.index += self.rng.randrange(2)

    def _lose(self, range_: HandRange) -> None:
        range_.index += 1

    def _snapshot(self, range_: HandRange) -> None:
        range_.snapshot(close=self.now_s, high=self.now_s)

    def _split(self, range_: HandRange) -> None:
        places = [key for key in _KEYS if range_.span.contains(key) and key != range_.span.start]
        if places and len(self.ranges) < _RANGES_MAX:
            child = range_.split(self.rng.choice(places), self._next_id, close=self.now_s)
            self._next_id += 1
            self.ranges.insert(self.ranges.index(range_) + 1, child)

    def _merge(self, range_: HandRange) -> None:
        number = self.ranges.index(range_) + 1
        if number < len(self.ranges):
            range_.merge(self.ranges.pop(number), close=self.now_s)

    def _beat(self) -> None:
        self.log.wait_for(at(self.now_s + 2))
        for range_ in (*self.ranges, *self._others):
            range_.heartbeat(self.now_s)

    def _calm(self, *, with_snapshots: bool) -> bool:
        """Let nothing go wrong for a while. Return whether everything has come."""
        self.now_s += _CALM_STEP_S
        self._beat()
        if with_snapshots:
            for range_ in self.ranges:
                self._snapshot(range_)
        for driven in self.partitions:
            self._read(driven, _READ_MAX)
        self._check()
        self._require_active()
        return all(self._marker(feed_id) >= at(self.now_s - _BEHIND_S) for feed_id in self.feeds)

    # ---- feeds

    def _create(self, start: Timestamp) -> None:
        options = replace(WITH_MARKERS, cursor=start) if self.feeds else WITH_MARKERS
        name = f"feed{len(self.feeds)}"
        feed = activation([_TABLE.descriptor], options, start=start, feed_id=name)
        self.feeds[feed.feed_id] = feed
        self._given[feed.feed_id] = {}
        self._follow(feed)

    def _follow(self, feed: Activate) -> None:
        """Follow a feed. Its markers follow from what partitions say of it, from the time on when they are
        told of it."""
        spans = [span for target in feed.targets for span in target.spans]
        self._frontiers[feed.feed_id] = frontier = PlainFrontier()
        for span in spans:
            frontier.add(span, feed.start)
        self._untold[feed.feed_id] = list(range(self.count))

    def _tell_some(self) -> None:
        for feed_id, untold in self._untold.items():
            for number in [number for number in untold if self.rng.random() < 0.5]:
                untold.remove(number)
                self._note_result(self.partitions[number], self._told(number, feed_id))

    def _tell_everybody(self) -> None:
        for feed_id, untold in self._untold.items():
            while untold:
                number = untold.pop()
                self._note_result(self.partitions[number], self._told(number, feed_id))

    def _told(self, number: int, feed_id: FeedId) -> StepResult:
        driven = self.partitions[number]
        result = driven.control(self.feeds[feed_id])
        driven.results.pop()  # `_note_result` notes it
        return result

    def _move_a_sink(self) -> None:
        """Let the sink of a feed stand still in a partition, so that all of its rows are given up; or let it
        go on."""
        driven, feed_id = self.rng.choice(self.partitions), self.rng.choice(list(self.feeds))
        processor = driven.processor
        if not processor.is_active(feed_id):
            return
        if feed_id in processor.detached:
            self._note_result(driven, processor.resume(feed_id))
        else:
            processor.committed(driven.results[-1].serial)
            self._note_result(driven, processor.detach(feed_id, []))
            self._note_result(driven, processor.stall(feed_id))

    # ---- partitions

    def _read(self, driven: Driven, limit: int) -> None:
        """Let one partition read on. It may first begin anew from what it stored."""
        if self.rng.random() < 0.25:
            self._restart(driven)
        processor, number = driven.processor, driven.processor.partition
        inbox = self._inboxes[number]
        if inbox and self.rng.random() < 0.7:
            taken, inbox[:] = list(inbox), []
            self._note_result(driven, processor.exchange(taken))
        first = int(processor.next_offset or 0)
        records = self.log.partitions[number][first : first + limit]
        self._note_result(driven, processor.step_some(records, records[-1].offset + 1 if records else None))
        while processor.ready:
            self._note_result(driven, processor.step_some(()))

    def _restart(self, driven: Driven) -> None:
        rows = ((table, key, value) for (table, key), value in driven.state.items())
        serial, number = driven.processor._serial, driven.processor.partition
        driven.processor = PartitionProcessor.restore(number, self.count, self._config, rows)
        driven.processor._serial = serial

    def _note_result(self, driven: Driven, result: StepResult) -> None:
        """Take the result of a step. All of it is durable at once."""
        driven.note(result)
        for message in result.exchanges:
            number = partition_of(receiver_of(message), self.count)
            self._inboxes[number].append(ExchangeRecord(Offset(self._sent), message))
            self._sent += 1
        for feed_id in result.outputs:
            for record in rows_of(result, feed_id):
                self._give(feed_id, record)
        if result.checkpoint is not None:
            self._advance(result.checkpoint)
        for request in result.requests:
            self._answer(request)

    def _advance(self, checkpoint: PartitionCheckpoint) -> None:
        (report,) = self._claims.count([report_of(checkpoint)])
        for active in report.feeds:
            for start, end, resolved in zip(report.starts, report.ends, report.resolved, strict=True):
                self._frontiers[active.feed_id].forward(Span(start, end), resolved)
        self._check()

    def _answer(self, request: RangeRequest) -> None:
        """Let the store answer for a range that it has, with all versions of the span; or the request is
        lost."""
        if not isinstance(request, Scan) or (request.range_id, request.request_id) in self._answered:
            return
        found = [range_ for range_ in self.ranges if range_.id == request.range_id]
        if found and found[0].span.intersect(request.span) == request.span and self.rng.random() < 0.8:
            self._answered.add((request.range_id, request.request_id))
            found[0].scanned(request, *self._stored(request))

    def _stored(self, scan: Scan) -> Iterator[KeyValue]:
        after = at(-1) if scan.after is None else scan.after
        for version in self.history:
            if scan.span.contains(version.key) and after < version.timestamp <= scan.upto:
                yield KeyValue(version.key, version.timestamp, version.value or b"")

    # ---- what is checked

    def _give(self, feed_id: FeedId, record: OutputRecord) -> None:
        """Take a row that a feed was given: it has to be in the history, and no older row of its key may come
        after it."""
        key, timestamp = record.key or b"", timestamp_of(record)
        row = json.loads(record.value or b"{}").get("after")
        if row is None or self._written.get((key, timestamp)) != [*row.values()]:
            raise BrokenPromise(
                f"{feed_id} was given {key!r} at {seconds_of(timestamp)} s as {row}, which nobody wrote"
            )
        rows = self._given[feed_id].setdefault(key, [])
        if timestamp not in rows:
            if rows and timestamp < rows[-1]:
                raise BrokenPromise(
                    f"{feed_id} was given a row at {seconds_of(timestamp)} s after a newer one"
                )
            rows.append(timestamp)

    def _check(self) -> None:
        """Require that every version that a marker covers was given."""
        for feed_id, feed in self.feeds.items():
            marker = self._marker(feed_id)
            given = self._given[feed_id]
            for key, timestamp in self._written:
                if feed.start < timestamp <= marker and timestamp not in given.get(key, ()):
                    raise BrokenPromise(
                        f"{feed_id} is said to be complete to {seconds_of(marker)} s, and lacks a row at "
                        f"{seconds_of(timestamp)} s"
                    )

    def _require_active(self) -> None:
        for driven in self.partitions:
            for feed_id in self.feeds:
                if not driven.processor.is_active(feed_id):
                    raise BrokenPromise(f"{feed_id} has failed, though the store has everything")
