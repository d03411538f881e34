"""Tests that a function of an imported module gets the slip, however it is held, and tells what it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests.mutants.loaded_module import LoadedModule, NotInFunction
from tests.mutants.mutations import Mutant, mutants_of

_CODE: Final = b"""
from dataclasses import dataclass
from functools import cache, cached_property

def plain(a, b=3):
    return a < b

@cache
def kept(a):
    return a < 10

def outer(a):
    def inner(b):
        return b < 20
    return inner(a)

def given(a):
    yield from (b for b in range(a) if b < 30)

def branched(a):
    if a:
        a += 40
        return a
    return 0

class Careful(dict):
    def __init__(self):
        super().__init__(a=1)

@dataclass
class Held:
    value: int = 50

    @property
    def shown(self):
        return self.value < 60

    @cached_property
    def slow(self):
        return self.value < 70

    @staticmethod
    def still(a):
        return a < 80

    @classmethod
    def of(cls, a):
        return a < 90
"""
_NUMBERS: Final = count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    name = f"exchanged_{next(_NUMBERS)}"
    (tmp_path / f"{name}.py").write_bytes(_CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module(name)
    del sys.modules[name]


@pytest.fixture
def loaded(module: ModuleType, tmp_path: Path) -> LoadedModule:
    return LoadedModule(tmp_path, f"{module.__name__}.py")


def slip(module: ModuleType, before: str, after: str) -> Mutant:
    (found,) = [
        mutant
        for mutant in mutants_of(f"{module.__name__}.py", _CODE)
        if (mutant.before, mutant.after) == (before, after)
    ]
    return found


@pytest.mark.parametrize(
    ("before", "border"),
    [
        ("a < b", lambda module: module.plain(3)),
        ("a < 10", lambda module: module.kept(10)),
        ("b < 20", lambda module: module.outer(20)),
        ("b < 30", lambda module: 30 in module.given(31)),
        ("self.value < 60", lambda module: module.Held(60).shown),
        ("self.value < 70", lambda module: module.Held(70).slow),
        ("a < 80", lambda module: module.Held.still(80)),
        ("a < 90", lambda module: module.Held.of(90)),
    ],
)
def test_a_function_has_the_slip_from_its_next_call_on(
    module: ModuleType, loaded: LoadedModule, before: str, border: object
) -> None:
    assert callable(border)
    assert not border(module)
    if before == "a < 10":
        module.kept.cache_clear()
    loaded.put(slip(module, before, before.replace("<", "<=")))
    assert border(module)


def test_the_other_functions_stay_as_they_are(module: ModuleType, loaded: LoadedModule) -> None:
    others = [module.outer.__code__, module.given.__code__, module.Held.still.__code__]
    loaded.put(slip(module, "a < b", "a <= b"))
    assert [module.outer.__code__, module.given.__code__, module.Held.still.__code__] == others


@pytest.mark.parametrize(("before", "after"), [("3", "4"), ("50", "51")])
def test_a_slip_that_ran_at_the_import_is_refused(
    module: ModuleType, loaded: LoadedModule, before: str, after: str
) -> None:
    """Defaults of arguments and of fields."""
    mutants = [
        m for m in mutants_of(f"{module.__name__}.py", _CODE) if (m.before, m.after) == (before, after)
    ]
    for mutant in mutants:
        with pytest.raises(NotInFunction):
            loaded.code_with(mutant)


def test_a_slip_that_takes_the_closure_from_a_function_is_refused(
    module: ModuleType, loaded: LoadedModule
) -> None:
    """Python lets no function have code with other free variables. ``super()`` needs one."""
    with pytest.raises(NotInFunction):
        loaded.code_with(slip(module, "super().__init__(a=1)", "pass"))


def test_the_statements_that_run_are_counted(module: ModuleType, loaded: LoadedModule) -> None:
    seen: set[int] = set()
    loaded.count(seen.add)
    inside, behind = slip(module, "a += 40", "pass"), slip(module, "0", "1")
    module.branched(0)
    assert loaded.statement_of(behind) in seen
    assert loaded.statement_of(inside) not in seen
    assert module.branched(2) == 42
    assert loaded.statement_of(inside) in seen
    assert loaded.statement_of(slip(module, "b < 20", "b <= 20")) not in seen
    module.outer(1)
    assert loaded.statement_of(slip(module, "b < 20", "b <= 20")) in seen
