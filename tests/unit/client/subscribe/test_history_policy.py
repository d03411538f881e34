"""Tests what a subscription does about lost history: plans that go on, and what is said of it."""

from __future__ import annotations

import pytest

from tests.unit.subscribe.consumer_run import plan_of
from tidegate.client.subscribe.history_policy import HistoryLoss, HistoryPolicy, history_policy, plan_behind
from tidegate.errors import HistoryLost, SettingsError
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.opened_rows import OpenedRows
from tidegate.subscribe.gate.row_chunk import int_column
from tidegate.subscribe.gate.row_gate import GateOpening
from tidegate.subscribe.subscription import Subscription
from tidegate.subscribe.updates.frontier import Frontier

HELD = Frontier(Timestamp(8, 1))
PLAN = plan_of("SUBSCRIBE accounts AS OF 3 UP TO 30")
GONE = HistoryLost("records are deleted", "accounts", 1, 7)


def test_a_new_snapshot_is_not_below_what_was_delivered() -> None:
    plan = plan_behind(PLAN, HELD, HistoryPolicy.RESNAPSHOT)
    assert (plan.snapshot, plan.as_of, plan.at_least, plan.up_to) == (True, HELD, True, Timestamp(30))


def test_behind_up_to_no_new_snapshot_is_made_and_the_token_is_the_same() -> None:
    held = Frontier(Timestamp(30))
    plan = plan_behind(PLAN, held, HistoryPolicy.RESNAPSHOT)
    assert plan.as_of is not None
    subscription = Subscription(plan, plan.as_of)
    nothing = OpenedRows(int_column([]), int_column([]), [], [], [], [], [], int_column([]))
    opening = GateOpening(Frontier(Timestamp(31)), nothing, lambda *_: pytest.fail("nothing is decoded"))
    batch = subscription.advance(opening, {})
    assert batch is not None
    assert batch.token is not None
    assert (batch.rows, batch.is_snapshot, batch.is_last, batch.token.frontier) == ((), False, True, held)
    loss = HistoryLoss(HistoryPolicy.RESNAPSHOT, held, plan.as_of, GONE)
    assert "everything below UP TO was delivered" in str(loss)


def test_skipping_goes_on_where_a_resume_would_and_may_begin_later() -> None:
    plan = plan_behind(PLAN, HELD, HistoryPolicy.SKIP)
    assert (plan.snapshot, plan.as_of, plan.at_least) == (False, Timestamp(8), True)


def test_stalling_does_not_go_on() -> None:
    with pytest.raises(ValueError, match="stalls"):
        plan_behind(PLAN, HELD, HistoryPolicy.STALL)


@pytest.mark.parametrize(
    ("policy", "as_of", "skipped", "told"),
    [
        (
            HistoryPolicy.SKIP,
            Timestamp(20),
            True,
            "from 8.0000000001 up to 20.0000000000 are never delivered",
        ),
        (HistoryPolicy.SKIP, Timestamp(8), False, "no change is missing"),
        (HistoryPolicy.RESNAPSHOT, Timestamp(20), False, "a new snapshot as of 20.0000000000 follows; sweep"),
    ],
)
def test_a_loss_says_what_is_missing_and_why(
    policy: HistoryPolicy, as_of: Timestamp, skipped: bool, told: str
) -> None:
    loss = HistoryLoss(policy, HELD, as_of, GONE)
    assert loss.skipped is skipped
    assert told in str(loss)
    assert str(loss).endswith("The loss: records are deleted")


def test_a_policy_is_known_by_its_name_alone() -> None:
    assert [history_policy(each.value) for each in HistoryPolicy] == [*HistoryPolicy]
    with pytest.raises(SettingsError, match=r"no policy 'skip_to_now' .* there are stall, resnapshot, skip"):
        history_policy("skip_to_now")
