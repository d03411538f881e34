"""Mutants that no test can notice, each with the reason (``explained.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.mutations import Mutant

FILE: Final = Path(__file__).with_name("explained.toml")


@dataclass(frozen=True, slots=True)
class Explained:
    """A slip that changes nothing that anybody can see; lines may move, so it is named by its text."""

    path: str
    within: str
    before: str
    after: str
    why: str

    def means(self, mutant: Mutant) -> bool:
        """Whether this is about the mutant."""
        mine = self.path, self.within, self.before, self.after
        return mine == (mutant.path, mutant.within, mutant.before, mutant.after)


def explained(file: Path = FILE) -> list[Explained]:
    """All of them."""
    return [Explained(**entry) for entry in tomllib.loads(file.read_text()).get("mutant", [])]


def unexplained(mutants: Sequence[Mutant], reasons: Sequence[Explained]) -> list[Mutant]:
    """The mutants that a test should notice."""
    known = {(reason.path, reason.within, reason.before, reason.after) for reason in reasons}
    return [
        mutant for mutant in mutants if (mutant.path, mutant.within, mutant.before, mutant.after) not in known
    ]
