"""Tests the report of a mutant, by the example of a small project."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.mutations import Mutant, mutants_of
from tests.mutants.tree import Tree
from tests.mutants.trial import BrokenWithout, Stage, attempt, timed
from tests.unit.mirror import mirror_of

_CODE: Final = b"""
def below(a, b):
    return a < b

def up_to(n):
    found = []
    while len(found) < n:
        found.append(0)
    return found
"""
_BESIDE: Final = (
    "import below\n\ndef test_less():\n    assert below.below(1, 2)\n    assert len(below.up_to(2)) == 2\n"
)
_LATER: Final = "import below\n\ndef test_equal():\n    assert not below.below(1, 1)\n"
#: They pass where addresses are not bounded and memory is.
_MEMORY: Final = """
import mmap

import pytest

def test_addresses():
    reserved = [mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE, prot=0) for _ in range(4)]
    assert len(reserved) == 4

def test_memory():
    with pytest.raises(MemoryError):
        bytearray(9 << 30)
"""
_STAGES: Final = (Stage("first", ("first",), 60), Stage("second", ("second",), 60))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    checkout = tmp_path / "checkout"
    for name, text in {
        "below.py": _CODE.decode(),
        "first/test_first.py": _BESIDE,
        "second/test_second.py": _LATER,
    }.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=checkout, check=True)
    return Tree(tmp_path / "copy", checkout)


def mutant(before: str, after: str) -> Mutant:
    (found,) = [
        mutant for mutant in mutants_of("below.py", _CODE) if (mutant.before, mutant.after) == (before, after)
    ]
    return found


def test_the_first_stage_that_fails_names_its_test(tree: Tree) -> None:
    done = attempt(tree, mutant("len(found) < n", "len(found) <= n"), _STAGES, 1)
    assert (done.stage, done.noticed_by) == ("first", "first/test_first.py::test_less")
    later = attempt(tree, mutant("a < b", "a <= b"), _STAGES, 1)
    assert (later.stage, later.noticed_by) == ("second", "second/test_second.py::test_equal")


def test_what_no_test_notices_has_lived(tree: Tree) -> None:
    assert attempt(tree, mutant("a < b", "a <= b"), _STAGES[:1], 1).noticed_by is None


def test_the_tests_that_mirror_the_module_run_first_and_no_others_of_their_name(tree: Tree) -> None:
    """Both files fail with the mutant. The one in another folder has the name alone, and is not asked."""
    module = Path("tidegate/ranges/below.py")
    mirrored, another = mirror_of(module), mirror_of(Path("tidegate/processor") / module.name)
    for file, text in {
        module: _CODE.decode(),
        another: "def test_of_another():\n    raise AssertionError\n",
        mirrored: "def test_mirrored():\n    raise AssertionError\n",
    }.items():
        (tree.root / file).parent.mkdir(parents=True, exist_ok=True)
        (tree.root / file).write_text(text)
    found = replace(mutant("a < b", "a <= b"), path=module.as_posix())
    done = attempt(tree, found, _STAGES[:1], 1)
    assert done.noticed_by == f"{mirrored}::test_mirrored"
    (tree.root / mirrored).unlink()
    assert attempt(tree, found, _STAGES[:1], 1).noticed_by is None


def test_a_mutant_that_runs_for_ever_is_noticed(tree: Tree) -> None:
    hurried = [Stage("first", ("first",), 5)]
    assert attempt(tree, mutant("found.append(0)", "pass"), hurried, 1).noticed_by == "it does not end"


@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems bound the memory of a process in other ways"
)
def test_the_memory_of_a_mutant_is_bounded_and_not_the_addresses_that_kernels_reserve(tree: Tree) -> None:
    (tree.root / "first/test_first.py").write_text(_MEMORY)
    assert tree.test(["first"], 60).passed


def test_the_checkout_never_has_a_mutant_and_the_copy_only_while_it_is_tried(tree: Tree) -> None:
    copy, original = tree.root / "below.py", tree.root.parent / "checkout" / "below.py"
    with tree.with_mutant(mutant("a < b", "a <= b")):
        assert b"a <= b" in copy.read_bytes()
        assert original.read_bytes() == _CODE
    assert copy.read_bytes() == _CODE


def test_tests_that_fail_without_a_mutant_say_nothing(tree: Tree) -> None:
    (tree.root / "second/test_second.py").write_text("def test_broken():\n    assert False\n")
    assert timed(_STAGES[:1], tree, 1)[0].limit_s > 30
    with pytest.raises(BrokenWithout, match="test_broken"):
        timed(_STAGES, tree, 1)
