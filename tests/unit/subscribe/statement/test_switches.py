"""An output that is switched off is refused with a code, and nothing else is."""

from __future__ import annotations

import pytest

from tests.unit.subscribe.topic_histories import RELATION
from tidegate.errors import SettingsError, SubscribeStatementError
from tidegate.subscribe.plan import plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.switches import ALL_ON, SubscribeSwitches
from tidegate.subscribe.updates.relation import Relations

CLAUSES = {
    "envelope_upsert": "ENVELOPE UPSERT (KEY (id))",
    "envelope_debezium": "ENVELOPE DEBEZIUM (KEY (id))",
    "within_timestamp_order_by": "WITHIN TIMESTAMP ORDER BY id",
}


def plan(clause: str, switches: SubscribeSwitches) -> None:
    """Plan a statement with an output clause."""
    statement = parse_subscribe(f"SUBSCRIBE accounts {clause}")
    plan_subscribe(statement, Relations([RELATION]), now_ns=0, switches=switches)


@pytest.mark.parametrize("off", CLAUSES)
def test_only_what_is_switched_off_is_refused(off: str) -> None:
    switches = SubscribeSwitches.without([off])
    for name, clause in CLAUSES.items():
        if name == off:
            with pytest.raises(SubscribeStatementError, match="is not available") as failure:
                plan(clause, switches)
            assert (failure.value.code, failure.value.sqlstate) == ("output_switched_off", "0A000")
        else:
            plan(clause, switches)
    plan("", SubscribeSwitches.without(CLAUSES))


def test_all_are_on_by_default() -> None:
    for clause in CLAUSES.values():
        plan(clause, ALL_ON)
    assert SubscribeSwitches.without([]) == ALL_ON


def test_a_name_that_is_no_switch_is_refused() -> None:
    with pytest.raises(SettingsError, match="no switch 'diffs'; there are envelope_upsert"):
        SubscribeSwitches.without(["diffs"])
