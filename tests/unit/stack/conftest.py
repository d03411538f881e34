"""A server small enough for unit tests, and directories of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from stack.recipes import catalogue as recipes
from tests.unit.stack.toy import Toy


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TIDEGATE_RUN", str(tmp_path / "run"))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    """The recipe of a tiny real server, known to `up` under the name "toy"."""
    recipe = Toy()
    monkeypatch.setitem(recipes.RECIPES, "toy", recipe)
    return recipe
