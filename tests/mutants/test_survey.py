"""Tests which tests notice a mutant of a small project, in forks of one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.tree import ROOT

_CODE: Final = """
LIMIT = 3

def below(a, b=LIMIT + 1):
    return a < b

def lonely(a):
    return a + 1

def counted(n):
    found = 0
    while found < n:
        found += 1
    return found
"""
_TESTS: Final = """
import below

def test_less():
    assert below.below(1, 2)

def test_equal():
    assert not below.below(1, 1)

def test_counted():
    assert below.counted(2) == 2
"""
_LATER: Final = "import below\n\ndef test_later():\n    assert not below.below(2, 2)\n"
_SURVEY: Final = """
import json, math, sys
from pathlib import Path
import pytest
from tests.mutants.mutations import mutants_of
from tests.mutants.survey import Survey
from tests.mutants.trial import Stage

root, most_s = Path.cwd(), float(sys.argv[1])
found = {}
def add(trial):
    mutant = trial.mutant
    found[f"{mutant.before} -> {mutant.after}"] = trial.stage, trial.noticed_by
survey = Survey(
    root, ["below.py"], mutants_of("below.py", (root / "below.py").read_bytes()), add,
    stages=[Stage("first", ("first",)), Stage("second", ("second",))],
    jobs=2, most_s=most_s, reach=root / "reach", extra_s=2.0,
)
status = pytest.main(["first", "second", "-p", "no:terminal", "-p", "no:cacheprovider"], plugins=[survey])
passed_over = [f"{mutant.before} -> {mutant.after}" for mutant in survey.passed_over]
(root / "result").write_text(json.dumps([status, found, passed_over]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "below.py": _CODE,
        "first/test_first.py": _TESTS,
        "second/test_second.py": _LATER,
        "survey.py": _SURVEY,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def surveyed(project: Path, most_s: float = 60.0) -> tuple[int, dict[str, list[str | None]], list[str]]:
    """The status, the stage and the test that noticed each mutant, and the mutants that were passed over."""
    path = os.pathsep.join((str(project), str(ROOT)))
    told = subprocess.run(
        [sys.executable, "survey.py", str(most_s)],
        cwd=project,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (project / "result").exists(), told.stdout + told.stderr
    status, found, passed_over = json.loads((project / "result").read_text())
    return status, found, passed_over


def test_each_mutant_has_the_test_that_notices_it_or_none(project: Path) -> None:
    status, found, passed_over = surveyed(project)
    assert status == 0
    assert found["a < b -> a <= b"] == ["first", "first/test_first.py::test_equal"]
    assert found["a + 1 -> (a - 1)"][1] is None  # no test reaches it
    assert found["found < n -> found <= n"] == ["first", "first/test_first.py::test_counted"]
    assert found["found += 1 -> pass"] == ["first", "first/test_first.py::test_counted"]  # by its time limit
    assert passed_over == ["LIMIT + 1 -> (LIMIT - 1)", "1 -> 2"]


def test_later_stages_are_asked_when_the_first_has_passed(project: Path) -> None:
    (project / "first/test_first.py").write_text(
        "import below\n\ndef test_less():\n    assert below.below(1, 2)\n"
    )
    assert surveyed(project)[1]["a < b -> a <= b"] == ["second", "second/test_second.py::test_later"]


def test_a_test_that_fails_without_the_mutant_too_notices_nothing(project: Path) -> None:
    """It passes once, while what the tests reach is measured, and never again: at no mutant does it count."""
    first = project / "first/test_first.py"
    first.write_text(
        "from pathlib import Path\nimport below\n\ndef test_once():\n    below.below(1, below.counted(2))\n"
        "    assert not Path('been').exists()\n    Path('been').touch()\n"
    )
    _, found, _ = surveyed(project)
    noticed = {noticed_by for _, noticed_by in found.values()}
    assert len(found) > 3
    assert noticed == {None, "second/test_second.py::test_later"}


def test_a_mutant_that_ends_the_process_is_noticed(project: Path) -> None:
    first = project / "first/test_first.py"
    first.write_text(
        "import os\nimport below\n\ndef test_abrupt():\n    if below.below(1, 1):\n        os._exit(3)\n"
    )
    _, found, _ = surveyed(project)
    assert found["a < b -> a <= b"][1] == "it does not end, or the process breaks off"


def test_tests_that_fail_without_a_mutant_say_nothing(project: Path) -> None:
    (project / "second/test_second.py").write_text("def test_broken():\n    raise AssertionError\n")
    status, found, _ = surveyed(project)
    assert (status, found) == (2, {})
