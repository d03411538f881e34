"""Topics to which somebody else has written: a subscription ends with a typed error, or is right.

What nobody can tell apart from the feed's own rows counts as the feed's: a new version above everything that
was delivered is one more commit.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import Target, consume, plan_of
from tests.unit.subscribe.hostile_records import (
    KEYS,
    MARKERS,
    VALUES,
    Intruder,
    fallen_marker,
    foreign,
    highest_marker,
    intruded,
    new_version,
    other_value,
    redelivered,
)
from tests.unit.subscribe.topic_histories import END, TopicHistory, record_bytes, times, topic_histories
from tidegate.errors import (
    EvaluationError,
    LateRow,
    MarkerFell,
    PromiseBroken,
    RepeatDiffers,
    SubscribeError,
    UnreadableRow,
)
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.text.row_text import JsonLines
from tidegate.subscribe.updates.value_order import values_key

STATEMENTS = pytest.mark.parametrize(
    "statement",
    [
        "SUBSCRIBE accounts",
        "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))",
        "SUBSCRIBE (SELECT id, note FROM accounts WHERE balance + 1 > 1 OR note IS NULL)",
        "SUBSCRIBE (SELECT * FROM accounts ORDER BY balance DESC, note LIMIT 3)",
    ],
    ids=["diffs", "upsert", "filtered", "first-rows"],
)
SOURCES = pytest.mark.parametrize("tells_before", [True, False], ids=["before-in-record", "key-rows"])
seeds = st.integers(0, 2**32)


def read(
    history: TopicHistory, statement: str, as_of: Timestamp, tells_before: bool, **more: Any
) -> Target | SubscribeError:
    """Return what a consumer has stored at the end, or the error that ended it; another kind of error is
    raised."""
    plan = plan_of(f"{statement} WITH (PROGRESS) AS OF {as_of}")
    error: SubscribeError | None = None
    try:
        target = consume(history, plan, tells_before=tells_before, **more)
    except SubscribeError as raised:
        error = raised
    if error is not None:
        assert "" not in (error.code, error.sqlstate)
        # An expression is of rows, wherever they stand.
        assert isinstance(error, EvaluationError) or (error.topic and min(error.offset, error.partition) >= 0)
        return error
    lines = JsonLines(tuple(str(at) for at in range(len(target.rows[0])))) if target.rows else None
    for row in target.rows:
        assert lines is not None
        lines.line(row).encode()  # whatever is delivered can be written down
    return target


def require_true(found: Target, history: TopicHistory) -> None:
    """Every state that was stored is the table as of its frontier."""
    for frontier, rows in zip(found.frontiers, found.states, strict=True):
        assert rows == sorted(history.rows_at(frontier), key=values_key)


@pytest.mark.sampled(2)
@STATEMENTS
@SOURCES
@given(history=topic_histories(), as_of=times(), seed=seeds)
def test_bytes_of_others_end_a_subscription_with_a_typed_error_or_change_nothing(
    statement: str, tells_before: bool, history: TopicHistory, as_of: Timestamp, seed: int
) -> None:
    read(intruded(history, foreign(Random(seed), history)), statement, as_of, tells_before)


def _one_row() -> TopicHistory:
    return TopicHistory((), (FeedPartition("accounts", 0),), ())


@pytest.mark.sampled(4)
@STATEMENTS
@SOURCES
@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:60])
def test_each_foreign_value_is_refused_or_delivered_as_what_it_says(
    statement: str, tells_before: bool, value: bytes | None
) -> None:
    place = FeedPartition("accounts", 0)
    for key in (b"[1]", *KEYS):
        history = _one_row()
        history = intruded(history, Intruder(0, place, key, value))
        marker = f'{{"resolved":"{END.decimal()}"}}'.encode()
        read(intruded(history, Intruder(1, place, None, marker)), statement, Timestamp(3), tells_before)


@pytest.mark.parametrize("value", MARKERS, ids=lambda value: repr(value)[:60])
def test_each_foreign_marker_is_refused(value: bytes | None) -> None:
    history = intruded(_one_row(), Intruder(0, FeedPartition("accounts", 0), None, value))
    found = read(history, "SUBSCRIBE accounts", Timestamp(3), True)
    assert isinstance(found, UnreadableRow), value


@given(history=topic_histories(), as_of=times(), seed=seeds)
def test_a_marker_that_falls_ends_it(history: TopicHistory, as_of: Timestamp, seed: int) -> None:
    assert isinstance(
        read(intruded(history, fallen_marker(Random(seed), history)), "SUBSCRIBE accounts", as_of, True),
        MarkerFell,
    )


@given(history=topic_histories(), as_of=times(), seed=seeds)
def test_a_marker_at_the_end_of_times_ends_it_with_the_next_one(
    history: TopicHistory, as_of: Timestamp, seed: int
) -> None:
    intruder = highest_marker(Random(seed), history)
    later = {
        record.key is None for place, record in history.records[intruder.after :] if place == intruder.place
    }
    found = read(intruded(history, intruder), "SUBSCRIBE accounts", as_of, True)
    assert isinstance(found, PromiseBroken) or True not in later


@SOURCES
@given(history=topic_histories(), as_of=times(), seed=seeds)
def test_a_new_version_is_late_or_one_more_commit(
    tells_before: bool, history: TopicHistory, as_of: Timestamp, seed: int
) -> None:
    intruder, commit = new_version(Random(seed), history, record_bytes)
    found = read(intruded(history, intruder), "SUBSCRIBE accounts", as_of, tells_before)
    assert isinstance(found, Target | LateRow)
    commits = tuple(sorted((*history.commits, commit), key=lambda each: (each.time, each.key)))
    if isinstance(found, Target):
        require_true(found, replace(history, commits=commits))


@SOURCES
@given(history=topic_histories(), as_of=times(), seed=seeds)
def test_a_version_that_comes_again_with_another_value_ends_it(
    tells_before: bool, history: TopicHistory, as_of: Timestamp, seed: int
) -> None:
    assume(history.commits)
    history = intruded(history, other_value(Random(seed), history))
    assert isinstance(read(history, "SUBSCRIBE accounts", as_of, tells_before), RepeatDiffers)


@pytest.mark.sampled(2)
@STATEMENTS
@SOURCES
@given(
    history=topic_histories(),
    as_of=times(),
    seed=seeds,
    crashes=st.lists(st.integers(0, 400), max_size=4),
    memory_bytes=st.sampled_from([None, 0, 2_000]),
)
def test_what_is_written_again_many_times_changes_nothing(
    statement: str,
    tells_before: bool,
    history: TopicHistory,
    as_of: Timestamp,
    seed: int,
    crashes: list[int],
    memory_bytes: int | None,
) -> None:
    again = redelivered(Random(seed), history, times=10)
    within = [at for at in crashes if at < len(again.records)]
    if "LIMIT" in statement:
        within = []  # it has no tokens
    found = read(again, statement, as_of, tells_before, crashes=within, memory_bytes=memory_bytes)
    assert isinstance(found, Target)
    once = read(history, statement, as_of, tells_before)
    assert isinstance(once, Target)
    assert found.rows == once.rows
