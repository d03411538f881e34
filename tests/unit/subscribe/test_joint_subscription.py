"""Several tables at one cut: all are as of one frontier, and a crash anywhere changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import consume
from tests.unit.subscribe.joint_run import MODES, consume_jointly, joint_plan, members_of, part_of
from tests.unit.subscribe.topic_histories import END, TopicHistory, times, topic_histories
from tidegate.hlc import Timestamp
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


def test_there_is_no_joint_subscription_without_members() -> None:
    assert MODES
    with pytest.raises(ValueError, match="never give anything"):
        JointSubscription({})
