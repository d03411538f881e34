"""The policies of a subscription when the history that it has to read is gone.

| policy | what it does |
|---|---|
| ``stall`` | ends with ``HistoryLost``: the rows that the consumer has stay true, and become older |
| ``resnapshot`` | takes a new snapshot, if the topics have one; the consumer deletes all other rows |
| ``skip`` | goes on from the lowest time that is readable; changes before it are never delivered |

The next batch tells by its ``loss`` what was done.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import assert_never

from tidegate.errors import HistoryLost, SettingsError
from tidegate.hlc import Timestamp
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.updates.frontier import Frontier, resume_as_of


class HistoryPolicy(enum.Enum):
    """A policy. Its value is its name in keyword arguments and on the command line."""

    STALL = "stall"
    RESNAPSHOT = "resnapshot"
    SKIP = "skip"


def history_policy(name: HistoryPolicy | str) -> HistoryPolicy:
    """Return the policy of a name. Raises ``SettingsError`` for any other name."""
    try:
        return HistoryPolicy(name)
    except ValueError:
        known = ", ".join(each.value for each in HistoryPolicy)
        raise SettingsError(f"There is no policy {name!r:.60} for lost history; there are {known}.") from None


@dataclass(frozen=True, slots=True)
class HistoryLoss:
    """A loss of history after which the subscription goes on.

    Attributes:
        policy: how it goes on: ``RESNAPSHOT`` or ``SKIP``.
        held: the frontier below which everything was delivered before the loss.
        as_of: the timestamp at which the subscription goes on: with a snapshot as of it, or with the changes
            above it.
        cause: what was lost, with topic, partition and offset.
    """

    policy: HistoryPolicy
    held: Frontier
    as_of: Timestamp
    cause: HistoryLost = field(compare=False)

    @property
    def skipped(self) -> bool:
        """Whether changes are missing: those from ``held`` up to ``as_of``, which is included."""
        return self.policy is HistoryPolicy.SKIP and self.as_of >= self.held

    def __str__(self) -> str:
        if self.policy is HistoryPolicy.RESNAPSHOT and self.as_of < self.held:
            goes_on = "nothing is missing: everything below UP TO was delivered before"
        elif self.policy is HistoryPolicy.RESNAPSHOT:
            goes_on = f"a new snapshot as of {self.as_of} follows; sweep rows that it does not have"
        elif self.skipped:
            goes_on = f"changes from {self.held} up to {self.as_of} are never delivered"
        else:
            goes_on = "no change is missing: the rows before were read again"
        return f"History was lost, and {goes_on}. The loss: {self.cause}"


def plan_behind(plan: SubscribePlan, held: Frontier, policy: HistoryPolicy) -> SubscribePlan:
    """Return the plan with which a subscription goes on after a loss. Everything below ``held`` was
    delivered.

    No row of the plan is below ``held``, so timestamps do not fall within one subscription. If ``held`` is UP
    TO, nothing is left to be delivered, and there is no new snapshot: the subscription ends with its token.
    Raises ``ValueError`` for ``STALL``.
    """
    match policy:
        case HistoryPolicy.RESNAPSHOT if held == plan.up_to:  # a snapshot as of UP TO would show nothing
            return replace(plan, snapshot=False, as_of=resume_as_of(held), at_least=True)
        case HistoryPolicy.RESNAPSHOT:
            return replace(plan, snapshot=True, as_of=held, at_least=True)
        case HistoryPolicy.SKIP:
            return replace(plan, snapshot=False, as_of=resume_as_of(held), at_least=True)
        case HistoryPolicy.STALL:
            raise ValueError("a subscription that stalls does not go on")
        case never:
            assert_never(never)
