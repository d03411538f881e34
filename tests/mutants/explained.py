"""Mutants that no test can notice, each with the reason (``explained.toml``)."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.mutations import Mutant

FILE: Final = Path(__file__).with_name("explained.toml")


@dataclass(frozen=True, slots=True)
class Explained:
    """A slip that changes nothing that anybody can see; lines may move, so it is named by its text.

    If the text stands several times in the function, ``nth`` says which one is meant, from 1 on; 0 is all.
    """

    path: str
    within: str
    before: str
    after: str
    why: str
    nth: int = 0

    def means(self, mutant: Mutant, nth: int) -> bool:
        """Whether this is about the mutant, which is the ``nth`` of its text in its function."""
        mine = self.path, self.within, self.before, self.after
        return mine == _text_of(mutant) and self.nth in (0, nth)


def explained(file: Path = FILE) -> list[Explained]:
    """All of them."""
    return [Explained(**entry) for entry in tomllib.loads(file.read_text()).get("mutant", [])]


def unexplained(mutants: Sequence[Mutant], reasons: Sequence[Explained]) -> list[Mutant]:
    """The mutants that a test should notice, out of all mutants of the modules in the order of the source."""
    known = {((reason.path, reason.within, reason.before, reason.after), reason.nth) for reason in reasons}
    return [
        mutant
        for mutant, nth in numbered(mutants)
        if not {(_text_of(mutant), 0), (_text_of(mutant), nth)} & known
    ]


def numbered(mutants: Iterable[Mutant]) -> Iterator[tuple[Mutant, int]]:
    """Each mutant, and the number that it has among those of its text in its function, from 1 on."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for mutant in mutants:
        counts[_text_of(mutant)] += 1
        yield mutant, counts[_text_of(mutant)]


def _text_of(mutant: Mutant) -> tuple[str, str, str, str]:
    return mutant.path, mutant.within, mutant.before, mutant.after
