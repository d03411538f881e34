"""Plain rows show what the outputs stage shows, whatever the keys and values are."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import plan_of
from tidegate.hlc import Timestamp
from tidegate.subscribe.outputs.output_stage import OutputBounds, Outputs
from tidegate.subscribe.outputs.plain_rows import plain_rows
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.update import Update

_NAN = float("nan")
_KEYS = st.one_of(
    st.sets(st.integers(-3, 3), max_size=4),
    st.sets(st.integers(2**63 - 2, 2**63 + 2), max_size=4),
    st.sets(st.sampled_from(("a", "B", "", "ä", "\U0001f30a")), max_size=4),
    st.sets(st.sampled_from((Decimal("1.5"), 2, -1, "b", None)), max_size=4),
    st.sets(st.sampled_from((0.5, 2.0, -1.0, _NAN)), max_size=4),
    st.sets(st.sampled_from((True, -1, 2)), max_size=4),
)
#: Each record that is decoded has a NaN of its own, which Python finds equal to none.
_NANS = st.builds(float, st.just("nan"))
_VALUES = st.one_of(
    *(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from((Decimal("0.5"), "a", "b"))),
    st.sampled_from((Decimal("0.50"), Decimal("1"), 0.0, -0.0, {"a": 1, "b": 2}, {"b": 2, "a": 1})),
    *(_NANS, st.lists(_NANS, min_size=1, max_size=1)),
)


@st.composite
def _times(draw: st.DrawFn) -> list[list[tuple[Any, Any]]]:
    """Draw, for each timestamp, the changes of some keys: the row before and the row after."""
    times = []
    for keys in draw(st.lists(_KEYS.filter(bool), min_size=1, max_size=4)):
        changes = []
        for key in keys:
            before, after = (
                draw(st.none() | st.tuples(st.just(key), _VALUES, st.sampled_from(("x", None))))
                for _ in range(2)
            )
            changes.append((before, after))
        times.append(changes)
    return times


@pytest.mark.parametrize(
    "output", ["", "ENVELOPE UPSERT (KEY (id))", "ENVELOPE DEBEZIUM (KEY (id))"], ids=lambda text: text[:15]
)
@given(times=_times())
def test_both_ways_show_the_same(output: str, times: list[list[tuple[Any, Any]]]) -> None:
    plan = plan_of(f"SUBSCRIBE accounts {output}")
    stage = Outputs(plan.shape, OutputBounds(Timestamp(0)), plan.dialect)
    before, after, groups = list[Any](), list[Any](), []
    for wall, changes in enumerate(times, 1):
        groups.append(((Timestamp(wall),), len(before), len(before) + len(changes)))
        for old, new in changes:
            before.append(old)
            after.append(new)
            stage.add_updates(
                Update(Timestamp(wall), diff, row) for diff, row in ((-1, old), (1, new)) if row
            )
    expected = stage.advance(Frontier(Timestamp(len(times) + 1)))
    shown = plain_rows(plan.shape)(groups, before, after)
    assert [_typed(row) for row in shown] == [_typed(row) for row in expected]


def _typed(row: tuple[Any, ...]) -> list[tuple[type, Any]]:
    """TRUE and 1 are equal in Python alone, and NaN is not."""
    return [(type(value), repr(value)) for value in row]


@pytest.mark.parametrize(
    ("before", "after", "is_one"),
    [
        (float("nan"), float("nan"), True),
        ([1.5, float("nan")], [1.5, float("nan")], True),
        (float("nan"), 1.5, False),
        (1.5, float("nan"), False),
        ([float("nan")], [1.5], False),
        (Decimal("1.00"), Decimal("1.00"), True),
        (Decimal("1.00"), Decimal("1.0"), False),
        ([Decimal("1.00")], [Decimal("1.0")], False),
        ({"a": Decimal("1.00")}, {"a": Decimal("1.0")}, False),
        (0.0, -0.0, False),
    ],
)
@pytest.mark.parametrize("output", ["", "ENVELOPE UPSERT (KEY (id))", "ENVELOPE DEBEZIUM (KEY (id))"])
def test_a_row_that_is_written_as_before_shows_nothing(
    output: str, before: Any, after: Any, is_one: bool
) -> None:
    shown = plain_rows(plan_of(f"SUBSCRIBE accounts {output}").shape)
    rows = shown([((Timestamp(1),), 0, 1)], [(1, before, "a")], [(1, after, "a")])
    assert (rows == []) is is_one
    assert shown([((Timestamp(1),), 0, 1)], [(1, before, "a")], [(1, after, "b")]) != []
