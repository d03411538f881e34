"""A restored state has the rows that were written, or is refused: the digests notice what counts do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.feeds import activation
from tests.unit.processor.driving import Driven, StoredState, active, without_digests
from tests.unit.processor.logs import OTHER, PARTITIONS, PLAIN, bank_log, eventful_log
from tidegate.errors import StateMismatch
from tidegate.processor.batch import StateTable
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.state_codec import read_position

_EVENTFUL = eventful_log()
_POSITION = (StateTable.RANGES, POSITION_KEY)
#: A field that no stored message has: the row can be read, and says what it said.
_UNKNOWN_FIELD = b"\xf8\x3f\x01"


def ripe_state() -> StoredState:
    """State with a row in every table."""
    run = active(activation([PLAIN.descriptor, OTHER.descriptor]))
    run.run(_EVENTFUL[:8], batch=1)
    assert {table for table, _ in run.state} == set(StateTable)
    return run.state


@pytest.mark.parametrize("table", StateTable)
def test_a_row_with_other_bytes_is_refused_though_it_can_be_read(table: StateTable) -> None:
    state = ripe_state()
    # A descriptor's stored form is not ours to add a field to; the table's highest timestamp is.
    place = next(
        place for place in state if place[0] is table and place != _POSITION and place[1][:1] != b"d"
    )
    with pytest.raises(StateMismatch, match=f"The {table.value} table of log partition 0 has other rows"):
        Driven.restored({**state, place: state[place] + _UNKNOWN_FIELD})


def test_a_position_with_other_bytes_is_refused() -> None:
    state = ripe_state()
    state[_POSITION] = state[_POSITION][:1] + b"\x20\x07" + state[_POSITION][1:]
    with pytest.raises(StateMismatch, match="its hash is another"):
        Driven.restored(state)


@given(
    seed=st.integers(0, 7),
    partition=st.integers(0, PARTITIONS - 1),
    batches=st.tuples(st.integers(1, 15), st.integers(1, 15)),
    back=st.integers(0, 10_000),
)
@examples(20)
def test_a_state_with_any_one_row_of_an_earlier_moment_is_refused(
    seed: int, partition: int, batches: tuple[int, int], back: int
) -> None:
    log = bank_log(seed)
    run = Driven(PartitionProcessor(partition, PARTITIONS))
    run.control(activation(log.tables))
    cut = 10 * batches[0]
    run.run(log.partitions[partition][:cut], batch=10)
    earlier = dict(run.state)
    run.run(log.partitions[partition][cut : cut + 10 * batches[1]], batch=10)
    others = sorted((place for place in earlier if run.state.get(place) != earlier[place]), key=repr)
    if others:
        place = others[back % len(others)]
        with pytest.raises(StateMismatch):
            Driven.restored({**run.state, place: earlier[place]}, partition, PARTITIONS)


def test_a_state_of_a_version_without_digests_is_taken_and_has_them_after_the_next_step() -> None:
    run = Driven(state=ripe_state())
    restored = Driven.restored(without_digests(run.state))
    restored.run(_EVENTFUL[8:])
    assert read_position(restored.state[_POSITION]).digests is not None
    assert Driven.restored(restored.state).processor.status() == restored.processor.status()
