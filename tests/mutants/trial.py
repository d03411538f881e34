"""Whether any test notices a mutant: those beside its module first, the simulation at the end."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.mutants.mutations import Mutant
from tests.mutants.tree import Ended, Tree
from tests.unit.mirror import mirror_of

_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
#: A mutant may run into a loop that never ends; one that is only slow is not noticed by that.
_LIMIT_FACTOR, _LIMIT_EXTRA_S = 4, 30


class BrokenWithout(Exception):
    """Tests fail without any mutant: then nothing can be said about mutants."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Tests that are run together, and how long they may take with a mutant."""

    name: str
    places: tuple[str, ...]
    limit_s: float = 3600.0
    test_limit_s: int = 300

    def arguments(self, seed: int) -> list[str]:
        """What pytest is told to run them with."""
        return [*self.places, *OPTIONS, f"--timeout={self.test_limit_s}", hypothesis_seed(seed)]


#: The defects that the simulation is tried on need a search of their own for each.
OPTIONS: Final = ("-m", "not broker and not soak", "-k", "not defect")
STAGES: Final = (
    # A loop that never ends is one of the commonest slips; no test here takes a tenth of that.
    Stage(
        "unit tests",
        tuple(f"tests/unit/{core}" for core in ("ranges", "rangefeed", "processor", "raftlog")),
        test_limit_s=60,
    ),
    Stage("simulation", ("tests/conformance", "tests/contract", "tests/simulation", "tests/unit/worker")),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """The trial of a mutant; ``noticed_by`` is the test that failed, or why it counts as noticed."""

    mutant: Mutant
    noticed_by: str | None
    stage: str
    seconds: float


def timed(stages: Sequence[Stage], tree: Tree, seed: int) -> list[Stage]:
    """The stages with the time limits that a run without a mutant suggests.

    :raises BrokenWithout: a test fails without one
    """
    found = []
    for stage in stages:
        begun = time.monotonic()
        ended = tree.test(stage.arguments(seed), stage.limit_s)
        if not ended.passed:
            raise BrokenWithout(
                f"The {stage.name} fail without a mutant; mend them first:\n{ended.output[-4000:]}"
            )
        limit_s = _LIMIT_EXTRA_S + _LIMIT_FACTOR * (time.monotonic() - begun)
        found.append(replace(stage, limit_s=limit_s))
    return found


def attempt(tree: Tree, mutant: Mutant, stages: Sequence[Stage], seed: int) -> Trial:
    """Put the mutant into the copy, and run the stages until one notices it."""
    begun = time.monotonic()
    own = _tests_of(tree, mutant)
    with tree.with_mutant(mutant):
        for stage in stages:
            ended = tree.test([*own, *stage.arguments(seed)], stage.limit_s)
            if not ended.passed:
                return Trial(mutant, _what_noticed(ended), stage.name, time.monotonic() - begun)
            own = []
    return Trial(mutant, None, stages[-1].name, time.monotonic() - begun)


def _what_noticed(ended: Ended) -> str:
    if ended.passed is None:
        return "it does not end"
    failed = _FAILED.search(ended.output)
    return failed[1] if failed else "the run breaks off"


def _tests_of(tree: Tree, mutant: Mutant) -> list[str]:
    """The test file that mirrors the module, if it is there. Files of that name elsewhere are of others."""
    file = mirror_of(Path(mutant.path))
    return [file.as_posix()] if (tree.root / file).is_file() else []


def hypothesis_seed(seed: int) -> str:
    """The option with which property tests draw the same examples again."""
    return f"--hypothesis-seed={seed}"
