"""Pushes: of transactions that are old by the log's own time, one request in flight per range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hand_log import HandLog, HandRange, aborted, at, intent, moved, txn
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tidegate.hlc import Timestamp
from tidegate.processor.bounds import BOUNDS, RecordBounds
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.push_policy import LastPush, PushPolicy
from tidegate.raftlog.entry import AbortTxn, Op, OpenIntent
from tidegate.raftlog.request import Push, PushedTxn

_AGE_S: Final = 10
_REPEAT_S: Final = 5
_JITTER_MAX_S: Final = _AGE_S / 16
_POLICY: Final = PushPolicy(_AGE_S * 1000, _REPEAT_S * 1000)


class _Pushed:
    """One range whose oldest transaction began at second 1, stepped second by second."""

    def __init__(
        self,
        range_id: int = 1,
        policy: PushPolicy = _POLICY,
        bounds: RecordBounds = BOUNDS,
        anchor: bytes = b"anchor",
    ) -> None:
        self.log = HandLog(partitions=1)
        self.range: HandRange = self.log.open_range(range_id, PLAIN.span)
        self.driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(policy, bounds=bounds)))
        self.range.apply(intent(1, 1)._replace(anchor_key=anchor))
        self.step()

    def step(self) -> list[Push]:
        requests = self.driven.step(self.log.partitions[0]).requests
        return [request for request in requests if isinstance(request, Push)]

    def at(self, seconds: float, closed: float | None = None) -> list[Push]:
        """The pushes of a step at that time of the log; the range has closed up to a second before it."""
        self.log.wait_for(at(seconds))
        self.range.heartbeat(seconds - 1 if closed is None else closed)
        return self.step()

    @property
    def last(self) -> LastPush:
        """The last push, as an operator is told of it."""
        (facts,) = self.driven.processor.status().slowest
        assert facts.push is not None
        return facts.push

    @property
    def resolved(self) -> Timestamp:
        found = self.driven.processor.status().resolved
        assert found is not None
        return found


def test_a_young_transaction_is_not_pushed() -> None:
    assert _Pushed().at(1 + _AGE_S) == []


def test_an_old_transaction_is_pushed_to_what_the_source_has_closed() -> None:
    (push,) = _Pushed().at(20, closed=17)
    assert push.txns == (PushedTxn(txn(1), b"anchor"),)
    assert push.push_to == at(17)
    assert push.range_id == 1


@pytest.mark.parametrize("closed", [18, 19, 20, 21.5, 22])
def test_a_source_that_closes_ahead_is_asked_for_a_time_that_has_come_on_each_of_its_nodes(
    closed: float,
) -> None:
    (push,) = _Pushed().at(20, closed)
    assert push.push_to == at(18)


def test_one_push_is_in_flight_per_range_until_it_is_time_to_repeat_it() -> None:
    pushed = _Pushed()
    (first,) = pushed.at(20)
    assert pushed.at(20 + _REPEAT_S - 0.001) == []
    (again,) = pushed.at(20 + _REPEAT_S)
    assert again.txns == first.txns


def test_pushing_stops_once_the_transaction_is_resolved() -> None:
    pushed = _Pushed()
    assert pushed.at(20)
    pushed.range.apply(aborted(1))
    assert pushed.at(40) == []


def test_a_push_without_an_answer_is_repeated_for_as_long_as_it_has_none() -> None:
    pushed = _Pushed()
    assert all(pushed.at(20 + _REPEAT_S * times) for times in range(5))


def test_an_answer_that_comes_late_ends_the_repeating() -> None:
    pushed = _Pushed()
    assert pushed.at(20)
    assert pushed.at(20 + _REPEAT_S)
    pushed.range.apply(AbortTxn(txn(1)))
    assert pushed.at(20 + 2 * _REPEAT_S) == []
    pushed.range.apply(AbortTxn(txn(1)))  # the answer to the second one
    assert pushed.at(20 + 3 * _REPEAT_S) == []
    assert pushed.driven.causes == []


def test_a_transaction_that_writes_again_after_its_abort_is_pushed_again() -> None:
    pushed = _Pushed()
    assert pushed.at(20)
    pushed.range.apply(AbortTxn(txn(1)))
    assert pushed.at(21) == []
    pushed.range.apply(intent(1, 22))
    assert pushed.at(22 + _AGE_S) == []
    (again,) = pushed.at(22 + _AGE_S + _JITTER_MAX_S + 0.001)
    assert [each.txn_id for each in again.txns] == [txn(1)]
    assert pushed.resolved < at(22)


def test_that_a_transaction_was_aborted_is_believed_when_the_log_says_so() -> None:
    pushed = _Pushed()
    for times in range(4):
        pushed.at(20 + _REPEAT_S * times)
        assert pushed.resolved < at(1)
    pushed.range.apply(AbortTxn(txn(1)))
    pushed.at(41)
    assert pushed.resolved == at(40)


def test_nothing_is_pushed_while_pushing_is_switched_off() -> None:
    pushed = _Pushed(policy=replace(_POLICY, enabled=False))
    assert pushed.at(20) == []
    assert pushed.at(2_000) == []


@pytest.mark.parametrize("ended", [1, 2, 3])
def test_a_push_is_in_flight_while_any_of_its_transactions_stands_where_it_was(ended: int) -> None:
    pushed = _Pushed()
    pushed.range.apply(intent(2, 3), intent(3, 4))
    assert pushed.at(20)
    pushed.range.apply(aborted(ended))
    others = sorted({1, 2, 3} - {ended})
    assert pushed.at(20.5) == []
    pushed.range.apply(moved(others[0], 20))
    assert pushed.at(21) == []
    (push,) = pushed.at(20 + _REPEAT_S)
    assert [each.txn_id for each in push.txns] == [txn(others[1])]


@pytest.mark.parametrize("answer", [aborted(1), moved(1, 15)], ids=["ended", "moved"])
def test_what_became_old_is_pushed_without_waiting_once_the_push_before_is_answered(answer: Op) -> None:
    pushed = _Pushed()
    pushed.range.apply(intent(2, 10))
    (first,) = pushed.at(19)
    assert [each.txn_id for each in first.txns] == [txn(1)]
    assert pushed.at(21.5) == []
    pushed.range.apply(answer)
    (push,) = pushed.at(21.6)
    assert [each.txn_id for each in push.txns] == [txn(2)]


def test_only_old_transactions_are_named_oldest_first() -> None:
    pushed = _Pushed()
    pushed.range.apply(intent(3, 4), intent(2, 3))
    pushed.range.apply(intent(4, 19))
    (push,) = pushed.at(20)
    assert [each.txn_id for each in push.txns] == [txn(1), txn(2), txn(3)]


def test_a_quarantined_range_is_not_pushed() -> None:
    pushed = _Pushed()
    pushed.range.index += 1
    pushed.range.apply()
    assert pushed.at(30) == []


def test_a_push_is_asked_for_again_after_a_restart() -> None:
    pushed = _Pushed()
    pushed.at(20)
    restored = Driven.restored(pushed.driven.state)
    pushed.driven = restored
    assert pushed.at(20.5)


@given(st.integers(1, 2**63 - 1))
def test_jitter_delays_a_push_by_a_sixteenth_of_the_age_at_most(range_id: int) -> None:
    assert _Pushed(range_id).at(1 + _AGE_S) == []
    assert len(_Pushed(range_id).at(1 + _AGE_S + _JITTER_MAX_S + 0.001)) == 1


def test_jitter_spreads_ranges() -> None:
    moments = set()
    for range_id in range(1, 40):
        pushed = _Pushed(range_id)
        steps = (1 + _AGE_S + part * _JITTER_MAX_S / 8 for part in range(10))
        moments.add(next(seconds for seconds in steps if pushed.at(seconds)))
    assert len(moments) > 3


@pytest.mark.parametrize(
    ("range_id", "delay_ms"), [(1, 351), (2, 78), (3, 468), (5, 585), (17, 39), (2**63 - 1, 234)]
)
def test_a_transaction_is_old_when_its_age_and_the_delay_of_its_range_have_passed(
    range_id: int, delay_ms: int
) -> None:
    """A range has the same delay in each run: otherwise ranges might push together after all."""
    pushed, old = _Pushed(range_id), 1 + _AGE_S + delay_ms / 1_000
    assert pushed.at(old) == []
    assert len(pushed.at(old + 0.001)) == 1


@pytest.mark.parametrize(
    ("record_bytes", "named"), [(210, 3), (209, 2), (140, 2), (139, 1), (70, 1), (69, 1)]
)
def test_a_push_names_the_transactions_that_half_a_record_has_room_for_and_one_at_least(
    record_bytes: int, named: int
) -> None:
    """Each takes its id, its anchor key, and sixteen bytes more."""
    pushed = _Pushed(bounds=RecordBounds(record_bytes), anchor=b"abc")
    pushed.range.apply(*(intent(number, number)._replace(anchor_key=b"abc") for number in (2, 3)))
    (push,) = pushed.at(20)
    assert [each.txn_id for each in push.txns] == [txn(number) for number in range(1, named + 1)]


# ---- what is told of the last push


@pytest.mark.parametrize("order", [*permutations((1, 2, 3))], ids=str)
@pytest.mark.parametrize("ending", [set(), {1}, {2}, {3}, {1, 2}, {2, 3}, {1, 2, 3}], ids=str)
def test_answers_are_counted_in_whatever_order_they_come(order: Sequence[int], ending: set[int]) -> None:
    pushed = _Pushed()
    pushed.range.apply(intent(2, 3), intent(3, 4))
    pushed.at(20)
    for count, number in enumerate(order, 1):
        pushed.range.apply(aborted(number) if number in ending else moved(number, 20))
        ended = len(ending & {*order[:count]})
        for more in (0.1, 0.2):
            pushed.at(20 + count + more)
            assert (pushed.last.txns, pushed.last.ended, pushed.last.moved) == (3, ended, count - ended)


def test_a_transaction_that_ended_and_writes_again_counts_as_ended() -> None:
    pushed = _Pushed()
    pushed.at(20)
    pushed.range.apply(AbortTxn(txn(1)))
    pushed.at(21)
    pushed.range.apply(intent(1, 22))
    pushed.at(23)
    assert (pushed.last.ended, pushed.last.moved) == (1, 0)


@pytest.mark.parametrize("answer", [aborted(1), moved(1, 2.5)], ids=["ended", "moved"])
def test_tries_are_counted_while_the_oldest_transaction_stands_where_it_was(answer: Op) -> None:
    pushed = _Pushed()
    pushed.range.apply(intent(2, 3))
    for tries in (1, 2, 3):
        pushed.at(20 + tries * _REPEAT_S)
        assert pushed.last.tries == tries
    pushed.range.apply(answer)
    pushed.at(20 + 4 * _REPEAT_S)
    assert pushed.last.tries == 1


def test_a_range_that_was_quarantined_and_healed_pushes_without_waiting() -> None:
    """The answer to the push of before may stand in entries that were lost."""
    pushed = _Pushed()
    pushed.at(20)
    pushed.range.index += 1
    pushed.range.apply()
    pushed.step()
    pushed.range.snapshot(close=20, high=20, intents=[OpenIntent(txn(1), b"anchor", PLAIN.key(1), at(1))])
    (again,) = pushed.step()
    assert [each.txn_id for each in again.txns] == [txn(1)]
    assert pushed.last.tries == 1
