"""Ranges put back from their rows, and the checks that the rows belong together.

A changelog that was lost or cut must not pass for ranges without open transactions: their resolved
timestamps would run ahead, and a marker would lie. Nor for a partition without feeds: their rows would pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from tidegate.errors import StateError
from tidegate.processor.ranges import PartitionRanges
from tidegate.processor.state_codec import (
    EMPTY,
    POSITION_KEY,
    Position,
    StoredRange,
    TableSizes,
    is_chunk_key,
    read_chunk,
    read_intent,
    read_range,
)
from tidegate.raftlog.entry import Offset, RangeId, Snapshot
from tidegate.rangefeed.intent_queue import TrackedTxn
from tidegate.rangefeed.range_state import RangeStatus

_ADVICE: Final = (
    "A changelog of the application was deleted or cut, so the state cannot be read as a whole. Nothing was "
    "emitted. Restore that topic and delete the data directories; or stop all workers and delete all "
    "changelogs of the application and the data directories: the state is built again from the log then, and "
    "feeds that say so are to be created again"
)


def restore_ranges(
    ranges: PartitionRanges,
    range_rows: Iterable[tuple[bytes, bytes]],
    intent_rows: Iterable[tuple[bytes, bytes]],
    position: Offset,
) -> None:
    """Put the ranges of ``range_rows`` into ``ranges``; the position's row among them is passed over.

    Raises ``StateError`` for rows that cannot be read or do not belong together.
    """
    stored: list[StoredRange] = []
    chunks: dict[RangeId, dict[int, Snapshot]] = defaultdict(dict)
    for key, value in range_rows:
        if is_chunk_key(key):
            range_id, number, chunk = read_chunk(key, value)
            chunks[range_id][number] = chunk
        elif key != POSITION_KEY:
            stored.append(read_range(key, value))
    transactions = _by_range(intent_rows)
    for item in stored:
        state = item.state
        _require_position(item, position)
        _put_chunks(item, chunks.pop(state.range_id, {}))
        _put_transactions(item, transactions.pop(state.range_id, []))
        ranges.restore(state)
    for range_id in (*chunks, *transactions):
        raise StateError(f"Rows of range {range_id} are stored, but not the range itself. {_ADVICE}")


def require_sizes(partition: int, position: Position | None, found: TableSizes) -> None:
    """Refuse a restored state that has more or less than stood beside its ``position``, if that is there."""
    if position is None and any(found):
        tables = " and ".join(name for name, count in zip(found._fields, found, strict=True) if count)
        raise StateError(
            f"The ranges table of log partition {partition} lacks the partition's position, but rows of "
            f"{tables} are stored. {_ADVICE}"
        )
    stored = EMPTY if position is None else position.sizes
    for name, had, has in zip(found._fields, stored, found, strict=True):
        if has != had:
            wrong = "rows are missing" if has < had else "rows that were removed are back"
            raise StateError(
                f"The {name} table of log partition {partition} has {has} rows, but had {had} when the "
                f"partition's position was stored: {wrong}. {_ADVICE}"
            )


def _by_range(intent_rows: Iterable[tuple[bytes, bytes]]) -> dict[RangeId, list[TrackedTxn]]:
    found: dict[RangeId, list[TrackedTxn]] = defaultdict(list)
    for key, value in intent_rows:
        range_id, txn = read_intent(key, value)
        found[range_id].append(txn)
    return found


def _require_position(item: StoredRange, position: Offset) -> None:
    if item.offset > position:
        raise StateError(
            f"Range {item.state.range_id} is stored as of log offset {item.offset}, but its partition only "
            f"came to {position}. {_ADVICE}"
        )


def _put_chunks(item: StoredRange, chunks: dict[int, Snapshot]) -> None:
    if sorted(chunks) != list(range(item.chunks)):
        raise StateError(
            f"Range {item.state.range_id} has {item.chunks} chunks of a snapshot, but {len(chunks)} of them "
            f"are stored. {_ADVICE}"
        )
    item.state.chunks = [chunks[number] for number in range(item.chunks)]
    item.state.stored_chunks = tuple(item.state.chunks)


def _put_transactions(item: StoredRange, transactions: list[TrackedTxn]) -> None:
    state = item.state
    if len(transactions) != item.open_transactions or (transactions and state.status is not RangeStatus.LIVE):
        raise StateError(
            f"Range {state.range_id} has {item.open_transactions} open transactions, but "
            f"{len(transactions)} are stored. {_ADVICE}"
        )
    for txn in transactions:
        state.resolver.queue.restore(txn)
