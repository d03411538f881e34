"""Runs cases against the code, and tells what became of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.conformance.case import Case, Malformed, NotClaimed, kind_of, read_lines
from tests.conformance.registry import CHECKS


class Outcome(Enum):
    """The outcome of a case; a case that the code does not claim is skipped."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """One case, run: ``detail`` says what was expected and what came, or why it was skipped."""

    case_id: str
    outcome: Outcome
    detail: str = ""


def run_files(paths: Iterable[Path]) -> Iterator[Result]:
    """Run every case of every file, in order. A line that is no case is a failure, named by its place."""
    for path in paths:
        for line in read_lines(path):
            if isinstance(line, Malformed):
                yield Result(line.place, Outcome.FAILED, line.reason)
            else:
                yield run_case(line)


def run_case(case: Case) -> Result:
    """Run one case. An exception that the check did not ask for is a failure like any other."""
    case_id = str(case.get("id", "?"))
    try:
        kind = kind_of(case)
        if kind not in CHECKS:
            return Result(case_id, Outcome.SKIPPED, f"kind {kind} is not claimed")
        failure = CHECKS[kind](case)
    except NotClaimed as reason:
        return Result(case_id, Outcome.SKIPPED, str(reason))
    except Exception as error:  # the report of a run must not end at its first surprise
        failure = f"{type(error).__name__}: {error}"
    if failure is None:
        return Result(case_id, Outcome.PASSED)
    return Result(case_id, Outcome.FAILED, failure)
