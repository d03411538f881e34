"""What follows from the answer to a push."""

from __future__ import annotations

import pytest

from tests.hand_log import at, txn
from tidegate.raftlog.entry import AbortTxn, UpdateIntent
from tidegate.ranges.push_attempt import (
    PushAnswer,
    PushTarget,
    ResolveIntents,
    TxnStatus,
    ops_of,
    resolutions_of,
)
from tidegate.spans import Span


def test_only_an_aborted_transaction_is_dropped_and_the_others_move_in_the_order_of_the_answer() -> None:
    """A committed one stays until its commits come: they are versions."""
    statuses = (TxnStatus.COMMITTED, TxnStatus.ABORTED, TxnStatus.PENDING, TxnStatus.STAGING)
    answer = PushAnswer(tuple(PushTarget(txn(n), status, at(n)) for n, status in enumerate(statuses)))
    assert ops_of(answer) == (
        UpdateIntent(txn(0), at(0)),
        AbortTxn(txn(1)),
        UpdateIntent(txn(2), at(2)),
        UpdateIntent(txn(3), at(3)),
    )


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (TxnStatus.COMMITTED, True),
        (TxnStatus.ABORTED, True),
        (TxnStatus.PENDING, False),
        (TxnStatus.STAGING, False),
    ],
)
def test_the_intents_of_a_transaction_that_ended_are_resolved_as_far_as_they_are_in_the_range(
    status: TxnStatus, ended: bool
) -> None:
    locks = tuple(Span(start, end) for start, end in ((b"a", b"c"), (b"d", b"e"), (b"h", b"z"), (b"m", b"z")))
    target = PushTarget(txn(1), status, at(1), locks)
    inside = ((b"b", b"c"), (b"d", b"e"), (b"h", b"m"))
    expected = [ResolveIntents(txn(1), Span(start, end)) for start, end in inside] if ended else []
    assert [*resolutions_of([target], Span(b"b", b"m"))] == expected
