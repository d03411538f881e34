"""Checks the log of one range against the log contract, entry by entry."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tidegate.hlc import ZERO, Timestamp
from tidegate.logcheck.breach import BreachPlace, Rule
from tidegate.logcheck.lineage import Estate, Lineage
from tidegate.logcheck.memory import (
    CheckedTxn,
    CheckLimits,
    CommandMemory,
    NewestVersion,
    NewestVersions,
    Recent,
    ScannedSpans,
)
from tidegate.logcheck.op_text import op_text
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    AbortIntent,
    AbortTxn,
    Command,
    CommitIntent,
    DeleteRange,
    Entry,
    Generation,
    Heartbeat,
    HistoryMutation,
    Op,
    Parent,
    RaftIndex,
    RangeEnd,
    RangeId,
    ScanChunk,
    Snapshot,
    SnapshotReason,
    Trigger,
    TxnId,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.spans import Span

Report: TypeAlias = Callable[[Rule, str, BreachPlace | None], None]
_HAND_OVER = (Trigger.SPLIT, Trigger.MERGE)
_ANCESTORS = 64
_COPIES = 16
_SKIPPED = 100  # how many skipped parts of a range's log are remembered


class Stood(NamedTuple):
    """An entry, its place, and a hash of its bytes (0: not known)."""

    entry: Entry
    place: BreachPlace
    digest: int = 0


class Shared(NamedTuple):
    """The parts that the checks of all ranges share."""

    report: Report
    lineage: Lineage
    newest: NewestVersions
    limits: CheckLimits


class RangeCheck:
    """The check of one range. It reports each breach, and goes on.

    Entries that cannot be checked yet, because a parent's log has not been checked far enough, wait for
    ``resume``.
    ``is_cut`` says that the partition has lost its beginning: then the range begins at the first Snapshot
    seen.
    """

    def __init__(self, range_id: RangeId, shared: Shared, *, is_cut: bool = False) -> None:
        self._range_id = range_id
        self._shared = shared
        self._lineage = shared.lineage
        self._is_cut = is_cut
        self._place: BreachPlace | None = None
        self._waiting: deque[Stood] = deque()
        self._waits_no_more = False
        #: The number of parents that are known by now, of those that the first waiting entry names.
        self._known_parents = 0
        #: The number of entries that came again, and how many holes the range's log has.
        self.copies = 0
        self.holes = 0
        #: The first index that the log shows; ``None`` before it shows any.
        self.first_index: RaftIndex | None = None
        #: The keys of a range that came from no other range; ``None`` for any other range.
        self.first_span: Span | None = None
        self._head: Snapshot | None = None
        self._generation = Generation(0)
        self._applied = RaftIndex(0)
        self._ended = False
        self._triggered = False
        self._closed = ZERO
        self._high = ZERO
        #: ``_told`` is the mutation that the last Snapshot told; ``None`` if it told none. ``_mutated`` is
        #: the last command since then that changed data outside the op log. The command's own time must be
        #: above the time that is noted here.
        self._told: HistoryMutation | None = None
        self._mutated: HistoryMutation | None = None
        self._newest = shared.newest
        self._commands = CommandMemory()
        #: Hashes of the last Heartbeats, and of the first chunks of the last Snapshots.
        self._beats: deque[int] = deque(maxlen=_COPIES)
        self._heads: deque[int] = deque(maxlen=_COPIES)
        self._copying = False
        self._open: dict[TxnId, CheckedTxn] = {}
        self._aborted: Recent[TxnId, None] = Recent(shared.limits.aborted)
        #: Whether a parent may have had aborted transactions that are not known.
        self._lost_aborted = False
        self._scanned = ScannedSpans()
        #: Whether there may be versions and intents that the log has not shown.
        self._hole = False
        #: Whether there may be keys whose newest version was not shown. A newest version with a serial number
        #: above ``_known_since`` is known for certain.
        self._forgotten = False
        self._known_since = 0
        #: The ranges whose versions of this range's keys certainly came before its own versions. Each has the
        #: serial number up to which this is certain. A range whose log skips a split or merge, or has
        #: lost its beginning, has no certain order with others.
        self._ancestors: dict[RangeId, int] = {}
        #: Whether the next Snapshot's ``high`` may be above all versions shown: data was changed outside the
        #: ops.
        self._was_mutated = False
        self._skipped: list[range] = []
        #: Whether the Snapshot that has begun is of the known generation, so that its parents are not new.
        self._repeats = False
        self._chunks: list[Snapshot] = []

    @property
    def span(self) -> Span | None:
        """The keys that the range has now; ``None`` if it has none."""
        return None if self._head is None or self._ended else self._head.span

    @property
    def applied(self) -> RaftIndex:
        """The index up to which the range's log was checked."""
        return self._applied

    @property
    def awaited(self) -> Parent | None:
        """The parent that the range waits for; ``None`` if it does not wait."""
        if not self._waiting:
            return None
        head = self._waiting[0].entry
        assert isinstance(head, Snapshot)
        return head.parents[self._known_parents]

    def skipped(self, index: RaftIndex) -> bool:
        """Whether the log has skipped a raft index on purpose, by a snapshot."""
        return any(index in skipped for skipped in self._skipped)

    def check_next(self, stood: Stood) -> None:
        """Check the range's next entry, or keep it while the range waits for a parent."""
        self._waiting.append(stood)
        self.resume()

    def resume(self) -> None:
        """Check the entries that were kept, as far as possible now."""
        while self._waiting and self._can_take(self._waiting[0].entry):
            self._known_parents = 0
            self._check(self._waiting.popleft())

    def give_up(self) -> int:
        """Check all entries that were kept, without their parents. Returns how many waited."""
        count = len(self._waiting)
        self._waits_no_more = True
        self.resume()
        self._waits_no_more = False
        return count

    def _can_take(self, entry: Entry) -> bool:
        if not isinstance(entry, Snapshot) or self._waits_no_more or self._passes_over(entry):
            return True
        while self._known_parents < len(entry.parents):
            parent = entry.parents[self._known_parents]
            if parent.range_id != self._range_id and not self._lineage.is_known(parent):
                return False
            self._known_parents += 1
        return True

    def _passes_over(self, head: Snapshot) -> bool:
        """Whether a Snapshot comes again, so that readers take only its GC threshold."""
        if self._head is None or head.generation > self._generation or self._chunks:
            return False
        return head.raft_index < self._applied or (self._ended and head.raft_index == self._applied)

    def _is_copied(self, chunk: Snapshot, digest: int) -> bool:
        """Whether a chunk belongs to a copy of one of the last Snapshots. The first chunk decides that."""
        if self._triggered or self._chunks:
            return False
        if chunk.chunk == 0:
            self._copying = bool(digest) and digest in self._heads
        return self._copying

    def _begins_again(self, chunk: Snapshot) -> bool:
        """Whether a first chunk begins again the snapshot that is not complete yet, as after a crash.

        Then the chunks from before the crash do not count. A first chunk with other content is reported.
        """
        first = self._chunks[0] if self._chunks else None
        if first is None or _whole(chunk) != _whole(first):
            return False
        same = chunk == first
        self._require(same, Rule.COPY, "the first chunk of a snapshot comes again with other content")
        self.copies += len(self._chunks)
        self._chunks = [chunk]
        return True

    def _is_copy(self, stood: Stood) -> bool:
        """Whether an entry comes again, as after a crash of the source.

        A command that comes again with other content is reported.
        """
        entry = stood.entry
        if self._head is None:
            return False
        if isinstance(entry, Snapshot):
            passed_over = self._passes_over(entry)
            if passed_over and entry.generation == self._generation and not self._ended:
                self._require_closed(f"a snapshot at index {entry.raft_index}", entry.closed)
            return passed_over or self._is_copied(entry, stood.digest)
        if isinstance(entry, Command):
            if entry.raft_index > self._applied:
                return False
            same = not self._commands.differs(entry.raft_index, stood.digest, self._applied)
            self._require(same, Rule.COPY, f"index {entry.raft_index} comes again with other content")
            if entry.generation == self._generation:
                self._require_closed(f"index {entry.raft_index}", entry.closed)
            return True
        if self._triggered or self._chunks:
            return False
        if isinstance(entry, Heartbeat):
            late = entry.covers < self._applied and entry.closed <= self._closed
            return late or (bool(stood.digest) and stood.digest in self._beats)
        if isinstance(entry, ScanChunk):
            return entry.raft_index < self._applied
        return isinstance(entry, RangeEnd) and self._ended and entry.last_index == self._applied

    def _require_closed(self, what: str, again: Timestamp | None) -> None:
        """Report an entry that comes again if it closes more than the range has closed."""
        if again is not None and again > self._closed:
            self._report(
                Rule.COPY,
                f"{what} comes again and closes {again}, above {self._closed}: the store began anew, or was "
                "restored, and goes on in the log of its former self",
            )

    def _check(self, stood: Stood) -> None:
        entry, self._place = stood.entry, stood.place
        if self._head is None and self._is_cut and not isinstance(entry, Snapshot):
            return  # the Snapshot before it is gone
        if self._is_copy(stood):
            self.copies += 1
            return
        if isinstance(entry, Snapshot):
            self._snapshot(entry, stood.digest)
            return
        self._require(not self._chunks, Rule.SNAPSHOT, "its chunks do not stand together")
        self._require(not self._ended, Rule.END, f"a {type(entry).__name__} follows")
        if self._head is None:
            self._report(Rule.FIRST, f"begins with a {type(entry).__name__}")
            return
        self._require(not self._triggered, Rule.TRIGGER, f"a {type(entry).__name__} follows its trigger")
        self._triggered = False
        if isinstance(entry, Command):
            self._check_generation(entry.generation)
            self._commands.note(entry.raft_index, stood.digest)
            self._command(entry)
        elif isinstance(entry, Heartbeat):
            self._beats.append(stood.digest)
            self._check_generation(entry.generation)
            self._require(entry.covers == self._applied, Rule.DENSE, f"a heartbeat covers {entry.covers}")
            self._close(entry.closed)
        elif isinstance(entry, ScanChunk):
            self._check_generation(entry.generation)
            self._scan(entry, self._head.span)
        elif isinstance(entry, RangeEnd):
            self._check_generation(entry.generation)
            self._require(entry.last_index == self._applied, Rule.DENSE, f"it ends at {entry.last_index}")
            self._ended = True
            self._leave()

    def _report(self, rule: Rule, what: str) -> None:
        sentence = f"range {self._range_id} at index {self._applied}: {what}"
        self._shared.report(rule, sentence, self._place)

    def _require(self, holds: bool, rule: Rule, what: str) -> None:
        if not holds:
            self._report(rule, what)

    def _check_generation(self, generation: Generation) -> None:
        same = generation == self._generation
        self._require(same, Rule.GENERATION, f"{generation} in generation {self._generation}")

    # ---- snapshots ----

    def _snapshot(self, chunk: Snapshot, digest: int) -> None:
        if chunk.chunk == 0:
            if self._begins_again(chunk):
                return
            self._heads.append(digest)
        self._require(not self._ended, Rule.END, "a Snapshot follows")
        if not self._chunks:
            self._begin_snapshot(chunk)
        first = self._chunks[0] if self._chunks else chunk
        self._require(
            chunk.chunk == len(self._chunks), Rule.SNAPSHOT, f"chunk {len(self._chunks)} is missing"
        )
        same = chunk._replace(chunk=0, intents=(), descriptors=()) == first._replace(
            chunk=0, intents=(), descriptors=()
        )
        self._require(same, Rule.SNAPSHOT, "its chunks differ")
        self._chunks.append(chunk)
        if len(self._chunks) == chunk.chunks:
            self._end_snapshot(self._chunks)
            self._chunks = []

    def _begin_snapshot(self, head: Snapshot) -> None:
        """Begin a snapshot, and check its head.

        It is compared with the known facts about the range, or with its parents' estates. After a hole it
        is only checked that its generation and its times do not fall.
        """
        follows = self._head is None or head.raft_index == self._applied
        skips = head.reason is SnapshotReason.RAFT_SNAPSHOT and head.raft_index > self._applied
        self._require(follows or skips, Rule.DENSE, f"a snapshot at {head.raft_index}")
        if skips and self._head is not None:
            self._skipped.append(range(self._applied + 1, head.raft_index + 1))
            del self._skipped[:-_SKIPPED]
            self._lineage.skip(self._range_id, head.raft_index)
            self._commands = CommandMemory()
            self.holes += 1
        begins_cut = self._head is None and self._is_cut and not self._knows_parents(head)
        known = self._head is not None and head.generation == self._generation
        self._repeats = known and not self._triggered
        if self.first_index is None:
            self.first_index = head.raft_index
            self._lineage.skip(self._range_id, RaftIndex(head.raft_index - 1))
        hides = self._hole or skips or begins_cut
        if head.last_mutation is not None:
            self._check_mutation(head, head.last_mutation, hides=hides)
        if hides:
            self._forget(head)
        elif head.parents and not self._repeats:
            self._inherit(head)
        elif self._head is None:
            self._high, self.first_span = head.high, head.span
            self._require(head.reason is SnapshotReason.INITIAL, Rule.LINEAGE, "it comes from nowhere")
        else:
            self._require(head.span == self._head.span, Rule.SNAPSHOT, "the span changed")
            self._check_generation(head.generation)
            self._require(not self._triggered, Rule.TRIGGER, "no new generation follows its trigger")
        self._head, self._triggered = head, False
        self._generation, self._applied = head.generation, head.raft_index
        if self._was_mutated:
            self._was_mutated, self._high = False, max(self._high, head.high)
        self._require(head.high == self._high, Rule.SNAPSHOT, f"high is {head.high}, not {self._high}")
        self._told, self._mutated = head.last_mutation, None
        self._close(head.closed)
        below = head.gc_threshold <= self._closed
        self._require(below, Rule.SNAPSHOT, f"the GC threshold {head.gc_threshold} is not closed")

    def _check_mutation(self, head: Snapshot, told: HistoryMutation, *, hides: bool) -> None:
        """Check the mutation that a Snapshot tells against the known ones of the range and its parents.

        A hole (``hides``) may hide a later mutation, so only the order of times is checked then.
        """
        estates = [self._lineage.of(parent) for parent in head.parents if parent.range_id != self._range_id]
        known = [estate for estate in estates if estate is not None]
        others = [estate.told for estate in known if estate.told is not None]
        earlier = max([self._told or NEVER_MUTATED, *others], key=_time_of)
        above = [each for each in (self._mutated, *(estate.mutated for estate in known)) if each is not None]
        later = all(told.time > each.time for each in above)
        hides = hides or any(estate is None or estate.hole or estate.told is None for estate in estates)
        if above or hides or (head.parents and self._head is not None and self._told is None):
            self._require(told.time >= earlier.time, Rule.MUTATION, f"it falls from {earlier} to {told}")
            self._require(later, Rule.MUTATION, f"{told} is not above what was closed or told before")
        elif self._head is not None or head.parents:
            own = self._told is not None and earlier == self._told
            expected = earlier if own else earlier._replace(raft_index=RaftIndex(0))
            self._require(told == expected, Rule.MUTATION, f"it tells {told}, and not {expected}")
        if self._mutated is not None and len(above) == 1 and not hides:
            is_own = told.raft_index == self._mutated.raft_index
            self._require(
                is_own, Rule.MUTATION, f"it tells {told}, and not that at {self._mutated.raft_index}"
            )
        self._require(told.raft_index <= head.raft_index, Rule.MUTATION, f"{told} is behind the snapshot")

    def _forget(self, head: Snapshot) -> None:
        self._require(head.generation >= self._generation, Rule.GENERATION, f"it falls to {head.generation}")
        self._require(head.high >= self._high, Rule.SNAPSHOT, f"high falls to {head.high}")
        self._high, self._known_since = head.high, self._newest.serial
        self._hole = self._forgotten = True

    def _knows_parents(self, head: Snapshot) -> bool:
        return bool(head.parents) and all(self._lineage.of(parent) is not None for parent in head.parents)

    def _inherit(self, head: Snapshot) -> None:
        """Begin with what the parents left, and check that it fits the Snapshot."""
        estates = [self._lineage.of(parent) for parent in head.parents]
        known = [estate for estate in estates if estate is not None]
        rises = all(head.generation > parent.generation for parent in head.parents)
        self._require(rises, Rule.GENERATION, f"{head.generation} is not above its parents'")
        own = Parent(self._range_id, self._generation, self._applied)
        self._require(
            self._head is None or (self._triggered and own in head.parents),
            Rule.TRIGGER,
            "no trigger before it",
        )
        lost = [parent for parent in head.parents if parent.range_id == self._range_id and parent != own]
        self._require(not lost, Rule.LINEAGE, "it comes from another index of its own")
        self._require(
            _holds(known, estates, head.span), Rule.LINEAGE, "its parents did not hold just its keys"
        )
        self._known_since = max([self._known_since, *(estate.known_since for estate in known)])
        for estate in known:
            for range_id, serial in estate.ancestors.items():
                self._ancestors[range_id] = max(serial, self._ancestors.get(range_id, 0))
        for range_id in sorted(self._ancestors, key=self._ancestors.__getitem__)[:-_ANCESTORS]:
            del self._ancestors[range_id]
        if any(map(self._lineage.is_undecided, head.parents)):
            self._lineage.undecided += 1
        self._take_transactions(known)
        self._closed = max([self._closed, *(estate.closed for estate in known)])
        self._high = max([self._high, *(estate.high for estate in known)])
        self._hole |= len(known) < len(estates) or any(estate.hole for estate in known)
        self._forgotten = self._hole or any(estate.forgotten for estate in known)
        if self._hole:
            self._require(head.high >= self._high, Rule.SNAPSHOT, f"high falls to {head.high}")
            self._high, self._known_since = head.high, self._newest.serial

    def _take_transactions(self, estates: list[Estate]) -> None:
        """Go on with the transactions that the parents left, or without them if they are too many to copy."""
        self._lost_aborted |= any(estate.stripped or estate.lost_aborted for estate in estates)
        self._open = {}
        self._aborted = Recent(self._shared.limits.aborted)
        self._hole = not self._lineage.credit.spend(sum(estate.entries for estate in estates))
        if self._hole:
            self._lost_aborted = True
            self._lineage.undecided += 1
            return
        for estate in estates:
            self._open |= estate.open
            self._aborted.put_all(estate.aborted, None)

    def _end_snapshot(self, chunks: list[Snapshot]) -> None:
        """Check the intents of all chunks of a snapshot, and go on with them."""
        head = chunks[0]
        intents = [intent for chunk in chunks for intent in chunk.intents]
        counts = Counter(intent.txn_id for intent in intents)
        for intent in intents:
            known = self._open.get(intent.txn_id)
            above = known is None or self._hole or intent.timestamp >= known.timestamp
            self._require(above, Rule.SNAPSHOT, f"an intent of {intent.txn_id.hex()} fell")
        begins = not head.parents and head.reason is SnapshotReason.INITIAL and not self._hole
        self._require(not (begins and intents), Rule.FIRST, "the first snapshot has intents")
        if not self._hole:
            self._require(self._agrees(head, counts), Rule.SNAPSHOT, "it lists other intents than are open")
        if (head.parents and not self._repeats) or self._hole:
            at = {intent.txn_id: intent.timestamp for intent in intents}
            self._open = {txn_id: CheckedTxn(count, at[txn_id]) for txn_id, count in counts.items()}
        self._hole = False

    def _agrees(self, head: Snapshot, counts: Counter[TxnId]) -> bool:
        if not head.parents or self._repeats:
            return len(counts) == len(self._open) and all(
                txn_id in self._open and self._open[txn_id].intents == count
                for txn_id, count in counts.items()
            )
        estates = [estate for estate in map(self._lineage.of, head.parents) if estate is not None]
        if len(estates) == 1:
            return estates[0].claim_intents(head.span, counts)
        if sum(len(estate.open) for estate in estates) > counts.total():
            return False  # each transaction has at least one intent
        total: Counter[TxnId] = Counter()
        for estate in estates:
            total.update({txn_id: txn.intents for txn_id, txn in estate.open.items()})
        return counts == total

    def _leave(self) -> None:
        assert self._head is not None
        copies = self._lineage.credit.spend(len(self._open) + len(self._aborted))
        estate = Estate(
            self._head.span,
            self._known_since,
            {**self._ancestors, self._range_id: self._newest.serial} if copies else {},
            dict(self._open) if copies else {},
            tuple(self._aborted) if copies else (),
            self._closed,
            self._high,
            self._forgotten,
            self._hole or not copies,
            self._told,
            self._mutated,
            stripped=not copies,
            lost_aborted=self._lost_aborted or self._aborted.forgot,
        )
        self._lineage.leave(Parent(self._range_id, self._generation, self._applied), estate)

    # ---- commands and scans ----

    def _command(self, entry: Command) -> None:
        expected = self._applied + 1
        self._require(entry.raft_index == expected, Rule.DENSE, f"index {entry.raft_index} follows")
        self._applied = entry.raft_index
        if entry.ops is None:
            self._known_since = self._newest.serial
            self._hole = self._forgotten = True
            self.holes += 1
        for op in entry.ops or ():
            self._op(op)
        if entry.mutates and not entry.at_write_timestamp:
            told = (self._told or NEVER_MUTATED).time
            self._mutated = HistoryMutation(entry.raft_index, max(self._closed, told))
        if entry.closed is not None:
            self._close(entry.closed)
        if entry.mutates:
            self._forgotten = self._was_mutated = True
            self._known_since = self._newest.serial
        if entry.trigger in _HAND_OVER:
            self._triggered = True
            self._leave()

    def _close(self, closed: Timestamp) -> None:
        self._require(closed >= self._closed, Rule.CLOSED_RISES, f"{closed} is closed after {self._closed}")
        self._closed = max(self._closed, closed)

    def _scan(self, chunk: ScanChunk, span: Span) -> None:
        self._require(chunk.raft_index == self._applied, Rule.DENSE, f"a scan at {chunk.raft_index}")
        if chunk.span.intersect(span) != chunk.span:
            self._report(Rule.IN_SPAN, f"a scan of {chunk.span}")
        self._require(
            chunk.upto <= self._closed, Rule.SCAN, f"it scans to {chunk.upto}, {self._closed} is closed"
        )
        places = [(row.key, row.timestamp) for row in chunk.rows]
        self._require(places == sorted(set(places)), Rule.SCAN, "its rows are out of order")
        after = chunk.after or ZERO
        asked = all(chunk.span.contains(key) and after < at <= chunk.upto for key, at in places)
        self._require(asked, Rule.SCAN, "it has rows that nobody asked for")
        self._scanned.note(chunk.span, chunk.upto)

    # ---- ops ----

    def _op(self, op: Op) -> None:
        if isinstance(op, WriteValue | WriteIntent | DeleteRange) and op.timestamp <= self._closed:
            self._report(Rule.ABOVE_CLOSED, f"{op_text(op)} with {self._closed} closed")
        if isinstance(op, WriteValue):
            self._version(op)
        elif isinstance(op, WriteIntent):
            txn = self._open.get(op.txn_id, CheckedTxn(0, op.timestamp))
            self._open[op.txn_id] = CheckedTxn(txn.intents + 1, max(txn.timestamp, op.timestamp))
        elif isinstance(op, UpdateIntent):
            self._move(op.txn_id, op.timestamp)
        elif isinstance(op, CommitIntent):
            self._commit(op)
        elif isinstance(op, AbortIntent):
            self._end(op.txn_id, may_be_unknown=op.txn_id in self._aborted)
        elif isinstance(op, AbortTxn):
            self._aborted.put(op.txn_id, None)
            self._open.pop(op.txn_id, None)
        elif isinstance(op, DeleteRange):
            self._forgotten = True  # later versions in its span replace a deletion, not the version before it
            self._known_since = self._newest.serial

    def _move(self, txn_id: TxnId, timestamp: Timestamp) -> None:
        txn = self._open.get(txn_id)
        if txn is not None and timestamp > txn.timestamp:
            self._open[txn_id] = CheckedTxn(txn.intents, timestamp)

    def _commit(self, op: CommitIntent) -> None:
        txn = op.txn_id.hex()
        self._require(op.txn_id not in self._aborted, Rule.AFTER_ABORT, f"{txn} commits")
        known = self._open.get(op.txn_id)
        if known is not None and op.timestamp < known.timestamp:
            self._report(Rule.COMMIT_TIME, f"{txn} at {known.timestamp} commits at {op.timestamp}")
        self._move(op.txn_id, op.timestamp)
        self._version(op)
        self._end(op.txn_id, may_be_unknown=op.txn_id in self._aborted)

    def _end(self, txn_id: TxnId, *, may_be_unknown: bool) -> None:
        txn = self._open.get(txn_id)
        if txn is None:
            known = may_be_unknown or self._hole or self._lost_aborted or self._aborted.forgot
            self._require(known, Rule.INTENT_COUNT, f"an intent of {txn_id.hex()} ends once too often")
            return
        if txn.intents > 1:
            self._open[txn_id] = CheckedTxn(txn.intents - 1, txn.timestamp)
        else:
            del self._open[txn_id]

    def _version(self, op: WriteValue | CommitIntent) -> None:
        assert self._head is not None
        if not self._head.span.contains(op.key):
            self._report(Rule.IN_SPAN, f"key {op.key.hex()}")
        upto = self._scanned.told(op.key, op.timestamp)
        if upto is not None:
            self._report(Rule.SCAN, f"{op.timestamp} of {op.key.hex()} after a scan to {upto}")
        if op.value is None:
            self._report(Rule.VALUE, f"{op.timestamp} of {op.key.hex()} has no value")
        self._check_previous(op)
        self._high = max(self._high, op.timestamp)
        self._newest.put(op.key, op.timestamp, op.value, self._range_id)

    def _stands_before(self, known: NewestVersion) -> bool:
        own = known.range_id == self._range_id
        return own or known.serial <= self._ancestors.get(known.range_id, 0)

    def _check_previous(self, op: WriteValue | CommitIntent) -> None:
        known = self._newest.get(op.key)
        if known is not None:
            if not self._stands_before(known):
                return
            if op.timestamp <= known.timestamp:
                self._report(Rule.VERSION_ORDER, f"{op.timestamp} of {op.key.hex()} after {known.timestamp}")
            if known.serial <= self._known_since:
                return
        elif self._forgotten or self._newest.forgot:
            return
        replaced = hash(b"") if known is None else known.value_hash
        if op.prev_value is not None and hash(op.prev_value) != replaced:
            self._report(Rule.VERSION_ORDER, f"{op.timestamp} of {op.key.hex()} replaces another version")


def _time_of(mutation: HistoryMutation) -> Timestamp:
    return mutation.time


def _whole(chunk: Snapshot) -> tuple[object, ...]:
    """Return the values by which the chunks of one snapshot are known."""
    return chunk.generation, chunk.raft_index, chunk.span, chunk.chunks


def _holds(known: list[Estate], estates: list[Estate | None], span: Span) -> bool:
    """Whether a range of ``span`` can have come from these estates: a part of one, or all of two neighbours.

    If not all estates are known, each known one must have keys of ``span``.
    """
    if len(known) < len(estates):
        return all(estate.span.overlaps(span) for estate in known)
    if len(known) == 1:
        return known[0].can_be_claimed(span)
    if len(known) != 2:
        return False
    left, right = sorted(estate.span for estate in known)
    return left.end == right.start and Span(left.start, right.end) == span
