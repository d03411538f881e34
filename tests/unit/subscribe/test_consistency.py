"""At every frontier a consumer's table is the table as of that frontier, in every mode, through every
crash."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.subscribe.consumer_run import (
    MODES,
    Target,
    by_value,
    consume,
    die_between_chunks,
    plan_of,
    resume,
)
from tests.unit.subscribe.topic_histories import (
    END,
    RELATION,
    TopicHistory,
    shifted,
    times,
    topic_histories,
)
from tidegate.changefeed.definition.options import Format
from tidegate.client.subscribe.forms.batch_columns import BatchColumns
from tidegate.client.subscribe.forms.delivered_batch import DeliveredBatch
from tidegate.hlc import Timestamp
from tidegate.rows.sql_type import parse_sql_type
from tidegate.subscribe.changes.row_updates import RowBefore
from tidegate.subscribe.client.consumer_state import ConsumerState, ReleasedBatch
from tidegate.subscribe.client.received_row import ReceivedRow
from tidegate.subscribe.client.table_contents import TableContents
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.subscription import is_plain, row_before
from tidegate.subscribe.updates.frontier import Frontier

SOURCES = pytest.mark.parametrize("tells_before", [True, False], ids=["before-in-record", "key-rows"])
ALL_MODES = pytest.mark.parametrize("mode", MODES, ids=["diffs", "ordered", "upsert", "debezium"])
TYPES = tuple(parse_sql_type(each) for each in ("INT8", "INT8", "STRING"))
crashes = st.lists(st.integers(0, 60), max_size=3)


def statement(mode: str, bounds: str, options: str = "PROGRESS") -> str:
    """A statement about the table of these tests."""
    return f"SUBSCRIBE accounts {mode} WITH ({options}) {bounds}"


class AnyRows(TableContents):
    """Takes changes of rows that it does not have."""

    def fold(self, batch: ReleasedBatch) -> None:
        pass


def require_true_states(history: TopicHistory, target: Target) -> None:
    """Every state that was stored is the table as of its frontier."""
    for frontier, rows in zip(target.frontiers, target.states, strict=True):
        assert rows == by_value(history.rows_at(frontier))


@pytest.mark.sampled(2)
@ALL_MODES
@SOURCES
@examples(25)
@given(history=topic_histories(), as_of=times(), crash_at=crashes)
def test_every_state_is_the_table_as_of_its_frontier(
    mode: str, tells_before: bool, history: TopicHistory, as_of: Timestamp, crash_at: list[int]
) -> None:
    plan = plan_of(statement(mode, f"AS OF {as_of}"))
    within = [at for at in crash_at if at < len(history.records)]
    target = consume(history, plan, tells_before=tells_before, crashes=within)
    require_true_states(history, target)
    assert target.frontiers == sorted(set(target.frontiers))
    assert target.frontiers[-1] == END.next()
    assert target.snapshots == 1


@pytest.mark.sampled(2)
@ALL_MODES
@SOURCES
@examples(25)
@given(history=topic_histories(), as_of=times(), crash_at=crashes)
def test_a_resume_loses_and_repeats_nothing(
    mode: str, tells_before: bool, history: TopicHistory, as_of: Timestamp, crash_at: list[int]
) -> None:
    plan = plan_of(statement(mode, f"AS OF {as_of}"))
    within = [at for at in crash_at if at < len(history.records)]
    assert (
        consume(history, plan, tells_before=tells_before, crashes=within).rows
        == consume(history, plan, tells_before=tells_before).rows
    )


@pytest.mark.sampled(2)
@ALL_MODES
@SOURCES
@examples(25)
@given(
    history=topic_histories(),
    as_of=times(),
    crash_at=crashes,
    memory_bytes=st.sampled_from([0, 300, 1_000, 2_500]),
)
def test_rows_that_do_not_fit_into_memory_change_nothing(
    mode: str,
    tells_before: bool,
    history: TopicHistory,
    as_of: Timestamp,
    crash_at: list[int],
    memory_bytes: int,
) -> None:
    plan = plan_of(statement(mode, f"AS OF {as_of}"))
    within = [at for at in crash_at if at < len(history.records)]
    target = consume(history, plan, tells_before=tells_before, crashes=within, memory_bytes=memory_bytes)
    require_true_states(history, target)
    assert target.frontiers[-1] == END.next()
    assert target.rows == consume(history, plan, tells_before=tells_before).rows


@pytest.mark.sampled(4)
@ALL_MODES
@SOURCES
@pytest.mark.parametrize("query", ["accounts", "(SELECT note AS n, id FROM accounts WHERE balance > 1)"])
@examples(25)
@given(
    history=topic_histories(),
    as_of=times(),
    up_to=st.none() | times(),
    crash_at=crashes,
    memory_bytes=st.sampled_from([0, 3_000, 20_000]),
    snapshot=st.sampled_from(["true", "true", "false"]),
)
def test_a_snapshot_in_chunks_is_the_same_snapshot(
    mode: str,
    tells_before: bool,
    query: str,
    history: TopicHistory,
    as_of: Timestamp,
    up_to: Timestamp | None,
    crash_at: list[int],
    memory_bytes: int,
    snapshot: str,
) -> None:
    if query != "accounts":
        mode = mode.replace("balance DESC", "n")
    bounds = f"AS OF {as_of}" + ("" if up_to is None else f" UP TO {max(as_of, up_to)}")
    options = f"WITH (PROGRESS, SNAPSHOT = {snapshot}) {bounds}"
    plan = plan_of(f"SUBSCRIBE {query} {mode} {options}")
    within = [at for at in crash_at if at < len(history.records)]
    if snapshot == "false":  # a table that is not there at AS OF has nothing to be compared with
        within = []

    def consumed(**how: Any) -> Target:
        return consume(history, plan, tells_before=tells_before, crashes=within, contents=AnyRows(), **how)

    target, whole = consumed(memory_bytes=memory_bytes, in_chunks=True), consumed()
    assert by_value(target.rows) == by_value(whole.rows)
    assert [row for row in target.rows if row[0] > as_of] == [row for row in whole.rows if row[0] > as_of]
    assert target.frontiers == sorted(target.frontiers)
    assert target.frontiers[-1:] == whole.frontiers[-1:]
    assert target.snapshots == whole.snapshots


@pytest.mark.sampled(4)
@SOURCES
@pytest.mark.parametrize("mode", ["", "ENVELOPE UPSERT (KEY (id))", "ENVELOPE DEBEZIUM (KEY (id))"])
@examples(25)
@given(
    history=topic_histories(),
    as_of=times(),
    chunks=st.lists(st.integers(1, 3), max_size=3),
    memory_bytes=st.sampled_from([0, 600]),
)
def test_a_process_that_dies_between_chunks_has_stored_nothing(
    mode: str,
    tells_before: bool,
    history: TopicHistory,
    as_of: Timestamp,
    chunks: list[int],
    memory_bytes: int,
) -> None:
    plan = plan_of(statement(mode, f"AS OF {as_of}"))
    target = die_between_chunks(
        history, plan, tells_before=tells_before, memory_bytes=memory_bytes, chunks=chunks
    )
    require_true_states(history, target)
    assert target.snapshots == 1
    assert target.frontiers[-1] == END.next()


@pytest.mark.sampled(2)
@ALL_MODES
@SOURCES
@examples(25)
@given(history=topic_histories(), as_of=times(), up_to=times(), crash_at=crashes)
def test_a_bounded_subscription_ends_at_its_bound(
    mode: str,
    tells_before: bool,
    history: TopicHistory,
    as_of: Timestamp,
    up_to: Timestamp,
    crash_at: list[int],
) -> None:
    as_of, up_to = sorted((as_of, up_to))
    plan = plan_of(statement(mode, f"AS OF {as_of} UP TO {up_to}"))
    within = [at for at in crash_at if at < len(history.records)]
    target = consume(history, plan, tells_before=tells_before, crashes=within)
    require_true_states(history, target)
    assert all(row[0] < up_to for row in target.rows)
    assert not target.frontiers or target.frontiers[-1] == up_to
    assert target.rows == consume(history, plan, tells_before=tells_before).rows


@pytest.mark.sampled(2)
@ALL_MODES
@SOURCES
@examples(25)
@given(history=topic_histories(), as_of=times(), up_to=st.none() | times(), crash_at=crashes)
def test_whoever_holds_the_table_needs_no_snapshot_in_any_mode(
    mode: str,
    tells_before: bool,
    history: TopicHistory,
    as_of: Timestamp,
    up_to: Timestamp | None,
    crash_at: list[int],
) -> None:
    if up_to is not None:
        as_of, up_to = sorted((as_of, up_to))
    bounds = f"AS OF {as_of}" + ("" if up_to is None else f" UP TO {up_to}")
    plan = plan_of(statement(mode, bounds, "PROGRESS, SNAPSHOT = false"))
    within = [at for at in crash_at if at < len(history.records)]

    def consumed(*crashed: int) -> Target:
        contents = TableContents(len(plan.shape.key), len(plan.shape.rest))
        contents.restore(by_value(history.rows_at(as_of.next())))
        return consume(history, plan, tells_before=tells_before, crashes=crashed, contents=contents)

    target = consumed(*within)
    require_true_states(history, target)
    assert target.snapshots == 0
    assert all(row[0] > as_of for row in target.rows)
    assert target.rows == consumed().rows
    if up_to != as_of:
        assert target.frontiers[-1] == (END.next() if up_to is None else up_to)


@pytest.mark.sampled(2)
@ALL_MODES
@SOURCES
@examples(25)
@given(history=topic_histories(), as_of=times(), crash_at=crashes)
def test_arrow_tables_have_the_same_states(
    mode: str, tells_before: bool, history: TopicHistory, as_of: Timestamp, crash_at: list[int]
) -> None:
    pytest.importorskip("pyarrow")
    plan = plan_of(statement(mode, f"AS OF {as_of}"))
    typed = replace(plan, relation=replace(RELATION, types=TYPES))
    within = [at for at in crash_at if at < len(history.records)]
    target = consume(history, plan, tells_before=tells_before, crashes=within)
    state = ConsumerState(plan.shape.header)
    contents = TableContents(len(plan.shape.key), len(plan.shape.rest))
    state.push((as_of, True, *(None for _ in plan.shape.header[2:])))
    schemas = set()
    for batch in target.batches:
        columns = BatchColumns.of(typed, Format.JSON)
        table = DeliveredBatch(batch.frontier, batch.rows, batch.is_snapshot, None, False, columns).arrow()
        schemas.add(str(table.schema))
        for told in table.to_pylist():
            wall = int(told["mz_timestamp"])
            time = Timestamp(wall, int((told["mz_timestamp"] - wall) * 10**10))
            released = state.push((time, *list(told.values())[1:]))
            if released is not None:
                contents.fold(released)
                assert released.frontier == batch.frontier
                assert contents.rows() == by_value(history.rows_at(batch.frontier))
    assert len(schemas) == 1


@examples(25)
@given(history=topic_histories(), as_of=times(), up_to=times())
def test_a_token_of_a_bounded_subscription_resumes_beyond_its_bound(
    history: TopicHistory, as_of: Timestamp, up_to: Timestamp
) -> None:
    as_of, up_to = sorted((as_of, up_to))
    unbounded = plan_of(statement("", f"AS OF {as_of}"))
    target = consume(history, plan_of(statement("", f"AS OF {as_of} UP TO {up_to}")))
    if not target.token:  # it ended at AS OF, with nothing to resume from
        assert up_to == as_of
        return
    resume(history, unbounded, target)
    require_true_states(history, target)
    assert target.rows == consume(history, unbounded).rows


@examples(25)
@given(history=topic_histories(), as_of=times())
def test_without_a_snapshot_only_what_is_above_as_of_comes(history: TopicHistory, as_of: Timestamp) -> None:
    whole = consume(history, plan_of(statement("", f"AS OF {as_of}")))
    contents = TableContents()
    contents.fold(batch_of(as_of, history.rows_at(as_of.next())))
    plan = plan_of(statement("", f"AS OF {as_of}", "PROGRESS, SNAPSHOT = false"))
    later = consume(history, plan, contents=contents)
    assert later.rows == [row for row in whole.rows if row[0] > as_of]
    require_true_states(history, later)


def batch_of(time: Timestamp, rows: list[tuple[Any, ...]]) -> ReleasedBatch:
    """A batch that adds these rows."""
    received = tuple(ReceivedRow(time, False, diff=1, values=row) for row in rows)
    return ReleasedBatch(Frontier(time.next()), received, True, Frontier(time))


@examples(25)
@given(history=topic_histories(), as_of=times())
def test_dialects_differ_in_order_alone(history: TopicHistory, as_of: Timestamp) -> None:
    ours = consume(history, plan_of(statement("", f"AS OF {as_of}")))
    theirs = consume(history, plan_of(statement("", f"AS OF {as_of}"), Dialect.MATERIALIZE))
    assert by_value(ours.rows) == by_value(theirs.rows)
    for time in {row[0] for row in ours.rows}:
        signs = [row[2] > 0 for row in ours.rows if row[0] == time]
        assert signs == sorted(signs)


@pytest.mark.sampled(4)
@SOURCES
@pytest.mark.parametrize("envelope", ["", "ENVELOPE UPSERT (KEY (id))", "ENVELOPE DEBEZIUM (KEY (id))"])
@examples(25)
@given(history=topic_histories(), as_of=times(), up_to=times(), crash_at=crashes)
def test_a_table_and_a_query_of_all_of_it_give_the_same_rows(
    tells_before: bool,
    envelope: str,
    history: TopicHistory,
    as_of: Timestamp,
    up_to: Timestamp,
    crash_at: list[int],
) -> None:
    """A table goes the short way, which knows no queries."""
    as_of, up_to = sorted((as_of, up_to))
    bounds = f"AS OF {as_of} UP TO {up_to}"
    within = [at for at in crash_at if at < len(history.records)]
    table, query = (
        plan_of(statement(envelope, bounds)),
        plan_of(f"SUBSCRIBE (SELECT * FROM accounts) {envelope} WITH (PROGRESS) {bounds}"),
    )
    assert is_plain(table)
    assert not is_plain(query)
    short = consume(history, table, tells_before=tells_before, crashes=within)
    long = consume(history, query, tells_before=tells_before, crashes=within)
    silent = row_before(table, tells_before=tells_before) is RowBefore.NOWHERE
    assert [row for row in short.rows if not silent or row in long.rows] == long.rows
    assert short.states == long.states


@pytest.mark.sampled(2)
@ALL_MODES
@SOURCES
@examples(25)
@given(history=topic_histories(), as_of=times(), crash_at=crashes)
def test_times_of_our_days_change_nothing(
    mode: str, tells_before: bool, history: TopicHistory, as_of: Timestamp, crash_at: list[int]
) -> None:
    wall = 1_763_000_000_000_000_000
    within = [at for at in crash_at if at < len(history.records)]
    early = consume(
        history, plan_of(statement(mode, f"AS OF {as_of}")), tells_before=tells_before, crashes=within
    )
    later = consume(
        shifted(history, wall),
        plan_of(statement(mode, f"AS OF {Timestamp(as_of.wall + wall, as_of.logical)}")),
        tells_before=tells_before,
        crashes=within,
    )
    assert later.rows == [(Timestamp(row[0].wall + wall, row[0].logical), *row[1:]) for row in early.rows]
    assert later.states == early.states


@SOURCES
@examples(25)
@given(history=topic_histories(), as_of=times())
def test_a_query_filters_and_cuts(tells_before: bool, history: TopicHistory, as_of: Timestamp) -> None:
    query = "SUBSCRIBE (SELECT note AS n, id FROM accounts WHERE balance > 1 OR note IS NULL)"
    target = consume(history, plan_of(f"{query} WITH (PROGRESS) AS OF {as_of}"), tells_before=tells_before)
    for frontier, rows in zip(target.frontiers, target.states, strict=True):
        kept = [row for row in history.rows_at(frontier) if (row[1] or 0) > 1 or row[2] is None]
        assert rows == by_value([(note, key) for key, _, note in kept])


@SOURCES
@examples(25)
@given(history=topic_histories(), as_of=times(), limit=st.integers(0, 3), offset=st.integers(0, 2))
def test_the_first_rows_of_an_order_are_kept(
    tells_before: bool, history: TopicHistory, as_of: Timestamp, limit: int, offset: int
) -> None:
    order = f"ORDER BY balance DESC NULLS LAST, id LIMIT {limit} OFFSET {offset}"
    query = f"SUBSCRIBE (SELECT * FROM accounts {order})"
    target = consume(history, plan_of(f"{query} WITH (PROGRESS) AS OF {as_of}"), tells_before=tells_before)
    for frontier, rows in zip(target.frontiers, target.states, strict=True):
        ordered = sorted(
            history.rows_at(frontier), key=lambda row: (-1 if row[1] is None else row[1], -row[0])
        )
        ordered.reverse()
        assert rows == by_value(ordered[offset : offset + limit])


def test_where_the_row_before_comes_from() -> None:
    assert RELATION.primary_key == ("id",)
    by_key = plan_of("SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))")
    by_note = plan_of("SUBSCRIBE accounts ENVELOPE UPSERT (KEY (note))")
    assert row_before(by_key, tells_before=True) is RowBefore.RECORD
    assert row_before(by_key, tells_before=False) is RowBefore.NOWHERE
    assert row_before(by_note, tells_before=False) is RowBefore.KEY_ROWS
