"""Rows out of changes that several subscriptions share are those that a subscription of its own has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import DECODERS, plan_of
from tests.unit.subscribe.topic_histories import RELATION, TopicHistory, times, topic_histories
from tidegate.changefeed.definition.feed import TableName
from tidegate.errors import UnreadableRow
from tidegate.hlc import Timestamp
from tidegate.rows.types import Kind, SqlType
from tidegate.subscribe.changes.key_rows import MemoryKeyRows
from tidegate.subscribe.changes.table_changes import TableChanges, TableFollower
from tidegate.subscribe.gate.row_gate import RowGate
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.plan import plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement_rows import StatementRows
from tidegate.subscribe.subscription import Subscription, SubscriptionBatch, SubscriptionSource
from tidegate.subscribe.updates.frontier import Frontier, frontier_after, resume_as_of
from tidegate.subscribe.updates.relation import Relation, Relations
from tidegate.subscribe.updates.update import RowValues
from tidegate.subscribe.updates.value_order import values_key

STATEMENTS = st.builds(
    "SUBSCRIBE {} {} {}".format,
    st.sampled_from(
        (
            "accounts",
            "(SELECT * FROM accounts WHERE balance > 0)",
            "(SELECT id, balance * 2 AS balance, note FROM accounts)",
            "(SELECT id, balance, note FROM accounts ORDER BY balance DESC, id LIMIT 2)",
        )
    ),
    st.sampled_from(
        (
            "",
            "WITHIN TIMESTAMP ORDER BY balance DESC, mz_diff",
            "ENVELOPE UPSERT (KEY (id))",
            "ENVELOPE DEBEZIUM (KEY (id))",
            "ENVELOPE UPSERT (KEY (balance))",
        )
    ),
    st.sampled_from(("", "WITH (PROGRESS)")),
)


class Run:
    """A gate over a history, with what follows it."""

    def __init__(self, history: TopicHistory, as_of: Timestamp) -> None:
        self.rows = MemoryKeyRows()
        self.follower = TableFollower(RELATION, self.rows, as_of)
        self.changes: list[TableChanges] = []
        #: The table at the frontier of each of the changes.
        self.tables: list[list[RowValues]] = []
        gate = RowGate(DECODERS, history.partitions)
        for place, record in history.records:
            gate.add_record(place, record)
            opening = gate.open()
            if opening is None:
                continue
            changes = self.follower.follow(opening, gate.offsets())
            if changes is not None:
                self.changes.append(changes)
                self.tables.append(list(self.rows._rows.values()))


def subscribed(history: TopicHistory, text: str, as_of: Timestamp) -> list[SubscriptionBatch]:
    """The batches of a subscription of its own."""
    subscription = Subscription(plan_of(text), as_of, SubscriptionSource("feed", tells_before=True))
    gate = RowGate(DECODERS, history.partitions)
    found = []
    for place, record in history.records:
        gate.add_record(place, record)
        opening = gate.open()
        batch = None if opening is None else subscription.advance(opening, gate.offsets())
        found += [] if batch is None else [batch]
    return found


def by_value(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=values_key)


@given(history=topic_histories(), as_of=times())
def test_changes_follow_each_other_and_the_table_is_as_of_their_frontier(
    history: TopicHistory, as_of: Timestamp
) -> None:
    run = Run(history, as_of)
    frontier = frontier_after(as_of)
    for changes, table in zip(run.changes, run.tables, strict=True):
        assert changes.before == frontier
        frontier = changes.frontier
        assert all(changes.before <= time < frontier for time in changes.times)
        assert by_value(table) == by_value(history.rows_at(frontier))


def test_json_that_is_nested_too_deeply_to_be_compared_is_refused_by_name() -> None:
    shown_by = StatementRows(plan_of("SUBSCRIBE accounts WITHIN TIMESTAMP ORDER BY note"), "feed")
    rows = []
    for key in range(2):
        note: Any = 1
        for _ in range(2_000):
            note = [note]
        rows.append((key, 1, note))
    frontier, after = Frontier(Timestamp(5)), Frontier(Timestamp(9))
    changes = TableChanges(frontier, after, (Timestamp(6),), ([(None, row) for row in rows],), {}, 0)
    with pytest.raises(UnreadableRow, match="nested too deeply"):
        shown_by.snapshot(rows, frontier)
    with pytest.raises(UnreadableRow, match="nested too deeply"):
        shown_by.changes(changes)


@given(history=topic_histories(), begin=times(), as_of=times(), text=STATEMENTS)
def test_a_snapshot_and_what_follows_are_those_of_a_subscription_of_its_own(
    history: TopicHistory, begin: Timestamp, as_of: Timestamp, text: str
) -> None:
    """The snapshot of the shared table is as of an opening; later batches are the same."""
    run = Run(history, min(begin, as_of))
    joined = next((at for at, each in enumerate(run.changes) if resume_as_of(each.frontier) >= as_of), None)
    if joined is None:
        return
    frontier = run.changes[joined].frontier
    own = subscribed(history, text, resume_as_of(frontier))
    shown_by = StatementRows(plan_of(text), "feed")
    snapshot = shown_by.snapshot(run.tables[joined], frontier)
    shown = [snapshot, *(shown_by.changes(changes) for changes in run.changes[joined + 1 :])]
    assert [each.frontier for each in shown] == [each.frontier for each in own]
    assert [each.rows for each in shown] == [each.rows for each in own]
    assert own[0].token is None or own[0].token.fingerprint == shown_by.fingerprint


@given(history=topic_histories(), cut=times(), text=STATEMENTS)
def test_changes_that_are_cut_at_a_frontier_go_on_exactly_there(
    history: TopicHistory, cut: Timestamp, text: str
) -> None:
    shown_by = StatementRows(plan_of(text), "feed")
    if shown_by.stateful:
        return
    for changes in Run(history, Timestamp(0)).changes:
        if not changes.before <= cut < changes.frontier:
            continue
        rest = changes.after(Frontier(cut))
        assert (rest.before, rest.frontier) == (cut, changes.frontier)
        assert shown_by.changes(rest).rows == tuple(
            row for row in shown_by.changes(changes).rows if row[0] >= cut
        )


@given(history=topic_histories(), up_to=times(), text=STATEMENTS)
def test_up_to_ends_within_changes(history: TopicHistory, up_to: Timestamp, text: str) -> None:
    for dialect in Dialect:
        own = subscribed(history, f"{text} UP TO {up_to.decimal()}", Timestamp(0))
        shown_by = StatementRows(plan_of(text, dialect), "feed")
        for changes in Run(history, Timestamp(0)).changes:
            shown = shown_by.changes(changes, up_to)
            if dialect is Dialect.TIDEGATE:
                assert (shown.frontier, shown.is_last) == (own[0].frontier, own[0].is_last)
                if not own[0].is_snapshot:
                    assert shown.rows == own[0].rows
                own = own[1:]
            if shown.is_last:
                assert changes.frontier >= up_to
                assert all(row[0] < up_to or row[1] is True for row in shown.rows)
                break


@pytest.mark.parametrize("rest", ["", " ORDER BY id LIMIT 5"])
def test_a_row_at_or_above_up_to_has_no_say(rest: str) -> None:
    changes = TableChanges(
        Frontier(Timestamp(1)),
        Frontier(Timestamp(9)),
        [Timestamp(wall) for wall in range(1, 9)],
        [[(None, (wall, wall, "a"))] for wall in range(1, 9)],
        {},
    )
    shown_by = StatementRows(plan_of(f"SUBSCRIBE (SELECT id, 1 / (5 - balance) FROM accounts{rest})"), "feed")
    shown = shown_by.changes(changes, Timestamp(5))
    assert [shown_row[0].wall for shown_row in shown.rows] == [1, 2, 3, 4]
    assert shown.is_last
    assert shown.frontier == Timestamp(5)


def test_one_form_for_statements_that_differ_by_their_bounds_alone() -> None:
    one, other = (
        StatementRows(plan_of(f"SUBSCRIBE accounts {rest}"), "feed").form
        for rest in ("AS OF 3 UP TO 9", "WITH (SNAPSHOT = false)")
    )
    assert one == other
    others = ("WITH (PROGRESS)", "ENVELOPE UPSERT (KEY (id))", "WITHIN TIMESTAMP ORDER BY id")
    forms = {StatementRows(plan_of(f"SUBSCRIBE accounts {rest}"), "feed").form for rest in others}
    assert len({one, *forms}) == 4


def test_statements_that_were_planned_with_other_types_have_another_form_and_take_the_same_tokens() -> None:
    """A text is compared by its bytes, a DECIMAL by its number: the same changes show other rows."""
    changes = TableChanges(
        Frontier(Timestamp(1)), Frontier(Timestamp(3)), [Timestamp(2)], [[(None, (1, "9"))]], {}
    )
    shown: list[StatementRows] = []
    for kind in (Kind.STRING, Kind.DECIMAL):
        relation = Relation(TableName("t"), ("id", "v"), ("id",), types=(SqlType(Kind.INT), SqlType(kind)))
        statement = parse_subscribe("SUBSCRIBE (SELECT id, v FROM t WHERE v < '10')")
        shown.append(StatementRows(plan_subscribe(statement, Relations([relation]), 1), "feed"))
    text, number = shown
    assert [len(each.changes(changes).rows) for each in shown] == [0, 1]
    assert text.form != number.form
    assert text.fingerprint == number.fingerprint
