"""Several tables at one cut: all are as of one frontier, and a crash anywhere changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import consume
from tests.unit.subscribe.joint_run import MODES, consume_jointly, joint_plan, members_of, part_of
from tests.unit.subscribe.topic_histories import (
    END,
    Commit,
    TopicHistory,
    marker_record,
    record_bytes,
    times,
    topic_histories,
)
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.joint_subscription import JointSubscription
from tidegate.subscribe.updates.value_order import values_key

crashes = st.lists(st.integers(0, 60), max_size=3)
SOURCES = pytest.mark.parametrize("tells_before", [True, False], ids=["before-in-record", "key-rows"])


@SOURCES
@given(history=topic_histories(), as_of=times(), crash_at=crashes)
def test_every_member_is_as_of_the_joint_frontier_whatever_crashes(
    tells_before: bool, history: TopicHistory, as_of: Timestamp, crash_at: list[int]
) -> None:
    within = [at for at in crash_at if at < len(history.records)]
    target = consume_jointly(history, f"AS OF {as_of}", within, tells_before=tells_before)
    for frontier, states in zip(target.frontiers, target.states, strict=True):
        for name, rows in states.items():
            assert rows == sorted(part_of(history, name).rows_at(frontier), key=values_key)
    assert target.frontiers == sorted(set(target.frontiers))
    assert target.frontiers[-1] == END.next()
    assert target.snapshots == 1


@SOURCES
@given(history=topic_histories(), as_of=times(), crash_at=crashes)
def test_a_crash_and_a_resume_anywhere_change_no_row(
    tells_before: bool, history: TopicHistory, as_of: Timestamp, crash_at: list[int]
) -> None:
    within = [at for at in crash_at if at < len(history.records)]
    crashed = consume_jointly(history, f"AS OF {as_of}", within, tells_before=tells_before)
    whole = consume_jointly(history, f"AS OF {as_of}", tells_before=tells_before)
    assert crashed.rows == whole.rows
    assert crashed.states[-1] == whole.states[-1]


@given(history=topic_histories(), as_of=times())
def test_a_member_has_the_rows_that_it_has_alone(history: TopicHistory, as_of: Timestamp) -> None:
    together = consume_jointly(history, f"AS OF {as_of}")
    for name in members_of(history):
        alone = consume(part_of(history, name), joint_plan(name, f"AS OF {as_of}"))
        assert together.rows[name] == alone.rows


@given(history=topic_histories(), as_of=times(), up_to=times(), crash_at=crashes)
def test_all_members_end_at_one_bound(
    history: TopicHistory, as_of: Timestamp, up_to: Timestamp, crash_at: list[int]
) -> None:
    as_of, up_to = sorted((as_of, up_to))
    within = [at for at in crash_at if at < len(history.records)]
    target = consume_jointly(history, f"AS OF {as_of} UP TO {up_to}", within)
    assert all(row[0] < up_to for rows in target.rows.values() for row in rows)
    assert not target.frontiers or target.frontiers[-1] == up_to


#: One member's snapshot has an order, so that it comes whole while the others give chunks.
_ONE_WHOLE = MODES | {"a": "WITHIN TIMESTAMP ORDER BY balance, mz_diff"}
#: The key of one member is not that of the table: rows of several keys are summed.
_ONE_SUMMED = MODES | {"b": "ENVELOPE UPSERT (KEY (note))"}


@pytest.mark.sampled(4)
@SOURCES
@pytest.mark.parametrize("modes", [MODES, _ONE_WHOLE, _ONE_SUMMED], ids=["chunks", "one whole", "one summed"])
@given(
    history=topic_histories(),
    as_of=times(),
    up_to=st.none() | times(),
    crash_at=crashes,
    chunk_bytes=st.sampled_from([0, 600, 20_000]),
)
def test_a_joint_snapshot_in_chunks_is_the_same_snapshot(
    modes: dict[str, str],
    tells_before: bool,
    history: TopicHistory,
    as_of: Timestamp,
    up_to: Timestamp | None,
    crash_at: list[int],
    chunk_bytes: int,
) -> None:
    bounds = f"AS OF {as_of}" + ("" if up_to is None else f" UP TO {max(as_of, up_to)}")
    within = [at for at in crash_at if at < len(history.records)]
    chunked = consume_jointly(
        history, bounds, within, tells_before=tells_before, modes=modes, chunk_bytes=chunk_bytes
    )
    whole = consume_jointly(history, bounds, tells_before=tells_before, modes=modes)
    for name in members_of(history):
        assert sorted(chunked.rows[name], key=values_key) == sorted(whole.rows[name], key=values_key)
        later = [row for row in whole.rows[name] if row[0] > as_of]
        assert [row for row in chunked.rows[name] if row[0] > as_of] == later
    assert chunked.frontiers == sorted(chunked.frontiers)
    assert chunked.frontiers[-1:] == whole.frontiers[-1:]
    assert chunked.snapshots == whole.snapshots
    if chunked.states:
        assert chunked.states[-1] == whole.states[-1]


@SOURCES
@given(history=topic_histories(), as_of=times(), deaths=st.lists(st.integers(1, 3), max_size=3))
def test_a_process_that_dies_between_joint_chunks_has_stored_nothing(
    tells_before: bool, history: TopicHistory, as_of: Timestamp, deaths: list[int]
) -> None:
    bounds = f"AS OF {as_of}"
    target = consume_jointly(history, bounds, tells_before=tells_before, chunk_bytes=0, deaths=deaths)
    for name in members_of(history):
        rows = sorted(part_of(history, name).rows_at(END.next()), key=values_key)
        assert target.states[-1][name] == rows
    assert target.snapshots == 1
    assert target.frontiers[-1] == END.next()


def test_chunks_of_a_joint_snapshot_have_rows_of_one_member_alone() -> None:
    """`consume_jointly` requires that of each chunk; here there are some of each member."""
    commits = tuple(Commit(Timestamp(1), key, (key, key, "a"), None) for key in range(6))
    places = FeedPartition("accounts", 0), FeedPartition("more", 0)
    records = [(places[each.key % 2], FeedRecord(each.key // 2, *record_bytes(each))) for each in commits]
    records += [(place, marker_record(3, END)) for place in places]
    target = consume_jointly(
        TopicHistory(commits, places, tuple(records)), f"AS OF {Timestamp(1)}", chunk_bytes=0
    )
    assert target.chunks >= 3
    assert (target.snapshots, target.frontiers) == (1, [Timestamp(1).next(), END.next()])
    assert [len(rows) for rows in target.states[0].values()] == [3, 3, 3]


def test_there_is_no_joint_subscription_without_members() -> None:
    assert MODES
    with pytest.raises(ValueError, match="never give anything"):
        JointSubscription({})
