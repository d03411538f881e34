"""Puts ranges back from their rows of state, and checks that the rows belong together.

If a changelog was lost or cut, its ranges must not count as ranges without open transactions: their resolved
timestamps would run ahead, and a marker would be wrong. The partition must not count as one without feeds
either: it would pass rows that the feeds want.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from tidegate.errors import StateError, StateMismatch, brief
from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.moving.partition_ranges import PartitionRanges
from tidegate.processor.state.digest import RowDigests, TableDigests, row_hash
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.row_pieces import is_later_piece
from tidegate.processor.state.state_codec import (
    EMPTY,
    Position,
    StoredRange,
    TableSizes,
    entry_range,
    is_chunk_key,
    is_range_key,
    is_told_key,
    read_chunk,
    read_intent,
    read_position,
    read_range,
)
from tidegate.processor.state.told_codec import read_told
from tidegate.raftlog.entry import Offset, RangeId, Snapshot
from tidegate.ranges.range_state import RangeStatus
from tidegate.ranges.tracked_txn import TrackedTxn

#: Each time this many transactions of a range were put back, some of them may leave memory.
_SETTLED_TXNS: Final = 1_000

_ADVICE: Final = (
    "A changelog of the application was deleted or cut, so the state cannot be read as a whole. Nothing was "
    "emitted. Restore that topic and delete the data directories; or stop all workers and delete all "
    "changelogs of the application and the data directories: the state is built again from the log then, and "
    "feeds that say so are to be created again"
)


class RangeRows:
    """Puts ranges back from rows of the tables ``ranges`` and ``intents``, which may come in any order.

    A transaction that comes after its range is put into it at once, and may leave memory again. So if a store
    gives the ranges first, there can be more transactions than memory holds. Raises ``StateError`` for rows
    that cannot be read, and ``StateMismatch`` for rows that do not belong together.
    """

    def __init__(self, ranges: PartitionRanges) -> None:
        self._ranges = ranges
        self._stored: dict[RangeId, StoredRange] = {}
        self._told: dict[RangeId, bytes] = {}
        self._chunks: dict[RangeId, dict[int, Snapshot]] = defaultdict(dict)
        self._early: dict[RangeId, list[TrackedTxn]] = defaultdict(list)
        self._found: Counter[RangeId] = Counter()

    def take_range(self, key: bytes, value: bytes) -> None:
        """Take a row of ``ranges``. Do not give it the position's row."""
        if is_chunk_key(key):
            range_id, number, chunk = read_chunk(key, value)
            self._chunks[range_id][number] = chunk
        elif is_told_key(key):
            self._told[entry_range(key)] = value
        else:
            item = read_range(key, value)
            self._stored[item.state.range_id] = item

    def take_intent(self, key: bytes, value: bytes) -> None:
        """Take a row of ``intents``."""
        range_id, txn = read_intent(key, value)
        item = self._stored.get(range_id)
        if item is None:
            self._early[range_id].append(txn)
        else:
            self._put(item, txn)

    def finish(self, position: Offset) -> None:
        """Check and restore the ranges, now that every row was taken. The partition is at ``position``."""
        for item in self._stored.values():
            range_id = item.state.range_id
            for txn in self._early.pop(range_id, ()):
                self._put(item, txn)
            _require_position(item, position)
            _put_chunks(item, self._chunks.pop(range_id, {}))
            _put_told(item, self._told.pop(range_id, None))
            _require_transactions(item, self._found[range_id])
            self._ranges.restore(item.state)
        for range_id in (*self._chunks, *self._told, *self._early):
            raise StateMismatch(f"Rows of range {range_id} are stored, but not the range itself. {_ADVICE}")

    def _put(self, item: StoredRange, txn: TrackedTxn) -> None:
        state, spill = item.state, self._ranges.table.spill
        state.resolver.queue.restore(txn)
        self._found[state.range_id] += 1
        if spill is not None and self._found[state.range_id] % _SETTLED_TXNS == 0:
            spill.settle([(state.range_id, state.resolver.queue)])


def require_written(
    partition: int, rows: Iterable[tuple[StateTable, bytes, bytes]], digests: RowDigests
) -> Position | None:
    """Return the position among ``rows``, after a check that these are the rows that were written with it.

    Only the position's row is parsed for that. The rows of each table are counted, and the sums of their
    hashes are compared. ``digests`` takes all rows except the position's and those of transactions. Raises
    ``StateMismatch`` for other rows, and ``StateError`` for a position of a newer version.
    """
    position, intents = None, 0
    found: Counter[StateTable] = Counter()
    given: set[StateTable] = set()
    for table, key, value in rows:
        given.add(table)
        if table is StateTable.INTENTS:
            intents += row_hash(table, key, value)
        elif key == POSITION_KEY and table is StateTable.RANGES:
            position = read_position(value)
        else:
            digests.add_changes((StateChange(table, key, value),))
            found[table] += (
                is_range_key(key) if table is StateTable.RANGES else not is_later_piece(key, value)
            )
    if position is None and given:
        tables = " and ".join(table.value for table in StateTable if table in given)
        raise StateMismatch(
            f"The ranges table of log partition {partition} lacks the partition's position, but rows of "
            f"{tables} are stored. {_ADVICE}"
        )
    sizes = TableSizes(found[StateTable.RANGES], found[StateTable.DESCRIPTORS], found[StateTable.FEEDS])
    _require_sizes(partition, EMPTY if position is None else position.sizes, sizes)
    _require_digests(partition, position, digests.digests(intents))
    return position


def read_named(partition: int, read: Callable[[], None], *, vouched: bool) -> None:
    """Call ``read``, which parses rows, and turn what it raises into ``StateError``.

    Earlier versions stored no digests, so nothing has ``vouched`` for their rows. If such rows cannot be read
    they may be damaged, so ``StateMismatch`` is raised then, as for any error that nobody foresaw.
    """
    try:
        read()
    except StateMismatch:
        raise
    except StateError as error:
        if vouched:
            raise
        raise StateMismatch(str(error)) from None
    except Exception as error:
        raise StateMismatch(
            f"The state of log partition {partition} cannot be read ({brief(repr(error))}). {_ADVICE}"
        ) from error


def _require_sizes(partition: int, stored: TableSizes, found: TableSizes) -> None:
    """Raise ``StateMismatch`` if a table has another number of rows than when the position was stored."""
    for name, had, has in zip(found._fields, stored, found, strict=True):
        if has != had:
            wrong = "rows are missing" if has < had else "rows that were removed are back"
            raise StateMismatch(
                f"The {name} table of log partition {partition} has {has} rows, but had {had} when the "
                f"partition's position was stored: {wrong}. {_ADVICE}"
            )


def _require_digests(partition: int, position: Position | None, found: TableDigests) -> None:
    """Raise ``StateMismatch`` if a table has other rows than when ``position`` was stored."""
    if position is None or position.digests is None:
        return
    for name, had, has in zip(found._fields, position.digests, found, strict=True):
        if has != had:
            raise StateMismatch(
                f"The {name} table of log partition {partition} has other rows than it had when the "
                f"partition's position was stored: their digest is {has:016x}, and was {had:016x}. {_ADVICE}"
            )


def _require_position(item: StoredRange, position: Offset) -> None:
    if item.offset > position:
        raise StateMismatch(
            f"Range {item.state.range_id} is stored as of log offset {item.offset}, but its partition only "
            f"came to {position}. {_ADVICE}"
        )


def _put_chunks(item: StoredRange, chunks: dict[int, Snapshot]) -> None:
    if sorted(chunks) != list(range(item.chunks)):
        raise StateMismatch(
            f"Range {item.state.range_id} has {item.chunks} chunks of a snapshot, but {len(chunks)} of them "
            f"are stored. {_ADVICE}"
        )
    item.state.chunks = [chunks[number] for number in range(item.chunks)]
    item.state.stored_chunks = tuple(item.state.chunks)


def _put_told(item: StoredRange, told: bytes | None) -> None:
    state = item.state
    if item.told_apart is (told is None):
        missing = "not what it tells others" if told is None else "what it told others is back"
        raise StateMismatch(f"Range {state.range_id} is stored, but {missing}. {_ADVICE}")
    if told is not None:
        read_told(state, told)
        state.stored_told = (state.promises, state.holes)


def _require_transactions(item: StoredRange, found: int) -> None:
    state = item.state
    if found != item.open_transactions or (found and state.status is not RangeStatus.LIVE):
        raise StateMismatch(
            f"Range {state.range_id} has {item.open_transactions} open transactions, but "
            f"{found} are stored. {_ADVICE}"
        )
