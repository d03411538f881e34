"""Random histories of ranges: what a log may hold, in order and out of it, for `histories.Lockstep`.

Transactions hold several intents, move, commit late and abort. Ranges close, snapshot and break. Clocks
jump, and records are damaged. Everything follows from the seed.
"""

from __future__ import annotations

from random import Random
from typing import Final

from tests.hand_log import HandLog, HandRange, at, txn
from tests.logs import Record
from tests.unit.kernel.histories import Form, History, Table, damaged, feed_on
from tidegate.hlc import Timestamp
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    CommitIntent,
    DeleteRange,
    Generation,
    Op,
    OpenIntent,
    RaftIndex,
    Trigger,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)

_JUMPS_MS: Final = (-20_000, -1_000, 7_000, 40_000, 10**8, -(10**12))


class _Transaction:
    """An open transaction of one range."""

    def __init__(self, number: int, seconds: float) -> None:
        self.number = number
        self.seconds = seconds
        self.intents = 0


class _Range:
    """A range, its table, and its open transactions."""

    def __init__(self, log_range: HandRange, table: Table) -> None:
        self.hand = log_range
        self.table = table
        self.open: list[_Transaction] = []
        self.closed = 0.0


class Source:
    """Writes a history, entry by entry. ``badness`` is how often it breaks a rule of the log."""

    def __init__(self, random: Random, form: Form | None = None) -> None:
        self.random = random
        self.log = HandLog(1)
        self.seconds = 10.0
        self.badness = random.choice((0.0, 0.0, 0.01, 0.05))
        self.tables = [Table(random, 100 + number, form) for number in range(random.randint(1, 3))]
        self.log.describe(*(table.hand for table in self.tables))
        self.ranges = [self._range(7 + number, table) for number, table in enumerate(self.tables)]
        self._numbers = iter(range(1, 1 << 30))

    def _range(self, range_id: int, table: Table) -> _Range:
        return _Range(self.log.open_range(range_id, table.hand.span), table)

    def entry(self) -> int:
        """Write an entry, or several that belong together. Returns how many ops it has."""
        self.seconds += self.random.choice((0.0, 0.001, 0.25, 2.0))
        one = self.random.choice(self.ranges)
        what = self.random.random()
        if what < 0.75:
            return self._command(one)
        if what < 0.92:
            ahead, closes = self.random.choice((0, 0, 1, 3, -1)), self._closing(one)
            if ahead < 0 and self.random.random() >= self.badness:
                closes = 1.0  # behind what the range has applied nothing more may be closed
            one.hand.heartbeat(closes, one.hand.index + ahead)
        elif what < 0.95:
            intents = [
                OpenIntent(txn(each.number), b"anchor", b"k", at(each.seconds))
                for each in one.open
                for _ in range(each.intents)
            ]
            one.hand.snapshot(close=self._closing(one), high=one.hand.high, intents=intents)
        elif self.random.random() < self.badness * 4:
            self._break(one)
        return 1

    def _closing(self, one: _Range) -> float:
        one.closed = max(one.closed, self.seconds - self.random.choice((3.0, 3.0, 1.0, 0.0)))
        return one.closed if self.random.random() > 0.02 else one.closed - 1

    def _command(self, one: _Range) -> int:
        ops = [op for _ in range(self.random.choice((0, 1, 1, 2, 6))) for op in self._ops(one)]
        one.hand.apply(*ops, close=self._closing(one) if self.random.random() < 0.3 else None)
        return len(ops)

    def _ops(self, one: _Range) -> list[Op]:
        random, at_least = self.random, max(self.seconds, one.closed + 0.5)
        what = random.random()
        if random.random() < self.badness:
            return [self._forbidden(one)]
        if what < 0.3:
            return [WriteValue(*self._row(one, at_least), None, random.random() < 0.05)]
        if what < 0.55 or not one.open:
            if not one.open or random.random() < 0.5:
                one.open.append(_Transaction(next(self._numbers), at_least))
            each = random.choice(one.open)
            each.intents += 1
            anchor = b"" if random.random() < 0.05 else b"anchor%d" % each.number
            return [WriteIntent(txn(each.number), anchor, at(max(each.seconds, at_least)), at(at_least))]
        each = random.choice(one.open)
        if what < 0.65:
            each.seconds = max(each.seconds, at_least) + random.choice((0, 1))
            return [UpdateIntent(txn(each.number), at(each.seconds))]
        if what < 0.9:
            each.intents -= 1
            if not each.intents:
                one.open.remove(each)
            key, time, value = self._row(one, max(each.seconds, at_least))
            return [CommitIntent(txn(each.number), key, time, value, None, False)]
        if what < 0.95:
            each.intents -= 1
            if not each.intents:
                one.open.remove(each)
            return [AbortIntent(txn(each.number))]
        one.open.remove(each)
        return [AbortTxn(txn(each.number))]

    def _row(self, one: _Range, seconds: float) -> tuple[bytes, Timestamp, bytes]:
        key, value = one.table.pair(self.random)
        return key, at(seconds, self.random.choice((0, 0, 3))), value if self.random.random() < 0.9 else b""

    def _forbidden(self, one: _Range) -> Op:
        """An op that the rules forbid, or that only Python takes."""
        key, _, value = self._row(one, 1)
        return self.random.choice(
            (
                WriteValue(key, at(1), value),
                WriteValue(key, at(self.seconds + 200_000), value),
                WriteValue(b"\xff\xff\xff", at(self.seconds + 1), value),
                WriteValue(key, at(self.seconds + 1), None),
                WriteIntent(txn(1 << 40), b"a", at(1), at(1)),
                CommitIntent(txn(1 << 41), key, at(self.seconds + 1), value),
                AbortIntent(txn(1 << 42)),
                DeleteRange(b"\xf0", b"\xf1", at(self.seconds + 1)),
            )
        )

    def _break(self, one: _Range) -> None:
        """Write an entry that makes a hole, or that the kernel has to refuse for another reason."""
        hand, what = one.hand, self.random.randrange(8)
        if what == 0:
            hand.unreadable()
        elif what == 1:
            hand.index += 1
        elif what == 2:
            self.log.write(hand.command()._replace(generation=Generation(hand.generation + 1)))
        elif what == 3:
            self.log.write(hand.command()._replace(raft_index=RaftIndex(max(1, hand.index - 2))))
        elif what == 4:
            hand.apply(trigger=Trigger.ADD_SSTABLE)
        elif what == 5:
            self.log.write_bytes(0, self.random.choice((None, b"", b"\x00" * 8)), b"x")
        elif what == 6:
            hand.heartbeat(self.seconds + 200_000)
        else:
            self._run_ahead(one)

    def _run_ahead(self, one: _Range) -> None:
        """Write a version that is believed, since its record's time is as far ahead as it is."""
        key, value = one.table.pair(self.random)
        one.hand.index += 1
        ahead = at(self.seconds + 864_000)
        command = one.hand.command(WriteValue(key, ahead, value))
        self.log.write_bytes(0, encode_key(one.hand.id), encode_entry(command), ahead.wall_ms)


def log_history(seed: int, entries: int = 300) -> History:
    """The history of a seed, with about so many entries."""
    random = Random(seed)
    source = Source(random)
    for _ in range(entries):
        source.entry()
    feeds = tuple(feed_on(random, source.tables, f"feed-{number}") for number in range(random.randint(1, 2)))
    records = tuple(_as_delivered(random, record, source.badness) for record in source.log.partitions[0])
    later = feed_on(random, source.tables, "later")
    return History(records, feeds, later, random.choice((7, 60, 1000)))


def _as_delivered(random: Random, record: Record, badness: float) -> Record:
    if random.random() < 0.03:
        record = record._replace(timestamp=record.timestamp + random.choice(_JUMPS_MS))
    if random.random() < badness / 5 and record.value is not None:
        record = record._replace(value=damaged(random, record.value))
    return record
