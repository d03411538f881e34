from __future__ import annotations

from pathlib import Path

import pytest

from stack import places
from stack.places import CHECKOUT, run_dir


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home directory, and nothing that names another place."""
    for name in ("TIDEGATE_RUN", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_in_a_checkout_servers_are_kept_in_it() -> None:
    assert run_dir() == CHECKOUT / "run"


def test_without_a_checkout_servers_are_kept_in_the_users_state(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setattr(places, "CHECKOUT", home / "site-packages" / "tidegate" / "service")
    assert run_dir() == home / ".local" / "state" / "tidegate" / "run"
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "elsewhere"))
    assert run_dir() == home / "elsewhere" / "tidegate" / "run"


def test_a_named_place_wins(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("TIDEGATE_RUN", "~/servers")
    assert run_dir() == home / "servers"
