"""Finds the place in a shared table where a subscription begins, if the table can serve it.

| a statement asks for | it begins |
|---|---|
| no AS OF, or AS OF AT LEAST a time that the table has reached | with the rows of the present |
| the changes above an AS OF that the log holds | at that AS OF |
| the changes after a token that the log holds | at that token |
| anything else | not here: it has a reader of its own |
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.hlc import Timestamp
from tidegate.serve.shared.shared_table import SharedTable
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.plan import SubscribePlan, require_bounds
from tidegate.subscribe.updates.frontier import Frontier, frontier_after, resume_as_of


@dataclass(frozen=True, slots=True)
class SharedStart:
    """The frontier at which a stream begins; ``None`` for the present, once the table is complete."""

    frontier: Frontier | None = None


def start_of(shared: SharedTable, plan: SubscribePlan, *, stateful: bool) -> SharedStart | None:
    """Return where a new subscription begins; ``None`` if this table cannot serve it.

    ``stateful`` is the value that the plan's ``StatementRows`` has.
    """
    present = resume_as_of(shared.frontier)
    if plan.up_to is not None and not (shared.filled and plan.up_to > shared.frontier):
        return None
    if plan.as_of is None or (plan.at_least and plan.as_of <= present):
        return SharedStart()
    return None if plan.at_least else _start_above(shared, plan, plan.as_of, stateful=stateful)


def _start_above(
    shared: SharedTable, plan: SubscribePlan, as_of: Timestamp, *, stateful: bool
) -> SharedStart | None:
    needs_rows = plan.snapshot or stateful
    frontier = frontier_after(as_of)
    if needs_rows or not shared.filled or frontier > shared.frontier or not shared.holds(frontier):
        return None
    return SharedStart(frontier)


def resume_of(
    shared: SharedTable, plan: SubscribePlan, token: ResumeToken, *, stateful: bool
) -> SharedStart | None:
    """Return where a subscription goes on after a token; ``None`` if this table cannot serve it.

    Raises ``SubscribeStatementError`` for a token beyond UP TO.
    """
    if plan.up_to is not None:
        require_bounds(str(token.as_of), str(plan.up_to), crossed=token.as_of > plan.up_to)
    return None if stateful or not shared.holds(token.frontier) else SharedStart(token.frontier)
