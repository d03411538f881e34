"""A source that shares no code with tidegate, and knows the page of the log contract alone, is understood."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.feeds import activation
from tests.logs import Record
from tests.unit.raftlog.page_source import (
    BEGIN_MS,
    DESCRIPTOR,
    MERGE,
    PARTITIONS,
    SPLIT,
    TABLE_END,
    TABLE_START,
    Columns,
    PageSource,
    Written,
    abort_intent,
    batched,
    commit_intent,
    field,
    open_intent,
    parent,
    row_key,
    row_prefix,
    row_value,
    update_intent,
    write_intent,
    write_value,
)
from tidegate.changefeed.definition.feed import FeedId
from tidegate.hlc import Timestamp
from tidegate.logcheck.breach import BreachPlace
from tidegate.logcheck.log_check import CheckedRecord, LogOptions, check_log
from tidegate.processor.reference import ReferenceEngine
from tidegate.rows import decode_descriptor

INITIAL, SPLIT_REASON, MERGE_REASON, PERIODIC = 1, 2, 3, 5
WHOLE = TABLE_START, TABLE_END
TXN = b"T" * 16


def _breaches(records: Iterable[Written], *, ended: bool = True) -> list[str]:
    checked = [
        CheckedRecord(BreachPlace(partition, offset), key, value, time_ms)
        for partition, offset, key, value, time_ms in records
    ]
    return [str(breach) for breach in check_log(checked, LogOptions(PARTITIONS, ended=ended, ahead_ms=0))]


def _read(records: Iterable[Written]) -> ReferenceEngine:
    engine = ReferenceEngine(PARTITIONS, [activation([decode_descriptor(DESCRIPTOR)])])
    for partition, offset, key, value, time_ms in records:
        engine.step(partition, [Record(offset, key, value, time_ms)])
    return engine


def _rows(engine: ReferenceEngine) -> dict[str, list[Any]]:
    """Return the rows by key, in the order in which they went out."""
    rows: dict[str, list[Any]] = {}
    for records in engine.output.values():
        for record in records:
            if record.key is not None:
                after = json.loads(record.value or b"null")["after"]
                rows.setdefault(record.key.decode(), []).append(after)
    return rows


def _resolved_ms(engine: ReferenceEngine) -> int:
    """Return up to where the feed is complete, in milliseconds after ``BEGIN_MS``."""
    return Timestamp(*engine.high_water(FeedId("feed"))).wall // 1_000_000 - BEGIN_MS


def test_one_range_of_rows_in_one_phase_and_heartbeats_is_enough() -> None:
    """The least that a source writes, with numbers and texts whose bytes have several forms."""
    rows: list[tuple[int, str, Columns]] = [
        (1, "x", [(3, 5), (4, "hi")]),
        (109, "y\0z", [(3, -7)]),
        (110, "", [(4, "")]),
        (-1, "n", [(3, 1 << 40)]),
        (-200, "neg", [(14, -300)]),
        (70_000, "long", [(3, 0), (4, "q" * 300), (14, 300)]),
    ]
    source = PageSource()
    source.snapshot((5, 1, 10), 100, WHOLE, 0, None, INITIAL)
    for number, (name, text, columns) in enumerate(rows):
        key, ms = row_key(name, text), 1_000 + number
        source.command((5, 1, 11 + number), ms, (write_value(key, ms, row_value(key, columns)),), closed=500)
    source.repeat(3)
    source.heartbeat((5, 1, 16), 4_000, closed=3_000)
    assert _breaches(source.records) == []
    engine = _read(source.records)
    assert (engine.incidents, engine.requests, _resolved_ms(engine)) == ([], [], 3_000)
    names = {3: "i", 4: "s", 14: "z"}
    empty = dict.fromkeys(names.values())
    assert _rows(engine) == {
        json.dumps([number, text]): [
            {"n": number, "t": text, **empty, **{names[column_id]: datum for column_id, datum in columns}}
        ]
        for number, text, columns in rows
    }


def test_transactions_over_a_split_and_a_merge_with_values_in_the_write_batch() -> None:
    first, second, third = row_key(1, "a"), row_key(500, "b"), row_key(501, "c")
    one, two, three = (row_value(first, [(3, 1)]), row_value(second, [(3, 2)]), row_value(first, [(3, 3)]))
    long_row, middle = row_value(third, [(4, "z" * 200)]), row_prefix(500)
    source = PageSource()
    source.snapshot((5, 1, 10), 100, WHOLE, 0, None, INITIAL)
    in_batch = field(14, field(1, batched(first, 1_000, one)))
    source.command((5, 1, 11), 1_000, (write_value(first, 1_000, None),), closed=500, more=in_batch)
    source.command((5, 1, 12), 1_100, (write_value(second, 1_100, two),), closed=600)
    intents = tuple(write_intent(TXN, first, 2_000) for _ in range(3))
    source.command((5, 1, 13), 2_000, intents, closed=1_500)
    source.command((5, 1, 14), 2_100, (update_intent(TXN, 2_050), abort_intent(TXN)))

    # The split: one intent stays, one goes. The child's snapshot has two chunks, in the other partition.
    source.command((5, 1, 15), 3_000, closed=2_500, more=SPLIT)
    left, right = (TABLE_START, middle), (middle, TABLE_END)
    born = parent(5, 1, 15)
    stays, goes = open_intent(TXN, first, first, 2_050), open_intent(TXN, first, third, 2_050)
    source.snapshot((5, 2, 15), 3_000, left, 2_500, 1_100, SPLIT_REASON, stays + born)
    source.snapshot((8, 2, 10), 3_000, right, 2_500, 1_100, SPLIT_REASON, born + field(10, 2))
    source.snapshot(
        (8, 2, 10), 3_000, right, 2_500, 1_100, SPLIT_REASON, goes + born + field(9, 1) + field(10, 2)
    )
    source.command((5, 2, 16), 4_000, (commit_intent(TXN, first, 2_050, three, one),), closed=3_500)
    source.command((8, 2, 11), 4_000, (commit_intent(TXN, third, 2_050, long_row),), closed=3_500)
    source.command((8, 2, 12), 5_200, (write_value(second, 5_200, b"", two),), closed=5_000)

    # The merge.
    source.end((8, 2, 12), 6_000)
    source.command((5, 2, 17), 6_000, closed=5_200, more=MERGE)
    both = parent(5, 2, 17) + parent(8, 2, 12)
    source.snapshot((5, 3, 17), 6_000, WHOLE, 5_200, 5_200, MERGE_REASON, both)
    source.heartbeat((5, 3, 17), 8_000, closed=7_500)
    source.snapshot((5, 3, 17), 8_100, WHOLE, 7_500, 5_200, PERIODIC)

    assert _breaches(source.records) == []
    engine = _read(source.records)
    assert (engine.incidents, engine.requests, _resolved_ms(engine)) == ([], [], 7_500)
    rows = _rows(engine)
    assert [row["i"] for row in rows['[1, "a"]']] == [1, 3]
    assert [row and row["i"] for row in rows['[500, "b"]']] == [2, None]
    assert [row["s"] for row in rows['[501, "c"]']] == ["z" * 200]
