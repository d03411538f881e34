"""The way of rows without a query: a snapshot is decoded in pieces, whose size changes nothing."""

from __future__ import annotations

import pytest

from tests.unit.subscribe.consumer_run import DECODERS, plan_of
from tests.unit.subscribe.topic_histories import Commit, marker_record, record_bytes
from tidegate.hlc import Timestamp
from tidegate.subscribe import plain_path
from tidegate.subscribe.changes.key_rows import MemoryKeyRows
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.row_gate import RowGate
from tidegate.subscribe.subscription import Subscription, SubscriptionBatch, SubscriptionSource

PLACE = FeedPartition("accounts", 0)
#: Keys 0 to 8, of which every third is deleted again.
COMMITS = [
    *(Commit(Timestamp(5), key, (key, 10 * key, "a"), None) for key in range(9)),
    *(Commit(Timestamp(6), key, None, (key, 10 * key, "a")) for key in range(0, 9, 3)),
]


def snapshot(statement: str, key_rows: MemoryKeyRows, *, tells_before: bool) -> SubscriptionBatch:
    """The first batch of a statement."""
    gate = RowGate(DECODERS, [PLACE])
    for offset, commit in enumerate(COMMITS):
        gate.add_record(PLACE, FeedRecord(offset, *record_bytes(commit)))
    gate.add_record(PLACE, marker_record(len(COMMITS), Timestamp(9)))
    opening = gate.open()
    assert opening is not None
    source = SubscriptionSource("feed", tells_before, key_rows)
    batch = Subscription(plan_of(statement), Timestamp(7), source).advance(opening, gate.offsets())
    assert batch is not None
    return batch


@pytest.mark.parametrize("tells_before", [True, False])
@pytest.mark.parametrize(
    "statement",
    [
        "SUBSCRIBE accounts",
        "SUBSCRIBE accounts WITH (SNAPSHOT = false)",
        "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id)) WITH (PROGRESS)",
        "SUBSCRIBE accounts ENVELOPE DEBEZIUM (KEY (id))",
    ],
)
def test_a_snapshot_is_the_same_in_pieces_of_any_size(
    statement: str, tells_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_rows = MemoryKeyRows()
    whole = snapshot(statement, whole_rows, tells_before=tells_before)
    assert whole.is_snapshot == ("SNAPSHOT = false" not in statement)
    assert len(whole.rows) == (6 + ("PROGRESS" in statement) if whole.is_snapshot else 0)
    for rows in (1, 2, 3, 9, 10):
        monkeypatch.setattr(plain_path, "_DECODED_ROWS", rows)
        key_rows = MemoryKeyRows()
        assert snapshot(statement, key_rows, tells_before=tells_before) == whole
        assert [key_rows.replace(b"[%d]" % key, None) for key in range(9)] == [
            whole_rows.replace(b"[%d]" % key, None) for key in range(9)
        ]
        whole_rows = MemoryKeyRows()
        snapshot(statement, whole_rows, tells_before=tells_before)
