"""The rows that a subscription keeps by itself count with what others keep, in each form."""

from __future__ import annotations

import pytest

from tests.unit.serve.shared.memory_table import keys_at_one
from tests.unit.subscribe.consumer_run import DECODERS, plan_of
from tests.unit.subscribe.gate.memory_spill import MemorySpill
from tidegate.errors import LimitExceeded
from tidegate.hlc import ZERO, Timestamp
from tidegate.serve.kept_memory import KeptMemory, KeptShare
from tidegate.subscribe.gate.row_gate import GateStart, RowGate
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.subscription import Subscription, SubscriptionBatch, SubscriptionSource

#: Rows of the history, of about a kilobyte each.
ROWS = 1_000
HISTORY = keys_at_one(ROWS, "a" * 1_000)
#: Far less, and far more, than they take.
LITTLE, MUCH = 200_000, 100_000_000

#: Statements, whether records tell the row before, and whether rows stay behind the snapshot.
KEEPING = {
    "rows by key": ("SUBSCRIBE accounts AS OF 1", False, True),
    "rows by key without a snapshot": ("SUBSCRIBE accounts WITH (SNAPSHOT = false) AS OF 1", False, True),
    "rows by key of a query": ("SUBSCRIBE (SELECT id, note FROM accounts) AS OF 1", False, True),
    "rows for LIMIT": ("SUBSCRIBE (SELECT * FROM accounts ORDER BY id LIMIT 1) AS OF 1", True, True),
    "a snapshot of the table": ("SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id)) AS OF 1", True, False),
    "a snapshot of a query": ("SUBSCRIBE (SELECT id, note FROM accounts) AS OF 1", True, False),
    "a snapshot in an order": ("SUBSCRIBE accounts WITHIN TIMESTAMP ORDER BY note AS OF 1", True, False),
}
kept = pytest.mark.parametrize(("text", "tells_before", "stays"), KEEPING.values(), ids=KEEPING)


def batches_of(
    text: str, share: KeptShare | None, *, tells_before: bool, dialect: Dialect = Dialect.TIDEGATE
) -> tuple[Subscription, list[SubscriptionBatch]]:
    """Read the history to its end."""
    source = SubscriptionSource("feed", tells_before, share=share)
    subscription = Subscription(plan_of(text, dialect), Timestamp(1), source)
    gate = RowGate(DECODERS, HISTORY.partitions, GateStart(ZERO))
    batches: list[SubscriptionBatch] = []
    for place, record in HISTORY.records:
        gate.add_record(place, record)
        while (opening := gate.open()) is not None:
            batch = subscription.advance(opening, gate.offsets())
            if batch is not None:
                batches.append(batch)
    return subscription, batches


@kept
def test_what_is_kept_beyond_the_budget_ends_the_subscription(
    text: str, tells_before: bool, stays: bool
) -> None:
    with pytest.raises(LimitExceeded, match="all subscriptions together keep more than"):
        batches_of(text, KeptMemory(LITTLE).share(), tells_before=tells_before)


@kept
def test_what_is_kept_counts_as_long_as_it_is_there(text: str, tells_before: bool, stays: bool) -> None:
    kept_memory = KeptMemory(MUCH)
    subscription, batches = batches_of(text, kept_memory.share(), tells_before=tells_before)
    unbounded = batches_of(text, None, tells_before=tells_before)[1]
    assert [batch.rows for batch in batches] == [batch.rows for batch in unbounded]
    assert subscription.fingerprint
    if stays:
        assert ROWS * 1_000 < kept_memory.taken < ROWS * 5_000
    else:
        assert kept_memory.taken < LITTLE


@pytest.mark.parametrize(("text", "tells_before", "stays"), [each for each in KEEPING.values() if each[2]])
def test_what_one_keeps_is_missing_for_others_until_it_is_closed(
    text: str, tells_before: bool, stays: bool
) -> None:
    kept_memory = KeptMemory(ROWS * 7_000)
    shares = [kept_memory.share() for _ in range(8)]
    open_ones: list[object] = []
    with pytest.raises(LimitExceeded):
        open_ones.extend(batches_of(text, share, tells_before=tells_before) for share in shares)
    assert len(open_ones) > 1
    for share in shares:
        share.close()
    open_ones.append(batches_of(text, kept_memory.share(), tells_before=tells_before))


@pytest.mark.parametrize(
    "text",
    [
        "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id)) AS OF 1",
        "SUBSCRIBE (SELECT id, note FROM accounts) AS OF 1",
    ],
)
def test_a_chunk_of_a_snapshot_makes_room_for_the_next(text: str) -> None:
    spill = Spill(MemorySpill(), LITTLE, least_opening_bytes=0)
    source = SubscriptionSource("feed", tells_before=True, share=KeptMemory(2 * LITTLE).share())
    subscription = Subscription(plan_of(text), Timestamp(1), source, chunks=spill)
    gate = RowGate(DECODERS, HISTORY.partitions, GateStart(ZERO, parts_up_to=Timestamp(1)), spill=spill)
    rows = 0
    for place, record in HISTORY.records:
        gate.add_record(place, record)
        while (opening := gate.open()) is not None:
            batch = subscription.advance(opening, gate.offsets())
            while batch is not None:
                rows += len(batch.rows) if batch.is_partial or batch.is_snapshot else 0
                batch = subscription.following()
    assert rows == ROWS
