"""All cases of the contract, built once in a run of the tests: to build them takes 7 s of processor time."""

from __future__ import annotations

from functools import cache
from typing import Final

from tests.contract.case import BuiltCase, Case, build
from tests.contract.cases import hostile, markers, ranges, rows, simulated, transactions, vectors
from tests.made_once import MadeOnce

CASES: Final[tuple[Case, ...]] = (
    *rows.CASES,
    *transactions.CASES,
    *ranges.CASES,
    *markers.CASES,
    *simulated.CASES,
    *vectors.CASES,
    *hostile.CASES,
)

#: What the processes of a run have built.
BUILT: Final = MadeOnce()


@cache
def built(name: str) -> BuiltCase:
    """The case of that name."""
    number = next(number for number, case in enumerate(CASES) if case.name == name)
    return BUILT.value(f"case-{number}", lambda: build(CASES[number], number))


def together() -> list[list[BuiltCase]]:
    """The cases in groups that share a log."""
    cases = [built(case.name) for case in CASES]
    return [[case for case in cases if not case.alone], *([case] for case in cases if case.alone)]
