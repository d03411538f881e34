"""Gives the records of a batch to a kernel, and to Python those that the kernel refuses.

The kernel takes *plain* records: commands without triggers and heartbeats, of live ranges that wait for
nothing and whose open transactions are in memory. What they change is written back to a range once for each
batch. Their rows go out when Python's rows would: at the end of the step, or before something changes on
which rows depend.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Final

from tidegate.errors import StateError
from tidegate.hlc import ClosedTimestamp, ResolvedTimestamp
from tidegate.processor.batch import LogRecord
from tidegate.processor.feeds.kernel_rows import KernelRows
from tidegate.processor.feeds.kernels import Kernel
from tidegate.processor.feeds.log_kernel import (
    Closing,
    Followed,
    LogState,
    MovedRange,
    MovedTxn,
    Named,
    NumberedTxn,
    PlainRange,
)
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.written_versions import WrittenRows, WrittenVersions
from tidegate.processor.processor_state import ProcessorState
from tidegate.raftlog.entry import Heartbeat, RaftIndex, RangeId, TxnId
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.version import Version

#: The kernel goes on after it has refused ``_REFUSALS_FREE`` records of a batch, and one more for each
#: ``_TAKEN_PER_REFUSAL`` records that it took.
_REFUSALS_FREE: Final = 8
_TAKEN_PER_REFUSAL: Final = 100
#: The kernel has to read again what it has read after a record that it refuses. So it is given the whole rest
#: of the batch only while refusals are free. Later it is given ``_GROWS`` times the bytes of the last round,
#: the refused record included, and ``_LEAST_BYTES`` at least. So all rounds together read a small multiple of
#: the batch.
_GROWS: Final = 2
_LEAST_BYTES: Final = 8 << 10
#: The kernel's work for a record besides its key and value, reckoned in bytes.
_RECORD_BYTES: Final = 64
#: The things of which a plain range has none.
_WAITS: Final = attrgetter("chunks", "awaits_snapshot", "floors")
_NO_TXNS: Final[Set[TxnId]] = frozenset()
_new: Final = tuple.__new__


class PlainRecords:
    """Applies records to the state of a partition by a kernel, with the same result as Python."""

    def __init__(self, state: ProcessorState, rows: KernelRows) -> None:
        self._state = state
        self._rows = rows
        self._table = state.ranges.table
        self._committed = state.ranges.committed
        self._horizon = state.ranges.entries.horizon
        #: When the rows of a batch have more bytes than this, Python takes the rest of its records: an entry
        #: may make too many bytes for a feed.
        self._most_bytes = 2 * state.row_limits.entry_bytes

    def apply_records(
        self,
        records: Sequence[LogRecord],
        receivers: Callable[[], Sequence[PartitionFeed]],
        by_python: Callable[[Sequence[LogRecord]], None],
    ) -> None:
        """Apply records; call ``by_python`` for those that are not plain.

        Rows are for the feeds that ``receivers`` returns at that moment.
        """
        at, refusals, taken, size, ends = 0, 0, 0, 0, _Ends(records)
        while (
            at < len(records)
            and refusals <= _REFUSALS_FREE + taken // _TAKEN_PER_REFUSAL
            and self._can_follow()
        ):
            kernel, end = self._rows.ready(receivers()), ends.next(at, all_of_it=refusals <= _REFUSALS_FREE)
            if kernel is not None:
                found = self._follow(kernel, records[at:end])
                if found is None:
                    break
                named, followed = found
                plain = records[at : at + followed.taken]
                at += followed.taken
                taken += followed.taken
                size += followed.size
                if self._rows.checks:
                    with self._compared(kernel, named, followed):
                        by_python(plain)
                else:
                    self._put_back(kernel, plain, named, followed)
            if size > self._most_bytes:
                break
            if at < end:
                by_python(records[at : at + 1])
                at, refusals = at + 1, refusals + 1
        if at < len(records):
            by_python(records[at:])

    def _can_follow(self) -> bool:
        """Whether a kernel can follow the log as the partition is now.

        It cannot while records come again after a restart, and when records are to be passed over.
        """
        state = self._state
        if state.read < state.position.offset:
            return False
        return not state.ranges.entries.reader.refused

    def _follow(self, kernel: Kernel, records: Sequence[LogRecord]) -> tuple[Named, Followed] | None:
        named = kernel.read(records)
        if named is None:
            return None
        followed = kernel.follow(self._state_for(named))
        return None if followed is None else (named, followed)

    # ---- what is given ----

    def _state_for(self, named: Named) -> LogState:
        found = [*map(self._plain, named.range_ids)]
        ids: dict[int, set[TxnId]] = {}
        txns: list[NumberedTxn] = []
        for number, (txn_id, place) in enumerate(zip(named.txn_ids, named.txn_ranges, strict=True)):
            state = found[place]
            txn = None if state is None else state.resolver.queue.get(txn_id)
            if txn is not None:
                ids.setdefault(place, set()).add(txn_id)
                txns.append(NumberedTxn(number, txn.refs, txn.timestamp, bool(txn.anchor_key)))
        ranges = [
            None if state is None else _given(state, ids.get(place, _NO_TXNS))
            for place, state in enumerate(found)
        ]
        return LogState(self._table.clock.reading(), self._horizon.believed, ranges, txns)

    def _plain(self, range_id: RangeId) -> RangeState | None:
        """Return a range if it is plain: live, with no entry or chunk to wait for, and no transaction
        spilled.
        """
        state = self._table.states.get(range_id)
        if (
            state is None
            or state.status is not RangeStatus.LIVE
            or any(_WAITS(state))
            or state.span is None
            or state.scan is not None
            or state.behind is not None
            or self._state.ranges.has_backlog(range_id)
            or not self._table.is_here(range_id)
        ):
            return None
        resolver = state.resolver
        if not resolver.initialised or resolver.queue.allow_negative or resolver.queue.spilled:
            return None
        return state

    # ---- what is put back ----

    def _put_back(
        self, kernel: Kernel, records: Sequence[LogRecord], named: Named, followed: Followed
    ) -> None:
        table = self._table
        for moved in followed.ranges:
            state = table.states[named.range_ids[moved.number]]
            if _only_closes(state, moved):
                table.close(state)
                resolver = state.resolver
                resolver.closed, resolver.resolved = moved.closed, moved.resolved  # type: ignore[assignment]
            else:
                table.touch(state.range_id)
                _move(state, moved)
        for txn in followed.txns:
            range_id = named.range_ids[named.txn_ranges[txn.number]]
            _change(self._table.states[range_id], named.txn_ids[txn.number], txn)
        self._table.clock.go_on(followed.clock)
        self._horizon.believed = followed.believed
        if followed.places:
            self._commit(kernel, records, followed)

    def _commit(self, kernel: Kernel, records: Sequence[LogRecord], followed: Followed) -> None:
        """Give the feeds the versions that were followed: as written rows, unless feeds have parted.

        Parted feeds may have gaps in single ranges, and hold versions back for their scans.
        """
        committed, plan = self._committed, self._rows.plan_number
        written = WrittenVersions(records, followed.places, followed.rows, followed.high, plan, [])
        if committed.parted:
            versions = kernel.versions() or written.versions()
            first = len(committed.shared)
            committed.rows.append(WrittenRows(first, first + len(versions), followed.rows, plan))
            for (range_id, _), of_entry in groupby(versions, _entry_of):
                self._state.ranges.entries.commit(self._table.states[range_id], [*of_entry])
        else:
            written.before, committed.shared = committed.shared, []
            committed.written.append(written)

    # ---- compared ----

    @contextmanager
    def _compared(self, kernel: Kernel, named: Named, followed: Followed) -> Iterator[None]:
        """Compare what Python does meanwhile with what the kernel found.

        Raises ``StateError`` for any difference: the process ends, and what differs is not written.
        """
        told = kernel.versions()
        shared, states = len(self._committed.shared), self._table.states
        before = {
            each.number: states[named.range_ids[each.number]].closed_regressions for each in followed.ranges
        }
        yield
        for moved in followed.ranges:
            state = states[named.range_ids[moved.number]]
            regressions = state.closed_regressions - before[moved.number]
            _require_equal(f"range {state.range_id}", _as_moved(moved, regressions, state), moved)
        for txn in followed.txns:
            txn_id, range_id = named.txn_ids[txn.number], named.range_ids[named.txn_ranges[txn.number]]
            known = states[range_id].resolver.queue.get(txn_id)
            reference = (0, None) if known is None else (known.refs, known.timestamp)
            ours = (txn.refs, txn.timestamp if txn.refs else None)
            _require_equal(f"transaction {txn_id.hex()} of range {range_id}", reference, ours)
        _require_equal("the log clock", self._table.clock.reading(), followed.clock)
        _require_equal("the horizon", self._horizon.believed, followed.believed)
        versions = self._committed.shared[shared:]
        _require_equal("versions", len(versions), len(followed.places))
        _require_equal("versions as told", versions, versions if told is None else told)
        if versions:
            _require_equal("rows", kernel.make_records(versions), followed.rows)


class _Ends:
    """Says where the records end that the kernel is given in a round.

    Example, when no more refusals are free: the kernel is given 40 KB, takes 10 KB, and refuses a record. In
    the next round it is given 20 KB.
    """

    def __init__(self, records: Sequence[LogRecord]) -> None:
        self._records = records
        #: The bytes of the records before each one. Most batches do not need them.
        self._sizes: list[int] = []
        self._begin = 0

    def next(self, at: int, *, all_of_it: bool) -> int:
        """Return the end of the round that begins with record ``at``. The round has that record at least."""
        begin, self._begin = self._begin, at
        if all_of_it:
            return len(self._records)
        sizes = self._sizes = self._sizes or [*accumulate(map(_bytes_of, self._records), initial=0)]
        room = max(_LEAST_BYTES, _GROWS * (sizes[at] - sizes[begin]))
        return max(at + 1, bisect_right(sizes, sizes[at] + room, at) - 1)


def _bytes_of(record: LogRecord) -> int:
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")


def _given(state: RangeState, named: Set[TxnId]) -> PlainRange:
    resolver = state.resolver
    queue = resolver.queue
    beside = queue.oldest_beside(named) if queue.in_memory > len(named) else None
    return _new(
        PlainRange,
        (
            state.generation,
            state.applied,
            resolver.closed,
            resolver.resolved,
            state.high,
            state.pending_heartbeat,
            None if beside is None else (beside.timestamp, beside.txn_id),
            state.span,
        ),
    )


def _entry_of(version: Version) -> tuple[RangeId, RaftIndex]:
    return version.range_id, version.raft_index


def _only_closes(state: RangeState, moved: MovedRange) -> bool:
    """Whether only the closed and the resolved timestamp of a range have changed."""
    _, applied, _, _, high, pends_anew, _, regressions, _ = moved
    return (
        applied == state.applied
        and high == state.high
        and not pends_anew
        and not regressions
        and not state.gaps
        and state.claimed_since_ms is None
    )


def _move(state: RangeState, moved: MovedRange) -> None:
    _, applied, closed, resolved, high, pends_anew, _, regressions, heard_ms = moved
    state.claimed_since_ms = None
    if state.gaps:
        state.heard_ms = heard_ms
    state.applied, state.high = applied, high
    resolver = state.resolver
    resolver.closed, resolver.resolved = ClosedTimestamp(closed), ResolvedTimestamp(resolved)
    state.closed_regressions += regressions
    if pends_anew:
        state.pending_heartbeat = _heartbeat(state, moved)


def _heartbeat(state: RangeState, moved: MovedRange) -> Heartbeat | None:
    if moved.pending is None:
        return None
    covers, closed = moved.pending
    return Heartbeat(state.range_id, state.generation, ClosedTimestamp(closed), covers)


def _change(state: RangeState, txn_id: TxnId, txn: MovedTxn) -> None:
    queue = state.resolver.queue
    if txn.dropped:
        queue.remove(txn_id)
    if txn.refs:
        queue.replace(txn_id, txn.refs, txn.timestamp, txn.anchor)


def _as_moved(moved: MovedRange, regressions: int, state: RangeState) -> MovedRange:
    """Return the range that ``moved`` is about as it is after Python has taken the batch."""
    resolver, pending = state.resolver, moved.pending
    if moved.pends_anew:
        beat = state.pending_heartbeat
        pending = None if beat is None else Closing(beat.covers, beat.closed)
    return MovedRange(
        moved.number,
        state.applied,
        resolver.closed,
        resolver.resolved,
        state.high,
        moved.pends_anew,
        pending,
        regressions,
        state.heard_ms if state.gaps and state.heard_ms is not None else moved.heard_ms,
    )


def _require_equal(what: str, reference: object, ours: object) -> None:
    if reference != ours:
        raise StateError(
            f"the kernel and Python differ in {what}: {repr(ours)[:500]} by the kernel, "
            f"{repr(reference)[:500]} by Python. This is a defect: set TIDEGATE_KERNEL=off, and please "
            "report it"
        )
