"""The outputs stage: what the vectors leave open, and what the dialects do differently."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import Timestamp
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.outputs.output_stage import OutputBounds, Outputs
from tidegate.subscribe.outputs.shape import shape_of
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.update import Update

COLUMNS = ("k", "v")


def outputs(
    clause: str = "",
    as_of: int = 10,
    up_to: int | None = None,
    dialect: Dialect = Dialect.TIDEGATE,
    *,
    track_keys: bool = False,
) -> Outputs:
    """A stage with PROGRESS over the columns ``k`` and ``v``."""
    shape = shape_of(COLUMNS, parse_subscribe(f"SUBSCRIBE t {clause}").output, progress=True)
    bounds = OutputBounds(Timestamp(as_of), None if up_to is None else Timestamp(up_to))
    return Outputs(shape, bounds, dialect, track_keys=track_keys)


def at(wall: int) -> Frontier:
    """The frontier (wall, 0)."""
    return Frontier(Timestamp(wall))


def update(wall: int, diff: int, *row: Any) -> Update:
    """An update at (wall, 0)."""
    return Update(Timestamp(wall), diff, row)


def plain(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows with their wall times."""
    return [[row[0].wall, *row[1:]] for row in rows]


def test_the_default_ends_with_progress_at_up_to_and_materialize_does_not() -> None:
    for dialect, last in ((Dialect.TIDEGATE, [[20, True, None, None, None]]), (Dialect.MATERIALIZE, [])):
        for end in (at(25), at(20), None):
            stage = outputs(up_to=20, dialect=dialect)
            stage.add_updates([update(15, 1, "a", 1), update(20, 1, "b", 1)])
            assert plain(stage.advance(end)) == [[15, False, 1, "a", 1], *last]
            assert stage.ended
            assert stage.frontier == Timestamp(20)
            assert stage.advance(at(30)) == []


def test_an_as_of_at_up_to_ends_with_the_opening_row_alone() -> None:
    for dialect in Dialect:
        stage = outputs(as_of=10, up_to=10, dialect=dialect)
        stage.add_updates([update(5, 1, "a", 1)])
        assert plain(stage.opening()) == [[10, True, None, None, None]]
        assert stage.advance(at(10)) == []
        assert stage.ended


def test_frontiers_up_to_as_of_and_lower_ones_give_nothing() -> None:
    stage = outputs()
    stage.add_updates([update(3, 1, "a", 1)])
    assert stage.advance(at(4)) == stage.advance(at(10)) == []
    assert plain(stage.advance(Frontier(Timestamp(10, 1)))) == [
        [10, False, 1, "a", 1],
        [10, True, None, None, None],
    ]
    assert stage.advance(at(9)) == []


def test_retractions_come_first_by_default_and_by_value_in_materialize() -> None:
    updates = [update(11, 1, "a", 1), update(11, -1, "b", 1), update(11, 1, "b", 0), update(11, -1, "c", 9)]
    ours, theirs = outputs(), outputs(dialect=Dialect.MATERIALIZE)
    for stage in (ours, theirs):
        stage.add_updates(updates)
    assert [row[2:4] for row in ours.advance(at(12))[:-1]] == [(-1, "b"), (-1, "c"), (1, "a"), (1, "b")]
    assert [row[2:4] for row in theirs.advance(at(12))[:-1]] == [(1, "a"), (1, "b"), (-1, "b"), (-1, "c")]


@given(
    st.permutations(
        [update(11, diff, key, value) for diff in (-1, 1) for key in "ab" for value in (diff, None)]
    )
)
def test_the_order_does_not_depend_on_how_updates_arrive(updates: list[Update]) -> None:
    for clause in (
        "",
        "WITHIN TIMESTAMP ORDER BY k",
        "ENVELOPE UPSERT (KEY (k))",
        "ENVELOPE DEBEZIUM (KEY (v))",
    ):
        stage, straight = outputs(clause), outputs(clause)
        stage.add_updates(updates)
        straight.add_updates(sorted(updates, key=repr))
        assert stage.advance(at(12)) == straight.advance(at(12))


def test_a_tracked_violation_ends_and_an_untracked_one_looks_clean_too_early() -> None:
    """The walk through one key of Materialize's own test: two rows, a third, then one after the other
    goes."""
    steps = [
        (11, [(1, 1), (1, 2)], "key_violation", "key_violation"),
        (12, [(1, 3)], "upsert", "key_violation"),
        (13, [(-1, 1)], "delete", "key_violation"),
        (14, [(-1, 2)], "delete", "upsert"),
        (15, [(-1, 3)], "delete", "delete"),
        (16, [(2, 4)], "key_violation", "key_violation"),
        (17, [(-1, 4)], "delete", "upsert"),
    ]
    stateless, tracked = (outputs("ENVELOPE UPSERT (KEY (k))", track_keys=track) for track in (False, True))
    for wall, changes, plainly, truly in steps:
        for stage, expected in ((stateless, plainly), (tracked, truly)):
            stage.add_updates([update(wall, diff, "a", value) for diff, value in changes])
            rows = stage.advance(at(wall + 1))
            assert [row[2] for row in rows[:-1]] == [expected], wall


def test_a_tracked_key_tells_what_is_live_after_a_violation() -> None:
    stage = outputs("ENVELOPE DEBEZIUM (KEY (k))", track_keys=True)
    stage.add_updates(
        [update(11, 1, "a", 1), update(12, 1, "a", 2), update(13, -1, "a", 1), update(14, -1, "a", 2)]
    )
    rows = [row[2:] for row in stage.advance(at(20))[:-1]]
    assert rows == [
        ("insert", "a", None, 1),
        ("key_violation", "a", None, None),
        ("upsert", "a", None, 2),
        ("delete", "a", 2, None),
    ]


def test_numbers_have_a_scale_here_and_none_in_materialize() -> None:
    one, same = Decimal("1.00"), Decimal("1.0")
    came, changed = update(15, 1, "a", one), [update(25, -1, "a", one), update(25, 1, "a", same)]
    for clause in "", "ENVELOPE UPSERT (KEY (k))", "ENVELOPE DEBEZIUM (KEY (k))":
        for tracked in (False, True) if clause else (False,):
            ours, theirs = (outputs(clause, dialect=each, track_keys=tracked) for each in Dialect)
            shown = []
            for stage in ours, theirs:
                stage.add_updates([came, *changed, update(35, -1, "a", same)])
                rows = stage.advance(at(40))
                shown.append([(row[0].wall, *row[2:]) for row in rows if not row[1]])
            assert {row[0] for row in shown[0]} == {15, 25, 35}
            assert [row[0] for row in shown[1]] == [15, 35]
            assert "key_violation" not in str(shown)
            assert "1.0" in repr(shown[0])
            assert "1.0" not in repr(shown[1])
