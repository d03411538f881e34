"""Many inputs for several targets, in turns: each target has its share of the processor's time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from time import process_time
from typing import Final

from tests.fuzz.target import Target
from tests.fuzz.trial import Finding, attempt

_TURN_S: Final = 0.5


@dataclass(slots=True)
class Account:
    """The account of a target: its inputs, the processor's seconds, and the first finding of each kind."""

    target: Target
    chance: Random
    inputs: int = 0
    seconds: float = 0.0
    findings: dict[tuple[str, ...], Finding] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Budget:
    """The length of a campaign: seconds of processor time over all targets, or inputs of each target."""

    seconds: float = 0.0
    inputs: int = 0


def run(
    targets: Sequence[Target],
    seed: int,
    budget: Budget,
    heard: Callable[[Finding], None] = lambda _: None,
) -> list[Account]:
    """Fuzz the targets. The inputs of one follow from the seed and its name, whatever others take.

    ``heard`` is told the first finding of each kind at once.
    """
    accounts = [Account(target, Random(f"{seed}/{target.name}")) for target in targets]
    end = process_time() + budget.seconds
    going = list(accounts)
    while going:
        for account in going:
            _take_turn(account, budget.inputs, heard)
        going = [account for account in going if _goes_on(account, budget, end)]
    return accounts


def _goes_on(account: Account, budget: Budget, end: float) -> bool:
    return account.inputs < budget.inputs if budget.inputs else process_time() < end


def _take_turn(account: Account, most: int, heard: Callable[[Finding], None]) -> None:
    """One input at least."""
    begin = process_time()
    until = begin + _TURN_S * account.target.weight
    while True:
        finding = attempt(account.target, account.target.draw(account.chance))
        account.inputs += 1
        if finding is not None and finding.signature not in account.findings:
            account.findings[finding.signature] = finding
            heard(finding)
        if (now := process_time()) >= until or account.inputs == most:
            account.seconds += now - begin
            return
