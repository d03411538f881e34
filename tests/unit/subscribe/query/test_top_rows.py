"""The first rows of an order are those that a look at all rows gives, in whatever order updates come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import plan_of
from tidegate.hlc import Timestamp
from tidegate.subscribe.outputs.output_stage import OutputBounds, Outputs
from tidegate.subscribe.query import top_rows
from tidegate.subscribe.query.shown_bytes import ShownBytes
from tidegate.subscribe.query.top_rows import RankedUpdate, TopRows
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.row_identity import row_identity
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


def plainly(
    entries: dict[object, list[RowValues]], order: Sequence[object], limit: int | None, offset: int
) -> dict[object, tuple[int, str]]:
    """Return how often each row is in the window, and the text in which it is shown."""
    rows = [identity for identity in order for _ in entries[identity]]
    counts = Counter(rows[offset:] if limit is None else rows[offset : offset + limit])
    return {identity: (count, min(map(repr, entries[identity]))) for identity, count in counts.items()}


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
    rows: list[dict[int, RowValues]] = [
        {key: (key, value, None) for key, value in each.items()} for each in states
    ]
    before: dict[object, tuple[int, str]] = {}
    with patch.object(top_rows, "_FEW", few):
        for state, updates in zip(rows, updates_of(rows), strict=True):
            entries: dict[object, list[RowValues]] = {}
            for _, value, _ in state.values():
                entries.setdefault(row_identity((value,)), []).append((value,))
            order = sorted(entries, key=lambda each: (entries[each][0][0] is None, entries[each][0][0] or 0))
            now = plainly(entries, order, limit, offset)
            found = selection.apply(updates)
            diffs = {
                identity: (now.get(identity, (0, ""))[0] - before.get(identity, (0, ""))[0])
                for identity in {*before, *now}
            }
            texts = {
                (identity, diff, (now.get(identity) or before[identity])[1])
                for identity, diff in diffs.items()
                if diff
            }
            assert {(row_identity(each.row), each.diff, repr(each.row)) for each in found} == texts
            assert len(found) == len(texts)
            before = now
