"""State: restored at any batch boundary, a processor goes on as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.feeds import activation
from tests.hand_log import HandLog
from tests.logs import Record
from tests.unit.processor.driving import Driven, StoredState, active, fold, vouched, without_digests
from tests.unit.processor.logs import OTHER, PARTITIONS, PLAIN, bank_log, eventful_log
from tests.unit.ranges.spill_memory import MemorySpill
from tidegate.changefeed.definition.feed import FIRST_EPOCH
from tidegate.changefeed.lifecycle.control import Activate, Remove
from tidegate.errors import StateError, StateMismatch
from tidegate.hlc import ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import StateChange, StateTable, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.processor_state import ProcessorState
from tidegate.processor.restore import RangeRows, read_named
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.state_codec import (
    Position,
    chunk_rows,
    intent_rows,
    is_chunk_key,
    position_row,
    range_row,
    read_position,
    told_rows,
)
from tidegate.processor.state.stored_frame import STATE_VERSION, pack
from tidegate.raftlog.entry import Generation, Offset, RaftIndex, RangeId, Snapshot, SnapshotReason, TxnId
from tidegate.ranges.handoff import Promise
from tidegate.ranges.intent_budget import TXN_BYTES, IntentBudget
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.resolver import Resolver

_EVENTFUL = eventful_log()
_HAND_FEED = activation([PLAIN.descriptor, OTHER.descriptor])


def _start(partition: int, feed: Activate) -> Driven:
    driven = Driven(PartitionProcessor(partition, PARTITIONS))
    driven.control(feed)
    return driven


def _comparable(result: StepResult) -> tuple[object, ...]:
    """All of a result but requests: what was asked before a restart may be asked again."""
    changes = {(table, key): value for table, key, value in result.changes}
    rows = {feed: records for feed, records in result.outputs.items() if records}
    return result.offset, rows, changes, result.checkpoint, result.acks, result.incidents


def _assert_goes_on(run: Driven, restored: Driven, rest: Sequence[Record], batch: int) -> None:
    """Both publish their whole checkpoint first, as an engine does when it opens a partition."""
    assert restored.processor.full_checkpoint() == run.processor.full_checkpoint()
    assert restored.processor.next_offset == run.processor.next_offset
    assert restored.processor.status() == run.processor.status()
    further = list(map(_comparable, run.run(rest, batch)))
    assert list(map(_comparable, restored.run(rest, batch))) == further
    assert restored.state == run.state


@pytest.mark.parametrize("cut", range(len(_EVENTFUL) + 1))
def test_restored_after_any_entry_the_processor_goes_on_as_before(cut: int) -> None:
    run = active(_HAND_FEED)
    run.run(_EVENTFUL[:cut], batch=1)
    restored = Driven.restored(run.state)
    _assert_goes_on(run, restored, _EVENTFUL[cut:], batch=1)


@given(
    seed=st.integers(0, 7),
    partition=st.integers(0, PARTITIONS - 1),
    batch=st.sampled_from([1, 3, 20]),
    share=st.floats(0, 1),
)
@examples(20)
def test_restored_at_any_batch_of_a_simulated_log_it_goes_on_as_before(
    seed: int, partition: int, batch: int, share: float
) -> None:
    log = bank_log(seed)
    records = log.partitions[partition]
    cut = int(share * len(records)) // batch * batch
    run = _start(partition, activation(log.tables))
    run.run(records[:cut], batch)
    restored = Driven.restored(run.state, partition, PARTITIONS)
    _assert_goes_on(run, restored, records[cut:], batch)


@given(seed=st.integers(0, 7), batches=st.lists(st.sampled_from([1, 2, 9, 40]), min_size=1, max_size=8))
@examples(10)
def test_the_stored_state_is_the_same_however_the_log_was_batched(seed: int, batches: list[int]) -> None:
    log = bank_log(seed)
    records = log.partitions[1]
    whole = _start(1, activation(log.tables))
    whole.step(records)
    pieces, first, turn = _start(1, activation(log.tables)), 0, 0
    while first < len(records):
        pieces.step(records[first : first + batches[turn % len(batches)]])
        first, turn = first + batches[turn % len(batches)], turn + 1
    assert _without_offsets(pieces) == _without_offsets(whole)
    assert pieces.rows == whole.rows


def _without_offsets(driven: Driven) -> object:
    """Rows of state name the position of their last change, which depends on the batches."""
    status = driven.processor.status()
    return status, driven.processor.full_checkpoint(), sorted(key for _, key in driven.state)


@given(batch=st.integers(1, 12))
def test_frozen_changes_are_not_altered_by_later_steps(batch: int) -> None:
    run = active(_HAND_FEED)
    seen: list[tuple[StepResult, str]] = []
    for first in range(0, len(_EVENTFUL), batch):
        result = run.step(_EVENTFUL[first : first + batch])
        seen.append((result, repr(result)))
        for earlier, text in seen:
            assert repr(earlier) == text


@given(cut=st.integers(0, len(_EVENTFUL)), back=st.integers(1, len(_EVENTFUL)), batch=st.integers(1, 12))
def test_records_at_or_below_the_position_are_passed_over(cut: int, back: int, batch: int) -> None:
    plain, replayed = active(_HAND_FEED), active(_HAND_FEED)
    plain.run(_EVENTFUL, batch)
    replayed.run(_EVENTFUL[:cut], batch)
    before = replayed.rows
    replayed.run(_EVENTFUL[max(0, cut - back) : cut], batch)
    assert replayed.rows == before
    replayed.run(_EVENTFUL[max(0, cut - back) :], batch)
    assert replayed.rows == plain.rows
    assert replayed.causes == plain.causes


def test_a_replay_of_the_whole_log_changes_no_state() -> None:
    run = active(_HAND_FEED)
    run.run(_EVENTFUL)
    state = run.state
    run.run(_EVENTFUL, batch=5)
    assert run.state == state
    assert run.processor.next_offset == len(_EVENTFUL)


def test_an_intent_that_came_and_went_in_a_batch_leaves_no_change() -> None:
    run = active(_HAND_FEED)
    run.step(_EVENTFUL)
    assert not [change for result in run.results for change in result.changes if _is_intent(change.table)]


def test_an_intent_that_stood_between_batches_is_stored_and_removed() -> None:
    run = active(_HAND_FEED)
    run.run(_EVENTFUL, batch=1)
    values = [c.value for result in run.results for c in result.changes if _is_intent(c.table)]
    assert None in values
    assert any(value is not None for value in values)
    assert not any(_is_intent(table) for table, _ in run.state)


def _is_intent(table: StateTable) -> bool:
    return table is StateTable.INTENTS


def _ripe_state() -> StoredState:
    """State with a row in every table."""
    run = active(_HAND_FEED)
    run.run(_EVENTFUL[:8], batch=1)
    assert {table for table, _ in run.state} == set(StateTable)
    return run.state


_POSITION_ROW: Final = (StateTable.RANGES, POSITION_KEY)


@pytest.mark.parametrize("table", [*StateTable, None], ids=lambda table: table.value if table else "position")
def test_a_stored_row_of_a_newer_version_is_refused_with_a_sentence(table: StateTable | None) -> None:
    state = _ripe_state()
    # A descriptor's stored form has a version of its own; the table's highest timestamp is ours.
    keys = (key for found, key in state if found is table and not key.startswith(b"d"))
    place = _POSITION_ROW if table is None else (table, next(key for key in keys if key != POSITION_KEY))
    state[place] = bytes([STATE_VERSION + 1]) + state[place][1:]
    newer = f"stored in version {STATE_VERSION + 1}.*[Rr]un the newer worker"
    with pytest.raises(StateError, match=newer) as refused:
        Driven.restored(vouched(state))
    assert not isinstance(refused.value, StateMismatch)
    with pytest.raises(StateMismatch):
        Driven.restored(state)
    if table is not None:
        # Earlier versions stored no digests: nothing shows that a newer version wrote the row.
        with pytest.raises(StateMismatch, match=newer):
            Driven.restored(without_digests(state))


@pytest.mark.parametrize("table", [StateTable.RANGES, StateTable.FEEDS])
def test_a_damaged_row_is_refused(table: StateTable) -> None:
    state = _ripe_state()
    key = next(key for found, key in state if found is table and key != POSITION_KEY)
    state[table, key] = bytes([STATE_VERSION]) + b"\xff\xff\xff"
    for stored in (vouched(state), without_digests(state)):
        with pytest.raises(StateMismatch, match="damaged"):
            Driven.restored(stored)
    with pytest.raises(StateMismatch):
        Driven.restored(state)


def test_an_intent_without_its_range_is_refused() -> None:
    rows = [(table, key, value) for (table, key), value in _ripe_state().items() if _is_intent(table)]
    with pytest.raises(StateError, match="lacks the partition's position, but rows of intents are stored"):
        PartitionProcessor.restore(0, 1, ProcessorConfig(), rows)
    state = fold({(table, key): value for table, key, value in rows}, [position_row(Position(Offset(9)))])
    with pytest.raises(StateError, match="but not the range itself"):
        Driven.restored(state)


def test_a_position_alone_under_another_key_is_not_taken_for_a_partition_that_has_not_begun() -> None:
    _, key, value = position_row(Position(Offset(9)))
    assert value is not None
    assert (
        PartitionProcessor.restore(0, 1, ProcessorConfig(), [(StateTable.RANGES, key, value)]).next_offset
        == 10
    )
    with pytest.raises(StateMismatch, match="lacks the partition's position"):
        PartitionProcessor.restore(0, 1, ProcessorConfig(), [(StateTable.RANGES, b"\x01" + key[1:], value)])


def test_a_lost_table_of_open_transactions_is_not_taken_for_none() -> None:
    state = {place: value for place, value in _ripe_state().items() if not _is_intent(place[0])}
    with pytest.raises(StateMismatch, match="The intents table of log partition 0 has other rows"):
        Driven.restored(state)
    with pytest.raises(StateMismatch, match="has 1 open transactions, but 0 are stored"):
        Driven.restored(without_digests(state))


@pytest.mark.parametrize("cut", range(len(_EVENTFUL) + 1))
def test_a_state_that_lacks_any_one_row_is_refused(cut: int) -> None:
    run = active(_HAND_FEED)
    run.run(_EVENTFUL[:cut], batch=1)
    for place in run.state:
        with pytest.raises(StateError, match="A changelog of the application was deleted or cut"):
            Driven.restored({other: value for other, value in run.state.items() if other != place})


@given(
    seed=st.integers(0, 7),
    partition=st.integers(0, PARTITIONS - 1),
    batches=st.integers(0, 20),
    lost=st.integers(0, 10_000),
)
@examples(20)
def test_a_state_of_a_simulated_log_that_lacks_any_one_row_is_refused(
    seed: int, partition: int, batches: int, lost: int
) -> None:
    log = bank_log(seed)
    run = _start(partition, activation(log.tables))
    run.run(log.partitions[partition][: 10 * batches], batch=10)
    state = dict(run.state)
    del state[sorted(state, key=repr)[lost % len(state)]]
    with pytest.raises(StateError, match="A changelog of the application was deleted or cut"):
        Driven.restored(state, partition, PARTITIONS)


@pytest.mark.parametrize("table", [StateTable.DESCRIPTORS, StateTable.FEEDS])
def test_a_lost_table_is_not_taken_for_an_empty_one(table: StateTable) -> None:
    state = {place: value for place, value in _ripe_state().items() if place[0] is not table}
    with pytest.raises(StateError, match=f"The {table.value} table of log partition 0 has 0 rows, but had"):
        Driven.restored(state)


def test_a_lost_table_of_ranges_is_not_taken_for_a_state_that_has_not_begun() -> None:
    state = {place: value for place, value in _ripe_state().items() if place[0] is StateTable.FEEDS}
    with pytest.raises(
        StateError, match="The ranges table of log partition 0 lacks the partition's position"
    ):
        Driven.restored(state)


def test_a_row_that_was_removed_and_is_back_is_refused() -> None:
    run = active(_HAND_FEED)
    feeds = {place: value for place, value in run.state.items() if place[0] is StateTable.FEEDS}
    run.control(Remove(_HAND_FEED.feed_id, FIRST_EPOCH))
    assert Driven.restored(run.state).processor.full_checkpoint().feeds == ()
    with pytest.raises(StateError, match=r"has 1 rows, but had 0 .* rows that were removed are back"):
        Driven.restored({**run.state, **feeds})


def test_nothing_stored_is_a_partition_that_has_not_begun() -> None:
    assert Driven.restored({}).processor.next_offset is None


def test_a_range_ahead_of_the_position_is_refused() -> None:
    state = _ripe_state()
    position = read_position(state[StateTable.RANGES, POSITION_KEY])
    position.offset = Offset(2)
    state = fold(state, [position_row(position)])
    with pytest.raises(StateError, match="its partition only came to 2"):
        Driven.restored(state)


@pytest.mark.parametrize("topic", ["log", "control"])
def test_state_of_a_topic_that_was_created_again_is_refused(topic: str) -> None:
    first = PartitionProcessor(0, 1, ProcessorConfig(log_id="L1", control_id="C1"))
    result = first.step(_EVENTFUL[:3])
    rows = [(table, key, value) for table, key, value in result.changes if value is not None]
    same = PartitionProcessor.restore(0, 1, ProcessorConfig(log_id="L1", control_id="C1"), rows)
    assert same.next_offset == first.next_offset
    other = {
        "log": ProcessorConfig(log_id="L2", control_id="C1"),
        "control": ProcessorConfig(control_id="C2"),
    }
    with pytest.raises(StateError, match=f"belongs to another {topic} topic"):
        PartitionProcessor.restore(0, 1, other[topic], rows)


@pytest.mark.parametrize("topic", ["log", "control"])
def test_state_that_names_no_topic_belongs_to_the_first_that_is_named(topic: str) -> None:
    """State of a process that nobody had told the ids: who restores it knows them."""
    nameless = fold({}, PartitionProcessor(0, 1).step(_EVENTFUL[:3]).changes)
    config = ProcessorConfig(log_id="L1", control_id="C1")
    named = PartitionProcessor.restore(0, 1, config, _rows(nameless))
    told = fold(nameless, named.step(_EVENTFUL[3:5]).changes)
    other = {"log": ProcessorConfig(log_id="L2"), "control": ProcessorConfig(control_id="C2")}
    with pytest.raises(StateError, match=f"belongs to another {topic} topic"):
        PartitionProcessor.restore(0, 1, other[topic], _rows(told))


@pytest.mark.parametrize("topic", ["log", "control"])
def test_state_keeps_the_names_of_its_topics_where_nobody_says_them_again(topic: str) -> None:
    first = PartitionProcessor(0, 1, ProcessorConfig(log_id="L1", control_id="C1"))
    state = fold({}, first.step(_EVENTFUL[:3]).changes)
    untold = PartitionProcessor.restore(0, 1, ProcessorConfig(), _rows(state))
    kept = fold(state, untold.step(_EVENTFUL[3:5]).changes)
    other = {"log": ProcessorConfig(log_id="L2"), "control": ProcessorConfig(control_id="C2")}
    with pytest.raises(StateError, match=f"belongs to another {topic} topic"):
        PartitionProcessor.restore(0, 1, other[topic], _rows(kept))


def _rows(state: StoredState) -> list[tuple[StateTable, bytes, bytes]]:
    return [(table, key, value) for (table, key), value in state.items()]


def test_the_chunks_of_an_incomplete_snapshot_are_rows_of_their_own_and_go_with_it() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    handle = log.open_range(1, PLAIN.span, chunk=0, chunks=3)
    handle.snapshot(close=0, reason=SnapshotReason.INITIAL, chunk=1, chunks=3)
    before = len(log.partitions[0])
    handle.snapshot(close=0, reason=SnapshotReason.INITIAL, chunk=2, chunks=3)
    run = active(_HAND_FEED)
    run.run(log.partitions[0][:before], batch=1)
    assert len([key for table, key in run.state if table is StateTable.RANGES and is_chunk_key(key)]) == 2
    restored = Driven.restored(run.state)
    restored.run(log.partitions[0][before:])
    assert not [key for table, key in restored.state if table is StateTable.RANGES and is_chunk_key(key)]
    assert restored.processor.status().slowest


# ---- rows of ranges ----

_ID: Final = RangeId(7)
_AT: Final = Timestamp(70)
_POSITION: Final = Offset(44)


def _range_with_all_rows(transactions: int = 2) -> dict[str, StateChange]:
    """The rows of a range that has all kinds of them, by name."""
    state = RangeState(_ID)
    state.status, state.span = RangeStatus.LIVE, PLAIN.span
    resolved = ResolvedTimestamp(Timestamp(60))
    state.resolver = Resolver.restored(ClosedTimestamp(_AT), resolved)
    for number in range(transactions):
        state.resolver.queue.increment(TxnId(number.to_bytes(16)), b"anchor", _AT, _AT)
    state.chunks = [
        Snapshot(
            _ID,
            Generation(1),
            RaftIndex(9),
            PLAIN.span,
            ClosedTimestamp(_AT),
            _AT,
            _AT,
            chunk=number,
            chunks=5,
        )
        for number in range(3)
    ]
    state.promises = [Promise(RaftIndex(5), resolved, PLAIN.span, None, 65)]
    rows = {"range": range_row(state, _POSITION)}
    (rows["told"],) = told_rows(state, 1_000)
    rows |= {f"chunk {number}": row for number, row in enumerate(chunk_rows(state))}
    intents = intent_rows(state, _POSITION, 99)
    return rows | {f"intent {number}": row for number, row in enumerate(intents)}


def _put_back(
    rows: Iterable[StateChange], position: Offset = _POSITION, config: ProcessorConfig | None = None
) -> list[RangeState]:
    ranges = ProcessorState(0, 1, config or ProcessorConfig()).ranges
    restoring = RangeRows(ranges)
    for table, key, value in rows:
        assert value is not None
        take = restoring.take_intent if table is StateTable.INTENTS else restoring.take_range
        take(key, value)
    restoring.finish(position)
    return [*ranges]


@pytest.mark.parametrize("order", [1, -1])
def test_rows_of_a_range_may_come_in_any_order_and_nothing_of_it_is_stored_again(order: int) -> None:
    rows = [*_range_with_all_rows().values()]
    (state,) = _put_back(rows[::order])
    assert range_row(state, _POSITION) == rows[0]
    assert [chunk.chunk for chunk in state.chunks] == [0, 1, 2]
    assert [promise.at for promise in state.promises] == [5]
    queue = state.resolver.queue
    assert [(txn.txn_id, txn.refs, txn.timestamp) for txn in sorted(queue, key=lambda txn: txn.txn_id)] == [
        (number.to_bytes(16), 1, _AT) for number in range(2)
    ]
    assert not [*chunk_rows(state), *told_rows(state, 1_000), *intent_rows(state, _POSITION, 99)]
    queue.remove(TxnId(bytes(16)))
    state.chunks = []
    assert len([*chunk_rows(state), *intent_rows(state, _POSITION, 99)]) == 4


@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        ("range", "but not the range itself"),
        ("told", "is stored, but not what it tells others"),
        ("chunk 0", "has 3 chunks of a snapshot, but 2 of them are stored"),
        ("chunk 2", "has 3 chunks of a snapshot, but 2 of them are stored"),
        ("intent 1", "has 2 open transactions, but 1 are stored"),
    ],
)
def test_rows_of_a_range_without_one_of_them_are_refused(lacking: str, named: str) -> None:
    rows = _range_with_all_rows()
    del rows[lacking]
    with pytest.raises(StateMismatch, match=f"range 7 .*{named}|Range 7 .*{named}"):
        _put_back(rows.values())


@pytest.mark.parametrize("kind", ["told", "chunk 0", "intent 0"])
def test_a_row_of_a_range_that_is_not_stored_itself_is_refused(kind: str) -> None:
    with pytest.raises(StateMismatch, match="Rows of range 7 are stored, but not the range itself"):
        _put_back([_range_with_all_rows()[kind]])


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("told", "what it told others is back"),
        ("chunk 0", "has 0 chunks of a snapshot, but 1 of them are stored"),
        ("intent 0", "has 0 open transactions, but 1 are stored"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_row_that_its_range_does_not_have_is_refused(kind: str, named: str, first: bool) -> None:
    state = RangeState(_ID)
    state.status, state.span = RangeStatus.LIVE, PLAIN.span
    rows = [range_row(state, _POSITION), _range_with_all_rows()[kind]]
    with pytest.raises(StateMismatch, match=named):
        _put_back(rows if first else rows[::-1])


def test_transactions_of_a_range_that_tracks_none_are_refused() -> None:
    rows = _range_with_all_rows()
    message = pb.Range.FromString(rows["range"].value[1:])  # type: ignore[index]
    message.status = RangeStatus.QUARANTINED.value
    rows["range"] = rows["range"]._replace(value=pack(message))
    with pytest.raises(StateMismatch, match="has 2 open transactions, but 2 are stored"):
        _put_back(rows.values())
    message.open_transactions = 0
    rest = [row for row in rows.values() if row.table is not StateTable.INTENTS]
    rest[0] = rows["range"]._replace(value=pack(message))
    assert [state.status for state in _put_back(rest)] == [RangeStatus.QUARANTINED]


def test_a_range_may_reflect_the_log_up_to_the_partitions_position_and_not_further() -> None:
    rows = _range_with_all_rows()
    assert _put_back(rows.values(), _POSITION)
    with pytest.raises(StateMismatch, match="as of log offset 44, but its partition only came to 43"):
        _put_back(rows.values(), Offset(43))


def test_transactions_leave_memory_each_time_that_a_thousand_were_put_back() -> None:
    spill = IntentBudget(100 * TXN_BYTES, MemorySpill()).partition()
    ranges = ProcessorState(0, 1, ProcessorConfig(spill=spill)).ranges
    restoring, seen = RangeRows(ranges), list[int]()
    for table, key, value in _range_with_all_rows(2_050).values():
        assert value is not None
        if table is StateTable.INTENTS:
            restoring.take_intent(key, value)
            seen.append(spill.counts.transactions)
        else:
            restoring.take_range(key, value)
    restoring.finish(_POSITION)
    assert seen[998] == 0
    assert seen[999] == seen[1_998] >= 900
    assert seen[1_999] == seen[-1] >= 1_900
    (state,) = ranges
    assert len(state.resolver.queue) == 2_050


# ---- errors of rows ----


@pytest.mark.parametrize("is_vouched", [True, False])
@pytest.mark.parametrize(
    ("error", "mismatch"),
    [(StateMismatch("torn"), True), (StateError("torn"), False), (KeyError("torn"), True)],
    ids=["mismatch", "newer", "unforeseen"],
)
def test_rows_that_cannot_be_read_are_damaged_unless_they_are_those_that_were_written(
    error: Exception, mismatch: bool, is_vouched: bool
) -> None:
    def read() -> None:
        raise error

    with pytest.raises(StateError, match="torn") as raised:
        read_named(3, read, vouched=is_vouched)
    assert isinstance(raised.value, StateMismatch) is (mismatch or not is_vouched)
    if isinstance(error, KeyError):
        assert str(raised.value).startswith("The state of log partition 3 cannot be read (KeyError('torn'))")
    else:
        assert str(raised.value) == "torn"


def test_offsets_that_no_record_has_count_as_read() -> None:
    processor = PartitionProcessor(0, 1)
    processor.step(_EVENTFUL[:3], end=7)
    assert processor.next_offset == 7
    processor.step((), end=9)
    assert processor.next_offset == 9
    assert not processor.missing_below(Offset(9)).incidents
