"""The first rows of an order do not depend on the order in which updates of a timestamp come."""

from __future__ import annotations

from decimal import Decimal
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import plan_of
from tidegate.hlc import Timestamp
from tidegate.subscribe.outputs.output_stage import OutputBounds, Outputs
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.update import RowValues, Update

_BALANCES = st.sampled_from((1, Decimal("1.0"), Decimal("1.00"), 2, Decimal("2.0"), None))
_STATEMENTS = (
    "SUBSCRIBE (SELECT balance FROM accounts ORDER BY balance LIMIT 2)",
    "SUBSCRIBE (SELECT balance FROM accounts ORDER BY balance DESC LIMIT 1 OFFSET 1)",
    "SUBSCRIBE (SELECT balance FROM accounts)",
    "SUBSCRIBE (SELECT balance FROM accounts) ENVELOPE UPSERT (KEY (balance))",
    "SUBSCRIBE (SELECT balance FROM accounts) ENVELOPE DEBEZIUM (KEY (balance))",
)


def shown(statement: str, updates: list[list[Update]]) -> list[str]:
    """The rows of some timestamps' updates, as they are written."""
    plan = plan_of(statement)
    selection = plan.selection()
    assert selection is not None
    stage = Outputs(plan.shape, OutputBounds(Timestamp(0)), plan.dialect)
    for at_time in updates:
        stage.take(selection.apply(at_time))
    return list(map(repr, stage.advance(Frontier(Timestamp(len(updates) + 1)))))


def updates_of(states: list[dict[int, RowValues]]) -> list[list[Update]]:
    """The updates from each state of a table to the next; states are rows by their keys."""
    found, before = [], dict[int, RowValues]()
    for wall, state in enumerate(states, 1):
        changes = []
        for key in sorted({*before, *state}):
            old, new = before.get(key), state.get(key)
            if repr(old) != repr(new):
                changes += [Update(Timestamp(wall), -1, old)] if old else []
                changes += [Update(Timestamp(wall), 1, new)] if new else []
        found.append(changes)
        before = state
    return found


@given(
    states=st.lists(st.dictionaries(st.integers(1, 5), _BALANCES, max_size=5), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_equal_values_are_shown_alike_in_every_order_of_updates(
    states: list[dict[int, object]], order: Random
) -> None:
    rows: list[dict[int, RowValues]] = [
        {key: (key, value, None) for key, value in each.items()} for each in states
    ]
    updates = updates_of(rows)
    shuffled = [order.sample(each, len(each)) for each in updates]
    for statement in _STATEMENTS:
        assert shown(statement, updates) == shown(statement, shuffled)


def test_of_equal_rows_the_first_form_that_is_there_is_shown() -> None:
    one, other = (1, 1, None), (2, Decimal("1.0"), None)
    statement = "SUBSCRIBE (SELECT balance FROM accounts ORDER BY balance LIMIT 1)"
    at = Timestamp(1)
    for updates in ([Update(at, 1, one), Update(at, 1, other)], [Update(at, 1, other), Update(at, 1, one)]):
        assert shown(statement, [updates]) == [repr((at, 1, 1))]
