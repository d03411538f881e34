"""Checks a whole log, record by record. A ``RangeCheck`` checks one range. Rules about several ranges are
checked here.

Memory grows with the ranges, their open transactions and the tables, but not with the log: what is remembered
of its records is bounded (``CheckLimits``). Time is linear: each record pays for what is copied
(``CopyCredit``), and a range that waits is looked at only when the facts about its parent (an ``Estate``)
are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from tidegate.errors import MalformedEntry, brief
from tidegate.hlc import Timestamp
from tidegate.logcheck.breach import Breach, BreachPlace, Rule
from tidegate.logcheck.descriptor_check import DescriptorCheck
from tidegate.logcheck.lineage import Lineage
from tidegate.logcheck.memory import CheckLimits, NewestVersions, Recent
from tidegate.logcheck.op_text import op_text
from tidegate.logcheck.range_check import RangeCheck, Shared, Stood
from tidegate.logcheck.waiting import WaitingRanges
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    Command,
    CommitIntent,
    DeleteRange,
    DescriptorUpdate,
    Entry,
    Heartbeat,
    Op,
    Parent,
    RangeId,
    ScanChunk,
    Snapshot,
    TxnId,
    WriteValue,
)
from tidegate.spans import Span

#: The most that ops and closed times may be above their record's time (docs/log-contract.md#record-time).
AHEAD_MS: Final = 2_000
#: The longest time that a child waits for its parents, by the record times of the slowest partition. Readers
#: of the log wait equally long.
_PARENT_LIMIT_MS: Final = 600_000
_LOOK_EVERY: Final = 10_000  # the number of records between two looks at the waiting children
_WAITED_SHOWN: Final = 100  # sentences about ranges that waited; the others are counted


class CheckedRecord(NamedTuple):
    """A record of the log's topic. ``record_time_ms`` is its record time, Kafka's timestamp."""

    place: BreachPlace
    key: bytes | None
    value: bytes | None
    record_time_ms: int


class LogOptions(NamedTuple):
    """The options of a check.

    ``starts`` are the offsets at which partitions begin. A partition that begins above 0 has lost its
    beginning. ``ended`` says that nothing will come after the last record, so whatever is not complete there
    is a breach. ``pushed`` has the transactions that were ever pushed, ``None`` when they are not known.
    ``ahead_ms`` is how far ops may be above their record's time.
    """

    partitions: int
    starts: Mapping[int, int] = {}
    ended: bool = False
    pushed: frozenset[TxnId] | None = None
    ahead_ms: int = AHEAD_MS
    limits: CheckLimits = CheckLimits()


class Seen(NamedTuple):
    """The counts of a check, and the sentences about what it could not decide."""

    records: int
    ranges: int
    holes: int
    copies: int
    undecided: tuple[str, ...]


class LogCheck:
    """The check of a log. ``report`` is called with every breach as soon as the log shows it.

    The records of a partition must come in order. Partitions should be read side by side: a child's entries
    are kept in memory until its parent's log, in another partition, has been read up to the index that the
    child names.
    """

    def __init__(self, options: LogOptions, report: Callable[[Breach], object]) -> None:
        self._options = options
        self._report_to = report
        #: The partitions that have lost their beginning.
        self._cut = frozenset(number for number, start in options.starts.items() if start > 0)
        self._ranges: dict[RangeId, RangeCheck] = {}
        self._waiting = WaitingRanges()
        self._times: dict[int, int] = {}
        self._records = 0
        self._lineage = Lineage(self._is_gone, self._has_passed, options.limits)
        newest = NewestVersions(options.limits.keys)
        self._shared = Shared(self._report, self._lineage, newest, options.limits)
        self._descriptors = DescriptorCheck(options.partitions, self._cut, self._report)
        self._committed_at: Recent[TxnId, Timestamp] = Recent(options.limits.committed)
        self._undecided: list[str] = []
        #: The number of ranges that were checked without their parents.
        self._gave_up = 0

    def check_next(self, record: CheckedRecord) -> None:
        """Check the next record of its partition."""
        self._records += 1
        place = record.place
        self._times[place.partition] = max(record.record_time_ms, self._times.get(place.partition, 0))
        try:
            entry = decode_entry(record.key, record.value)
        except MalformedEntry as error:
            self._report(Rule.READABLE, str(error), place)
            return
        if isinstance(entry, DescriptorUpdate):
            self._descriptors.take_broadcast(entry, place, record.record_time_ms)
        else:
            self._take_ranged(entry, record)
        if len(self._waiting) and self._records % _LOOK_EVERY == 0:
            self._give_up_waiting()

    def finish(self) -> Seen:
        """End the check, and report the breaches that only the end shows. Returns the counts of the check."""
        ended = self._options.ended
        for range_id in sorted(self._waiting.ids()):
            if ended and not self._cut:
                sentence = f"range {range_id} waits for a parent that never came so far"
                self._report(Rule.LINEAGE, sentence, None)
            else:
                self._give_up(range_id, f"range {range_id} waits for a parent that has not come so far")
        self._tell_what_was_forgotten()
        self._descriptors.finish(self._horizon_ms, ended=ended)
        if ended:
            self._check_coverage()
        elif self._records:
            self._undecided.append(
                "the log goes on: whether its ranges hold every key between them was not looked at (--ended)"
            )
        if self._cut:
            cut = ", ".join(map(str, sorted(self._cut)))
            self._undecided.append(
                f"partition {cut} has lost its beginning: what stood there is taken for sound. Ranges begin "
                "at the first Snapshot that is left; which keys and descriptors there were is not known"
            )
        checks = self._ranges.values()
        return Seen(
            self._records,
            len(self._ranges),
            sum(check.holes for check in checks),
            sum(check.copies for check in checks),
            tuple(self._undecided),
        )

    # ---- ranges

    def _take_ranged(self, entry: Entry, record: CheckedRecord) -> None:
        assert not isinstance(entry, DescriptorUpdate)
        place, range_id = record.place, entry.range_id
        if place.partition != partition_of(range_id, self._options.partitions):
            self._report(
                Rule.PARTITION,
                f"range {range_id} stands in partition {place.partition} of {self._options.partitions}",
                place,
            )
        if range_id not in self._ranges:
            is_cut = place.partition in self._cut
            self._ranges[range_id] = RangeCheck(range_id, self._shared, is_cut=is_cut)
        check = self._ranges[range_id]
        self._lineage.credit.earn(_listed(entry))
        check.check_next(Stood(entry, place, hash(record.value)))
        self._note_waiting(range_id)
        self._resume_waiting()
        self._check_record(entry, record)

    def _note_waiting(self, range_id: RangeId) -> None:
        """Note for which parent a range waits, or that it waits for none."""
        parent = self._ranges[range_id].awaited
        if parent is None:
            self._waiting.remove(range_id)
        else:
            self._waiting.add(range_id, parent, self._horizon_ms)

    def _resume_waiting(self) -> None:
        """Check the entries of ranges whose parents' estates are known now, and then of ranges that waited
        for those.
        """
        news = self._lineage.news
        while news and len(self._waiting):
            for range_id in self._waiting.on(news.popleft()):
                self._ranges[range_id].resume()
                self._note_waiting(range_id)
        news.clear()

    def _give_up_waiting(self) -> None:
        for range_id in self._waiting.since(self._horizon_ms - _PARENT_LIMIT_MS):
            self._waiting.remove(range_id)
            sentence = f"range {range_id} has waited 600 s for a parent that did not come so far"
            if not self._cut:
                self._report(Rule.LINEAGE, sentence, None)
            self._give_up(range_id, sentence)
        self._resume_waiting()

    def _give_up(self, range_id: RangeId, sentence: str) -> None:
        """Check the entries of a range without its parent."""
        count = self._ranges[range_id].give_up()
        self._gave_up += 1
        if self._gave_up <= _WAITED_SHOWN:
            self._undecided.append(f"{sentence}: {count} of its entries were checked without it")

    @property
    def _horizon_ms(self) -> int:
        """The record time of the slowest partition: everything before it has been read."""
        return min(self._times.values(), default=0)

    def _is_gone(self, parent: Parent) -> bool:
        """Whether the log will never show an index of a range: it skips the index, or begins after it."""
        check = self._ranges.get(parent.range_id)
        if check is None:
            return False
        is_cut = partition_of(parent.range_id, self._options.partitions) in self._cut
        first = check.first_index
        return check.skipped(parent.last_index) or (
            is_cut and first is not None and first > parent.last_index
        )

    def _has_passed(self, parent: Parent) -> bool:
        """Whether the log of a range has been checked up to an index."""
        check = self._ranges.get(parent.range_id)
        return check is not None and check.applied >= parent.last_index

    def _tell_what_was_forgotten(self) -> None:
        if self._gave_up > _WAITED_SHOWN:
            self._undecided.append(
                f"{self._gave_up - _WAITED_SHOWN} more ranges were checked without their parents"
            )
        if self._lineage.undecided:
            self._undecided.append(
                f"{self._lineage.undecided} Snapshots after splits and merges were not compared with all "
                "that their parents had: of splits, merges and ends, and of the transactions that were open "
                "there, a bounded number is remembered"
            )

    def _check_coverage(self) -> None:
        """Check that every key that a first range had belongs to exactly one range in the end."""
        checks = self._ranges.values()
        held = sorted(check.span for check in checks if check.span is not None)
        for left, right in pairwise(held):
            if left.end > right.start:
                self._report(Rule.LINEAGE, f"{_text(left)} and {_text(right)} overlap", None)
        first = (check.first_span for check in checks if check.first_span is not None)
        if not self._cut and _joined(held) != _joined(first):
            self._report(Rule.LINEAGE, "the ranges do not hold the keys that the first ones held", None)

    # ---- records

    def _check_record(self, entry: Entry, record: CheckedRecord) -> None:
        if isinstance(entry, Command | Heartbeat | Snapshot) and entry.closed is not None:
            ahead_ms = entry.closed.wall_ms - record.record_time_ms
            if ahead_ms > AHEAD_MS:
                self._report(
                    Rule.CLOSED_AHEAD,
                    f"range {entry.range_id} closes {entry.closed}, {ahead_ms} ms above the record's time",
                    record.place,
                )
        if isinstance(entry, Snapshot):
            for update in entry.descriptors:
                self._descriptors.check_bytes(update, record.place)
        elif isinstance(entry, ScanChunk):
            self._check_rows(entry, record.place)
        elif isinstance(entry, Command):
            for op in entry.ops or ():
                self._check_op(op, record)

    def _check_rows(self, chunk: ScanChunk, place: BreachPlace) -> None:
        if not chunk.all_versions and len({row.key for row in chunk.rows}) < len(chunk.rows):
            self._report(Rule.SCAN, f"range {chunk.range_id}: it shows more than the newest of a key", place)

    def _check_op(self, op: Op, record: CheckedRecord) -> None:
        place, pushed = record.place, self._options.pushed
        if isinstance(op, AbortTxn):
            if pushed is not None and op.txn_id not in pushed:
                self._report(Rule.PUSHED, f"{op.txn_id.hex()} was not pushed", place)
            return
        if isinstance(op, AbortIntent | DeleteRange):
            return
        if op.timestamp.wall_ms > record.record_time_ms + self._options.ahead_ms:
            sentence = f"{op_text(op)} at record time {record.record_time_ms}"
            self._report(Rule.RECORD_TIME, sentence, place)
        if isinstance(op, WriteValue | CommitIntent):
            self._descriptors.check_row(op, place)
        if isinstance(op, CommitIntent):
            at = self._committed_at.get(op.txn_id)
            if at is None:
                self._committed_at.put(op.txn_id, op.timestamp)
            elif at != op.timestamp:
                self._report(
                    Rule.COMMIT_TIME, f"{op.txn_id.hex()} commits at {at} and at {op.timestamp}", place
                )

    def _report(self, rule: Rule, sentence: str, place: BreachPlace | None) -> None:
        self._report_to(Breach(rule, brief(sentence), place))


def check_log(records: Iterable[CheckedRecord], options: LogOptions) -> list[Breach]:
    """Return every breach of the contract in a log. The records of a partition must come in order."""
    breaches: list[Breach] = []
    check = LogCheck(options, breaches.append)
    for record in records:
        check.check_next(record)
    check.finish()
    return breaches


def _listed(entry: Entry) -> int:
    """Return how many ops or intents an entry has."""
    if isinstance(entry, Command):
        return len(entry.ops or ())
    return len(entry.intents) if isinstance(entry, Snapshot) else 0


def _text(span: Span) -> str:
    return f"[{span.start.hex()}, {span.end.hex()})"


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Return the same keys in as few spans as possible."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined
