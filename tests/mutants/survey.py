"""Many mutants in little time: a process that has imported everything forks for each mutant, exchanges the
code of one function, and runs the tests that reach the slip.

A mutant takes a second or so, where a copy of the checkout with the slip in it takes minutes. Only tests that
run inside the process can notice it. A mutant outside of functions is passed over, because its code has run
when the module was imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import pytest
from hypothesis import Phase, settings

from tests.mutants.forks import Forks
from tests.mutants.loaded_module import LoadedModule, NotInFunction
from tests.mutants.mutations import Mutant
from tests.mutants.reach import Reach, measure
from tests.mutants.trial import Stage, Trial
from tests.unit.mirror import mirror_of

#: With a mutant, a test fails after this many times its usual seconds and some more.
_LIMIT_FACTOR: Final = 8
_MEASURE_LIMIT_S: Final = 3600.0
#: More tests than these may not fail while statements are counted. A few do: they measure time.
_FAILED_SHARE: Final = 0.02
_PASSED: Final = "passed"
_NO_TEST: Final = "it does not end, or the process breaks off"


class Survey:
    """A plugin of pytest: instead of running the collected tests, it tries mutants with them.

    :param root: the checkout, out of which the modules at ``paths`` were imported
    :param found: is told of every trial as it ends
    :param most_s: a mutant has lived when tests of so many seconds all in all have passed
    :param extra_s: a test has so many seconds more than its usual ones allow, before it counts as endless
    :param reach: the file for what the tests reach; it is measured unless the file is there
    """

    def __init__(
        self,
        root: Path,
        paths: Iterable[str],
        mutants: Sequence[Mutant],
        found: Callable[[Trial], None],
        *,
        stages: Sequence[Stage],
        jobs: int,
        most_s: float,
        reach: Path,
        extra_s: float = 10.0,
    ) -> None:
        self._root = root
        self._paths = sorted(set(paths))
        self._mutants = mutants
        self._found = found
        self._stages = stages
        self._jobs = jobs
        self._most_s = most_s
        self._file = reach
        self._extra_s = extra_s
        self._tests: Mapping[str, pytest.Item] = {}
        self.passed_over: list[Mutant] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Let Hypothesis stop at the first failing example: nobody reads a shorter one."""
        phases = Phase.explicit, Phase.generate
        settings.register_profile("survey", settings.default, phases=phases, database=None)
        settings.load_profile("survey")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the mutants. The status is 2 when tests fail without any."""
        if session.testsfailed:
            _give_up("A test cannot be collected.")
        self._tests = {test.nodeid: test for test in session.items}
        modules = {path: LoadedModule(self._root, path) for path in self._paths}
        reach = self._measured(modules)
        forks: Forks[_Try] = Forks(self._jobs)
        for mutant in self._mutants:
            module = modules[mutant.path]
            try:
                statement = module.statement_of(mutant)
                module.code_with(mutant)
            except NotInFunction:
                self.passed_over.append(mutant)
                continue
            while forks.is_full:
                self._take_ended(forks)
            tests = self._chosen(mutant, reach, reach.tests.get((mutant.path, statement), ()))
            self._start(forks, _Try(module, mutant, tests, time.monotonic()))
        while len(forks):
            self._take_ended(forks)
        return True

    def _measured(self, modules: Mapping[str, LoadedModule]) -> Reach:
        if not self._file.exists():
            tests = list(self._tests.values())
            forks: Forks[None] = Forks(1)
            forks.start(None, partial(_measure, modules, tests, self._file), _MEASURE_LIMIT_S)
            ((_, told),) = forks.wait()
            if told != _PASSED:
                _give_up(f"What the tests reach cannot be measured: {told}")
        reach = Reach.of_file(self._file)
        if len(reach.failed) > _FAILED_SHARE * len(reach.seconds):
            _give_up(f"Tests fail without a mutant; mend them first: {' '.join(reach.failed)}")
        if reach.failed:
            print(f"These measure time or memory, and are left out: {' '.join(reach.failed)}", flush=True)
        return reach

    def _chosen(self, mutant: Mutant, reach: Reach, reaching: Sequence[str]) -> list[_Limited]:
        """The tests in the order of the stages: those of the module's own file first, then the quick ones."""
        own = f"{mirror_of(Path(mutant.path)).as_posix()}::"

        def order(name: str) -> tuple[bool, int, float]:
            return not name.startswith(own), self._stage_of(name), reach.seconds[name]

        chosen: list[_Limited] = []
        total = 0.0
        for name in sorted((name for name in reaching if name in self._tests), key=order):
            total += reach.seconds[name]
            if chosen and total > self._most_s:
                break
            limit_s = self._extra_s + _LIMIT_FACTOR * reach.seconds[name]
            chosen.append(_Limited(self._tests[name], limit_s))
        return chosen

    def _stage_of(self, test: str) -> int:
        places = (
            number
            for number, stage in enumerate(self._stages)
            if any(test.startswith(f"{place}/") for place in stage.places)
        )
        return next(places, len(self._stages))

    def _start(self, forks: Forks[_Try], attempt: _Try) -> None:
        limit_s = self._extra_s + sum(test.limit_s for test in attempt.tests)
        forks.start(attempt, partial(_run, attempt), limit_s)

    def _take_ended(self, forks: Forks[_Try]) -> None:
        for tried, told in forks.wait():
            if told not in self._tests and told not in (_PASSED, "", None):
                _give_up(f"{tried.mutant} cannot be tried: {told}")
            if tried.checked is None and told != _PASSED:
                # Does it pass without the mutant, in this order? So must all of them, if the process ended.
                self._start(forks, replace(tried, checked=told or _NO_TEST))
                continue
            if tried.checked is not None and told != _PASSED:
                rest = [test for test in tried.tests if test.item.nodeid != (told or tried.checked)]
                if len(rest) < len(tried.tests):
                    self._start(forks, replace(tried, tests=rest, checked=None))
                    continue
                _give_up(f"The tests that reach {tried.mutant} do not end without it either.")
            noticed_by = tried.checked
            stage = self._stages[min(self._stage_of(noticed_by or ""), len(self._stages) - 1)].name
            self._found(Trial(tried.mutant, noticed_by, stage, time.monotonic() - tried.begun))


def _give_up(why: str) -> NoReturn:
    print(why, flush=True)
    pytest.exit(why, returncode=2)


@dataclass(frozen=True, slots=True)
class _Limited:
    """A test, and the seconds after which it does not end."""

    item: pytest.Item
    limit_s: float


@dataclass(frozen=True, slots=True)
class _Try:
    """Tests to run with a mutant. With ``checked`` they run without it, and up to that test.

    A test that fails then too has not noticed the mutant.
    """

    module: LoadedModule
    mutant: Mutant
    tests: Sequence[_Limited]
    begun: float
    checked: str | None = None


def _run(tried: _Try) -> str:
    """Run the tests until one fails, and return its name."""
    if tried.checked is None:
        tried.module.put(tried.mutant)
    following = [*(test.item for test in tried.tests[1:]), None]
    for test, next_item in zip(tried.tests, following, strict=False):
        test.item.add_marker(pytest.mark.timeout(test.limit_s), append=False)
        if not _has_passed(test.item, next_item):
            return test.item.nodeid
        if test.item.nodeid == tried.checked:
            break
    return _PASSED


def _measure(modules: Mapping[str, LoadedModule], tests: Sequence[pytest.Item], file: Path) -> str:
    measure(modules, tests, _has_passed, file)
    return _PASSED


def _has_passed(test: pytest.Item, following: pytest.Item | None) -> bool:
    before = test.session.testsfailed
    test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
    return test.session.testsfailed == before
