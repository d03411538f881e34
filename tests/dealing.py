"""The order in which several test processes are given the tests: what takes long begins first.

``pytest -n N --dist worksteal`` gives each process one part of all tests. The parts are equally long, and
each has tests that follow each other in the list. The process that is done first takes over half of the tests
that another one has left, from the end of its part. So every part begins with its share of the files that
take long, and ends with quick tests. Then there is always a quick test left to take over, and no process
works alone at the end on tests that no other could take from it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def dealt(
    tests: Sequence[T], processes: int, file_of: Callable[[T], Hashable], seconds: Callable[[T], float]
) -> list[T]:
    """The same tests, in ``processes`` parts one after another.

    ``seconds`` says roughly what a test takes, 0 for a quick one. The tests of a file that has any test that
    is not quick stay together, wherever they stand: they share servers.
    """
    of_file: dict[Hashable, list[T]] = {}
    for test in tests:
        of_file.setdefault(file_of(test), []).append(test)
    files = list(of_file.values())
    long = [file for file in files if any(map(seconds, file))]
    quick = iter([test for file in files if not any(map(seconds, file)) for test in file])
    hands = _shared_out(long, processes, seconds)
    order: list[T] = []
    for hand, size in zip(hands, _sizes(len(tests), processes), strict=True):
        order += hand
        order += islice(quick, max(0, size - len(hand)))
    return [*order, *quick]


def _shared_out(files: Iterable[list[T]], processes: int, seconds: Callable[[T], float]) -> list[list[T]]:
    """Return the tests of each process. The longest file is given out first; each goes to the process that
    has the least by then."""

    def total(tests: Iterable[T]) -> float:
        return sum(map(seconds, tests))

    hands: list[list[T]] = [[] for _ in range(processes)]
    for file in sorted(files, key=total, reverse=True):
        min(hands, key=total).extend(file)
    return hands


def _sizes(tests: int, processes: int) -> Iterator[int]:
    """Yield how many tests pytest-xdist gives to each process (``WorkStealingScheduling.check_schedule``)."""
    for left in range(processes, 0, -1):
        yield tests // left
        tests -= tests // left
