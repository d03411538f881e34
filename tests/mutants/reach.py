"""Which tests run which statement."""

from __future__ import annotations

import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.mutants.loaded_module import LoadedModule

#: The path of a module, and the number of a statement in it.
Statement: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Reach:
    """The tests that reach each statement, and the seconds that each test takes without a mutant.

    ``failed`` are tests that fail while statements are counted. They measure time or memory.
    """

    tests: Mapping[Statement, Sequence[str]]
    seconds: Mapping[str, float]
    failed: Sequence[str]

    @classmethod
    def of_file(cls, file: Path) -> Reach:
        """What was measured by :func:`measure`."""
        found: Reach = pickle.loads(file.read_bytes())
        return found


def measure(
    modules: Mapping[str, LoadedModule],
    tests: Sequence[pytest.Item],
    has_passed: Callable[[pytest.Item, pytest.Item | None], bool],
    file: Path,
) -> None:
    """Run the tests once, and write what they reach to the file. The modules count from then on.

    :param has_passed: runs a test before the next one
    """
    seen: set[Statement] = set()
    for path, module in modules.items():
        module.count(partial(_add, seen, path))
    reached: dict[Statement, list[str]] = defaultdict(list)
    seconds: dict[str, float] = {}
    failed: list[str] = []
    for test, following in zip(tests, [*tests[1:], None], strict=True):
        seen.clear()
        begun = time.monotonic()
        if not has_passed(test, following):
            failed.append(test.nodeid)
            continue
        seconds[test.nodeid] = time.monotonic() - begun
        for statement in seen:
            reached[statement].append(test.nodeid)
    file.write_bytes(pickle.dumps(Reach(dict(reached), seconds, failed)))


def _add(seen: set[Statement], path: str, number: int) -> None:
    seen.add((path, number))
