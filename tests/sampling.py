"""The choice of long tests for a run. Each run has other ones, by its seed.

``pytest --sample SEED``, as in `make test`, takes one in three of the tests that take long, and one in six of
the longest (``measured.py``), except those that are marked ``always``. ``@pytest.mark.sampled(4)`` above a
test means that it takes one in four of its cases. Without the option all of them are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def sampled(
    tests: Sequence[T], seed: str, test_of: Callable[[T], Hashable], share_of: Callable[[T], int]
) -> tuple[list[T], list[T]]:
    """Return the cases to take, in their order, and the others.

    ``test_of`` returns the test of a case. ``share_of`` returns N where one of N cases is taken. Of a test
    with several cases at least one is taken. A test with one case is taken or not.
    """
    cases: dict[Hashable, list[T]] = {}
    for test in tests:
        if share_of(test) > 1:
            cases.setdefault(test_of(test), []).append(test)
    left: set[int] = set()
    for name, each in cases.items():
        chosen = Random(f"{seed} {name}")
        share = share_of(each[0])
        count = -(-len(each) // share) if len(each) > 1 else int(chosen.randrange(share) == 0)
        taken = {id(test) for test in chosen.sample(each, count)}
        left.update(id(test) for test in each if id(test) not in taken)
    return [test for test in tests if id(test) not in left], [test for test in tests if id(test) in left]
