"""A query's work has bounds: for a row, for a piece, and for what has to come at once."""

from __future__ import annotations

from random import Random

import pytest

from tests.unit.subscribe.consumer_run import plan_of
from tidegate.errors import LimitExceeded
from tidegate.hlc import Timestamp
from tidegate.subscribe.query import ranked_order
from tidegate.subscribe.query.query_work import FREE_STEPS, PAUSE_STEPS, PIECE_STEPS, ROW_STEPS, WHOLE_STEPS
from tidegate.subscribe.query.shown_bytes import PieceFull, ShownBytes
from tidegate.subscribe.updates.process_share import HeldRows
from tidegate.subscribe.updates.update import RowValues, Update

#: A piece of a pattern that is looked for at each place of a text of a's, all of whose runs are compared.
SLOW = "%" + "a_" * 15 + "b%"
#: An object of JSON of 10,000 members: it takes some milliseconds to compare.
JSON = {"a": list(range(10_000))}
LIKES = " OR ".join(f"note LIKE '{SLOW}{number}'" for number in range(1_000))


def either(condition: str) -> str:
    """The same condition twenty times."""
    return " OR ".join([condition] * 20)


class Share:
    """A query's share of its process: it counts pauses, and ends at one of them."""

    def __init__(self, ends_at: int = 1 << 40) -> None:
        self.pauses = 0
        self._ends_at = ends_at

    def hold(self, rows: HeldRows, count: int) -> None:
        pass

    def pause(self) -> None:
        self.pauses += 1
        if self.pauses == self._ends_at:
            raise InterruptedError


def shown(
    query: str, rows: list[RowValues], made: ShownBytes | None = None, share: Share | None = None
) -> int:
    """Apply a query to rows at one time; returns how many rows it shows."""
    selection = plan_of(f"SUBSCRIBE ({query})").selection(share or Share())
    assert selection is not None
    return len(selection.apply([Update(Timestamp(1), 1, row) for row in rows], made))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("query", "row"),
    [
        (f"SELECT id FROM accounts WHERE {LIKES}", (1, 1, "a" * 10_000)),
        (f"SELECT {LIKES} FROM accounts", (1, 1, "a" * 10_000)),
        (f"SELECT id FROM accounts ORDER BY {LIKES} LIMIT 1", (1, 1, "a" * 10_000)),
        (f"SELECT id FROM accounts WHERE note ILIKE '{SLOW}'", (1, 1, "a" * 1_000_000)),
        (f"SELECT id FROM accounts WHERE {either('note NOT LIKE note')}", (1, 1, "%_" * 20_000)),
        (f"SELECT id FROM accounts WHERE {either('upper(note) = note')}", (1, 1, "ä" * 1_000_000)),
        (f"SELECT id FROM accounts WHERE {either('note::numeric = 1')}", (1, 1, "1" * 1_000_000)),
        (f"SELECT id FROM accounts WHERE {either('note <> note')}", (1, 1, JSON)),
        (f"SELECT id FROM accounts WHERE {either('note NOT IN (note)')}", (1, 1, JSON)),
        (f"SELECT id FROM accounts WHERE {either('note IS DISTINCT FROM note')}", (1, 1, JSON)),
        (f"SELECT id FROM accounts WHERE {either('nullif(note, note) = note')}", (1, 1, JSON)),
        (f"SELECT id FROM accounts WHERE {either('length(note::text) < 1')}", (1, 1, JSON)),
        (f"SELECT * FROM accounts ORDER BY {', '.join(['3'] * 40)} LIMIT 1", (1, 1, JSON)),
        (f"SELECT id FROM accounts WHERE {' OR '.join(['note<note'] * 4_000)}", (1, 1, "a" * 1_000_000)),
    ],
    ids=[
        *("where", "columns", "order", "one pattern", "long patterns", "letters", "numbers", "json"),
        *("json in a list", "distinct json", "json or null", "json as text", "order by json", "long texts"),
    ],
)
def test_a_row_has_a_bound_of_steps(query: str, row: RowValues) -> None:
    with pytest.raises(LimitExceeded, match=f"more than {ROW_STEPS:,} steps for one row") as caught:
        shown(query, [row])
    assert caught.value.sqlstate == "54000"


def test_ordinary_queries_meet_no_bound() -> None:
    likes = " OR ".join(["note LIKE '%abc_def%'"] * 60)
    for query in (
        f"SELECT id FROM accounts WHERE {likes}",
        "SELECT id FROM accounts WHERE note LIKE '%abc%'",
    ):
        assert shown(query, [(1, 1, "the quick brown fox " * 3_000)]) == 0
    assert shown("SELECT note FROM accounts WHERE note ILIKE '%FOX%'", [(1, 1, "fox" * 1_000_000)]) == 1


def test_a_piece_that_takes_long_is_cut_and_one_row_always_fits() -> None:
    query = f"SELECT id FROM accounts WHERE {' OR '.join(['note = id::text'] * 500)}"
    row = (1, 1, "a")
    fits = PIECE_STEPS // 1_500
    assert shown(query, [row] * fits, ShownBytes(cut=True)) == 0
    with pytest.raises(PieceFull):
        shown(query, [row] * (4 * fits), ShownBytes(cut=True))
    one = ShownBytes(cut=True)
    one.spend(10 * PIECE_STEPS)


def test_what_comes_at_once_has_a_bound_unless_each_row_takes_few_steps() -> None:
    whole = ShownBytes()
    whole.spend(WHOLE_STEPS - 1)
    with pytest.raises(LimitExceeded, match="steps for rows that have to come at once"):
        whole.spend(FREE_STEPS)
    many = ShownBytes()
    for _ in range(WHOLE_STEPS // FREE_STEPS // 1_000):
        for _ in range(1_000):
            many.spend(FREE_STEPS)
    many.spend(FREE_STEPS)


def test_a_query_pauses_between_rows_and_ends_there_when_its_subscription_is_closed() -> None:
    query = f"SELECT id FROM accounts WHERE {' OR '.join(['note = id::text'] * 500)}"
    share = Share()
    shown(query, [(1, 1, "a")] * 100, share=share)
    assert 100 * 1_000 // PAUSE_STEPS <= share.pauses <= 100
    closed = Share(ends_at=3)
    with pytest.raises(InterruptedError):
        shown(query, [(1, 1, "a")] * 100, share=closed)
    assert closed.pauses == 3


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "condition",
    [
        f"id IN ({', '.join(['balance'] * 5_000)})",
        f"coalesce({', '.join(['note'] * 5_000)}) = 'a'",
        " OR ".join(["note"] * 5_000),
        " AND ".join(["note IS NULL"] * 3_000),
    ],
    ids=["in", "coalesce", "or", "and"],
)
def test_an_operation_of_many_operands_is_many_and_pauses(condition: str) -> None:
    share = Share(ends_at=3)
    with pytest.raises(InterruptedError):
        shown(f"SELECT id FROM accounts WHERE {condition}", [(1, 2, None)] * 10, share=share)
    with pytest.raises(PieceFull):
        shown(f"SELECT id FROM accounts WHERE {condition}", [(1, 2, None)] * 200, ShownBytes(cut=True))


def test_a_list_of_constants_takes_as_long_as_one() -> None:
    condition = f"id IN ({', '.join(map(str, range(10_000)))})"
    rows: list[RowValues] = [(9_999, 0, "a")] * 1_000
    assert shown(f"SELECT id FROM accounts WHERE {condition}", rows, ShownBytes(cut=True)) == 1_000


def test_a_query_that_picks_columns_pauses_too() -> None:
    share = Share()
    assert shown("SELECT id FROM accounts", [(1, 1, "a")] * (3 * PAUSE_STEPS), share=share) == 3 * PAUSE_STEPS
    assert share.pauses >= 3


def test_the_key_of_json_that_a_row_is_sorted_by_counts() -> None:
    def kept(order: str) -> int:
        taken = 0

        class Counting(Share):
            def hold(self, rows: HeldRows, count: int) -> None:
                nonlocal taken
                taken = count

        shown(f"SELECT id, note FROM accounts ORDER BY {order} LIMIT 1", [(1, 1, JSON)], share=Counting())
        return taken

    assert kept(", ".join(["note"] * 10)) > 8 * kept("id")


def test_rows_for_limit_are_sorted_in_runs_with_pauses_between(monkeypatch: pytest.MonkeyPatch) -> None:
    def changes() -> tuple[list[list[Update]], int]:
        random, share = Random(1), Share()
        query = "SUBSCRIBE (SELECT * FROM accounts ORDER BY balance DESC LIMIT 400 OFFSET 100)"
        selection = plan_of(query).selection(share)
        assert selection is not None
        rows = [(key, random.randrange(50), "a") for key in range(1_000)]
        times = [[Update(Timestamp(1), 1, row) for row in rows]]
        times.append([Update(Timestamp(2), -1, row) for row in rows[:600]])
        times.append([Update(Timestamp(3), 1, row) for row in rows[:600]])
        return [sorted(selection.apply(updates)) for updates in times], share.pauses

    whole, few = changes()
    monkeypatch.setattr(ranked_order, "RUN_ENTRIES", 7)
    in_runs, many = changes()
    assert in_runs == whole
    assert many > few + 3 * 600 // 7


def test_a_query_that_shares_its_process_with_nobody_has_no_bound_of_steps() -> None:
    likes = " OR ".join(["note LIKE '%abc%'"] * 60)
    plan = plan_of(f"SUBSCRIBE (SELECT id FROM accounts WHERE {likes})")
    row = (1, 1, "the quick brown fox " * 50_000)
    alone, served = plan.selection(), plan.selection(Share())
    assert alone is not None
    assert served is not None
    assert alone.apply([Update(Timestamp(1), 1, row)] * 3) == []
    with pytest.raises(LimitExceeded):
        served.apply([Update(Timestamp(1), 1, row)] * 3)
