"""CONTRIBUTING.md: its files are there, its examples stand in them, and hooks run what `make` runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from ruamel.yaml import YAML

from stack.places import CHECKOUT

_PAGE: Final = (CHECKOUT / "CONTRIBUTING.md").read_text()
_HOW_TO: Final = re.compile(r"^### (.*?)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
_ROW: Final = re.compile(r"^\| `([\w/.-]+)` \| .* \| ([^|]*) \|$", re.MULTILINE)
_CODE: Final = re.compile(r"`([^`]+)`")
_PATH: Final = re.compile(r"`((?:tests|tidegate|docs|agents|app)/[\w/.-]*)`")
_TASK: Final = re.compile(r"`make ([a-z ]+)")


class Step(NamedTuple):
    """A line of a list: the file, and the names of the worked example that stand in it."""

    subject: str
    file: str
    names: tuple[str, ...]


_STEPS: Final = [
    Step(subject, file, tuple(_CODE.findall(names)))
    for subject, text in _HOW_TO.findall(_PAGE)
    for file, names in _ROW.findall(text)
]


def test_there_is_a_list_for_each_thing_that_is_added() -> None:
    assert {step.subject for step in _STEPS} == {
        "An option",
        "An envelope",
        "A SQL type",
        "A statement",
        "An agent",
        "A sink",
        "A planted defect of the simulation",
    }


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: f"{step.subject}: {step.file}")
def test_a_file_of_a_list_has_the_names_of_the_example(step: Step) -> None:
    text = (CHECKOUT / step.file).read_text()
    assert step.names
    assert [name for name in step.names if name not in text] == []


def test_every_place_that_the_page_names_is_there() -> None:
    assert [path for path in _PATH.findall(_PAGE) if not (CHECKOUT / path).exists()] == []


def test_every_task_that_the_page_names_is_one_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    named = {name for words in _TASK.findall(_PAGE) for name in words.split()}
    assert {"unit", "test", "soak", "fuzz", "mutants"} <= named
    assert named - targets == set()


def _hooks() -> list[dict[str, Any]]:
    repos = YAML(typ="safe").load(CHECKOUT / ".pre-commit-config.yaml")["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    return [hook for repo in repos for hook in repo["hooks"]]


def test_the_hooks_are_what_make_lint_types_runs() -> None:
    makefile = (CHECKOUT / "Makefile").read_text()
    run = re.findall(r"^\t\$\(BIN\)/((?:ruff|mypy)[\w -]*?)(?: \$\(SOURCES\))?$", makefile, re.MULTILINE)
    entries = (hook["entry"].removeprefix(".venv/bin/") for hook in _hooks())
    hooks = {entry.removesuffix(" --force-exclude") for entry in entries}
    assert hooks == {words for words in run if words not in ("ruff check --fix", "ruff format")}
    assert {hook["language"] for hook in _hooks()} == {"system"}


def test_the_example_of_a_test_that_mirrors_its_module_is_there() -> None:
    module, test = Path("tidegate/ranges/resolver.py"), Path("tests/unit/ranges/test_resolver.py")
    assert f"the tests of `{module}` are `{test}`" in _PAGE
