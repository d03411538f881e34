from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stack import places
from stack.errors import StackError
from stack.places import CHECKOUT, cache_dir, naming_what_cannot_be_used, run_dir


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


@pytest.mark.parametrize(("variable", "place"), [("TIDEGATE_RUN", run_dir), ("TIDEGATE_CACHE", cache_dir)])
def test_a_place_below_a_home_that_nobody_has_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, place: Callable[[], Path]
) -> None:
    monkeypatch.setenv(variable, "~nobody-of-this-name/servers")
    with pytest.raises(StackError, match="cannot use ~nobody-of-this-name/servers: Could not determine"):
        place()


def test_a_file_that_cannot_be_used_is_named(home: Path) -> None:
    with (
        pytest.raises(StackError, match=rf"cannot use {home}/none: No such file"),
        naming_what_cannot_be_used(),
    ):
        (home / "none").read_text()


def test_an_error_that_names_no_file_is_one_of_the_run_directory(home: Path) -> None:
    with pytest.raises(StackError, match=rf"cannot use {run_dir()}: No space"), naming_what_cannot_be_used():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
