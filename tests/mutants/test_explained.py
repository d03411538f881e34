"""Mutants that no test can notice are mutants of the code as it stands."""

from __future__ import annotations

from tests.mutants.__main__ import of_core
from tests.mutants.explained import Explained, explained, numbered, unexplained
from tests.mutants.mutations import mutants_of


def test_what_is_explained_is_a_mutant_of_the_code() -> None:
    mutants = list(numbered(of_core()))
    stale = [reason for reason in explained() if not any(reason.means(*each) for each in mutants)]
    assert not stale, "the code has changed: drop the entries, or mend them"


def test_explained_mutants_are_not_tried() -> None:
    mutants = of_core()
    mutant = mutants[1]
    reason = Explained(mutant.path, mutant.within, mutant.before, mutant.after, "nobody sees it")
    other, _ = next(each for each in numbered(mutants) if not reason.means(*each))
    tried = unexplained(mutants, [reason])
    assert mutant not in tried
    assert other in tried


def test_of_mutants_with_one_text_one_alone_may_be_explained() -> None:
    mutants = [
        each for each in mutants_of("m.py", b"def f():\n    return g(0), g(0), g(0)\n") if each.before == "0"
    ]
    reason = Explained("m.py", "f", "0", "1", "nobody sees the second one", nth=2)
    assert unexplained(mutants, [reason]) == [mutants[0], mutants[2]]
