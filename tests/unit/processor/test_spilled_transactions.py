"""A processor with a budget for open transactions does everything as one without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.feeds import activation
from tests.hand_log import HandLog, intent
from tests.unit.processor.driving import Driven, active
from tests.unit.processor.logs import PARTITIONS, PLAIN, bank_log
from tests.unit.ranges.spill_memory import MemorySpill
from tidegate.processor.batch import StateTable, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.ranges.intent_budget import TXN_BYTES, IntentBudget

_TXNS = 20_000


def budget(transactions: int) -> ProcessorConfig:
    """A budget for one partition."""
    return ProcessorConfig(spill=IntentBudget(transactions * TXN_BYTES, MemorySpill()).partition())


def comparable(result: StepResult) -> tuple[object, ...]:
    """All of a result."""
    changes = {(table, key): value for table, key, value in result.changes}
    rows = {feed: records for feed, records in result.outputs.items() if records}
    return result.offset, rows, changes, result.checkpoint, result.acks, result.incidents, result.requests


@given(
    seed=st.integers(0, 7),
    partition=st.integers(0, PARTITIONS - 1),
    batch=st.sampled_from([1, 3, 20]),
    room=st.integers(1, 4),
)
@examples(20)
def test_every_result_is_the_same(seed: int, partition: int, batch: int, room: int) -> None:
    log = bank_log(seed)
    records, feed = log.partitions[partition], activation(log.tables)
    plain = Driven(PartitionProcessor(partition, PARTITIONS))
    spilling = Driven(PartitionProcessor(partition, PARTITIONS, budget(room)))
    for driven in (plain, spilling):
        driven.control(feed)
        driven.run(records, batch)
    assert list(map(comparable, spilling.results)) == list(map(comparable, plain.results))
    assert spilling.processor.full_checkpoint() == plain.processor.full_checkpoint()


@pytest.fixture(scope="module")
def crowded() -> Driven:
    """A partition with many open transactions, all in memory."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    range_ = log.open_range(1, PLAIN.span)
    for first in range(0, _TXNS, 1_000):
        range_.apply(*(intent(number, 1 + number / 1_000) for number in range(first, first + 1_000)))
    driven = active(activation([PLAIN.descriptor]))
    driven.run(log.partitions[0], batch=4)
    return driven


def in_the_stores_order(driven: Driven) -> Iterator[tuple[StateTable, bytes, bytes]]:
    """Rows as the local store gives them: open transactions last."""
    places = sorted(driven.state, key=lambda place: (place[0] is StateTable.INTENTS, place[1]))
    return ((table, key, driven.state[table, key]) for table, key in places)


def watched(
    rows: Iterable[tuple[StateTable, bytes, bytes]], config: ProcessorConfig, seen: list[int]
) -> Iterator[tuple[StateTable, bytes, bytes]]:
    """The rows, and how many transactions were in memory when each was asked for."""
    for row in rows:
        assert config.spill is not None
        seen.append(config.spill.in_memory)
        yield row


@pytest.mark.long
def test_a_restore_holds_no_more_transactions_than_the_budget_has_room_for(crowded: Driven) -> None:
    config, seen = budget(2_000), list[int]()
    rows = watched(in_the_stores_order(crowded), config, seen)
    restored = PartitionProcessor.restore(0, 1, config, rows)
    assert max(seen) <= 3_000
    assert len(seen) > _TXNS
    status, expected = restored.status(), crowded.processor.status()
    assert (status.open_transactions, status.tracked_intents) == (_TXNS, _TXNS)
    assert status.resolved == expected.resolved
    assert status.spilled.transactions >= _TXNS - 3_000
    assert status.spilled.bytes > 100 * status.spilled.transactions
    assert expected.spilled.transactions == 0


def test_an_order_of_rows_that_is_not_the_stores_is_as_good(crowded: Driven) -> None:
    rows = [(table, key, value) for (table, key), value in crowded.state.items()]
    rows.sort(key=lambda row: row[0] is not StateTable.INTENTS)
    restored = PartitionProcessor.restore(0, 1, budget(2_000), rows)
    assert restored.full_checkpoint() == crowded.processor.full_checkpoint()
    assert restored.status().open_transactions == _TXNS
