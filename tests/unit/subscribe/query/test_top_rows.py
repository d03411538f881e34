"""The first rows of an order are those that a look at all rows gives, in whatever order updates come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import plan_of
from tidegate.hlc import Timestamp
from tidegate.subscribe.outputs.output_stage import OutputBounds, Outputs
from tidegate.subscribe.query import top_rows
from tidegate.subscribe.query.shown_bytes import ShownBytes
from tidegate.subscribe.query.top_rows import RankedUpdate, TopRows
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.update import RowValues, Update

_BALANCES = st.sampled_from((1, Decimal("1.0"), Decimal("1.00"), 2, Decimal("2.0"), None))
#: For no row.
_GONE = "gone"
_STATEMENTS = (
    "SUBSCRIBE (SELECT balance FROM accounts ORDER BY balance LIMIT 2)",
    "SUBSCRIBE (SELECT balance FROM accounts ORDER BY balance DESC LIMIT 1 OFFSET 1)",
    "SUBSCRIBE (SELECT balance FROM accounts)",
    "SUBSCRIBE (SELECT balance FROM accounts) ENVELOPE UPSERT (KEY (balance))",
    "SUBSCRIBE (SELECT balance FROM accounts) ENVELOPE DEBEZIUM (KEY (balance))",
)


def rows_of(statement: str, updates: list[list[Update]], *, track_keys: bool = False) -> list[RowValues]:
    """The rows that a subscription shows of some timestamps' updates."""
    plan = plan_of(statement)
    selection = plan.selection()
    assert selection is not None
    stage = Outputs(plan.shape, OutputBounds(Timestamp(0)), plan.dialect, track_keys=track_keys)
    for at_time in updates:
        stage.add_updates(selection.apply(at_time))
    return list(stage.advance(Frontier(Timestamp(len(updates) + 1))))


def shown(statement: str, updates: list[list[Update]]) -> list[str]:
    """The rows of some timestamps' updates, as they are written."""
    return list(map(repr, rows_of(statement, updates)))


def table_states(states: list[dict[int, object]]) -> list[dict[int, RowValues]]:
    """Rows of the table by their keys, of the balances by their keys."""
    return [{key: (key, value, None) for key, value in each.items()} for each in states]


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
    updates = updates_of(table_states(states))
    shuffled = [order.sample(each, len(each)) for each in updates]
    for statement in _STATEMENTS:
        assert shown(statement, updates) == shown(statement, shuffled)


def test_of_equal_rows_the_first_form_that_is_there_is_shown() -> None:
    one, other = (1, 1, None), (2, Decimal("1.0"), None)
    statement = "SUBSCRIBE (SELECT balance FROM accounts ORDER BY balance LIMIT 1)"
    at = Timestamp(1)
    for updates in ([Update(at, 1, one), Update(at, 1, other)], [Update(at, 1, other), Update(at, 1, one)]):
        assert shown(statement, [updates]) == [repr((at, 1, 1))]


def window(there: Counter[int], limit: int | None, offset: int) -> Counter[int]:
    """The rows of a window, by a look at all rows in their order."""
    rows = [row for row in sorted(there) for _ in range(there[row])]
    return Counter(rows[offset:] if limit is None else rows[offset : offset + limit])


@given(
    times=st.lists(
        st.lists(st.tuples(st.integers(0, 12), st.sampled_from((1, 1, 1, -1))), max_size=8), max_size=12
    ),
    limit=st.none() | st.integers(0, 6),
    offset=st.integers(0, 6),
    few=st.sampled_from((0, 3, 1_000)),
)
def test_the_window_is_that_of_all_rows_after_each_timestamp(
    times: list[list[tuple[int, int]]], limit: int | None, offset: int, few: int
) -> None:
    """Also while a row has gone more often than it came."""
    top, there, shown = TopRows(limit, offset), Counter[int](), Counter[int]()
    with patch.object(top_rows, "_FEW", few):
        for wall, changes in enumerate(times):
            at = Timestamp(wall)
            for row, diff in changes:
                there[row] += diff
            ranked = [RankedUpdate((row,), Update(at, diff, (row,)), 1, 1) for row, diff in changes]
            for update in top.apply(ranked, ShownBytes()):
                assert update.time == at
                assert update.diff
                shown[update.row[0]] += update.diff
            assert +shown == window(there, limit, offset)
            assert min(shown.values(), default=0) >= 0


def plainly(values: Iterable[Any], limit: int | None, offset: int) -> Counter[str]:
    """The texts of the rows in the window: equal rows are in the order of their texts, NULLs are last."""
    rows = sorted(values, key=lambda value: (value is None, value or 0, repr((value,))))
    return Counter(repr((row,)) for row in rows[offset : None if limit is None else offset + limit])


@given(
    states=st.lists(st.dictionaries(st.integers(1, 8), _BALANCES, max_size=8), min_size=1, max_size=6),
    limit=st.none() | st.integers(0, 4),
    offset=st.integers(1, 4),
    few=st.sampled_from((0, 3, 1_000)),
)
def test_changes_are_those_between_two_looks_at_all_rows(
    states: list[dict[int, object]], limit: int | None, offset: int, few: int
) -> None:
    text = f"ORDER BY balance {'' if limit is None else f'LIMIT {limit}'} OFFSET {offset}"
    selection = plan_of(f"SUBSCRIBE (SELECT balance FROM accounts {text})").selection()
    assert selection is not None
    before = Counter[str]()
    with patch.object(top_rows, "_FEW", few):
        for state, updates in zip(states, updates_of(table_states(states)), strict=True):
            now = plainly(state.values(), limit, offset)
            diffs = {text: now[text] - before[text] for text in {*before, *now} if now[text] != before[text]}
            found = selection.apply(updates)
            assert {repr(each.row): each.diff for each in found} == diffs
            assert len(found) == len(diffs)
            before = now


@given(states=st.lists(st.dictionaries(st.integers(1, 5), _BALANCES, max_size=5), min_size=1, max_size=4))
def test_who_compares_rows_by_their_text_has_the_rows_of_the_table(states: list[dict[int, object]]) -> None:
    """A row that is written otherwise goes as it came. So nothing stays that is not there."""
    updates = updates_of(table_states(states))
    expected = Counter(repr((value,)) for value in states[-1].values())
    diffs = Counter[str]()
    for _, diff, *values in rows_of("SUBSCRIBE (SELECT balance FROM accounts)", updates):
        diffs[repr(tuple(values))] += diff
    assert {text: count for text, count in diffs.items() if count} == expected


@given(values=st.lists(st.just(_GONE) | _BALANCES, min_size=1, max_size=6))
@pytest.mark.parametrize("envelope", ["UPSERT", "DEBEZIUM"])
@pytest.mark.parametrize("tracked", [False, True])
def test_a_key_that_is_written_otherwise_goes_as_it_came(
    values: list[object], envelope: str, tracked: bool
) -> None:
    """One row, by a key whose text changes."""
    states: list[dict[int, object]] = [{} if value is _GONE else {1: value} for value in values]
    statement = f"SUBSCRIBE (SELECT balance FROM accounts) ENVELOPE {envelope} (KEY (balance))"
    there = set[str]()
    for _, state, key in rows_of(statement, updates_of(table_states(states)), track_keys=tracked):
        assert state in {"insert", "upsert", "delete"}
        if state == "delete":
            there.remove(repr(key))
        else:
            there.add(repr(key))
    assert there == {repr(value) for value in states[-1].values()}
