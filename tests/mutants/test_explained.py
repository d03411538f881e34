"""Mutants that no test can notice are mutants of the code as it stands."""

from __future__ import annotations

from tests.mutants.__main__ import of_core
from tests.mutants.explained import Explained, explained, unexplained


def test_what_is_explained_is_a_mutant_of_the_code() -> None:
    mutants = of_core()
    stale = [reason for reason in explained() if not any(map(reason.means, mutants))]
    assert not stale, "the code has changed: drop the entries, or mend them"


def test_explained_mutants_are_not_tried() -> None:
    mutants = of_core()
    mutant = mutants[1]
    reason = Explained(mutant.path, mutant.within, mutant.before, mutant.after, "nobody sees it")
    other = next(each for each in mutants if not reason.means(each))
    tried = unexplained(mutants, [reason])
    assert mutant not in tried
    assert other in tried
