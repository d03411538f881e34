"""The file of users."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import SettingsError
from tidegate.serve.postgres.scram import make_verifier
from tidegate.serve.postgres.users_file import read_users, require_user_name


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "users"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_users_are_read_line_by_line(tmp_path: Path) -> None:
    ada = make_verifier("pencil")
    users = read_users(written(tmp_path, f"# mine\n\nada:{ada}\nbob:{make_verifier('x')}\n"))
    assert len(users) == 2
    assert users.of("ada") == ada


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no users"),
        ("ada:secret", "line 1: a verifier has the form"),
        (f":{make_verifier('x')}", "line 1: a user's name is missing"),
        (f"a:{make_verifier('x')}\na:{make_verifier('y')}", "line 2: a user's name is missing, or there"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence) as caught:
        read_users(written(tmp_path, text))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["ada", "ada lovelace", "é#1", "a@b"])
def test_a_name_that_is_taken_can_be_read_back(tmp_path: Path, name: str) -> None:
    require_user_name(name)
    ada = make_verifier("x")
    assert read_users(written(tmp_path, f"{name}:{ada}\n")).of(name) == ada


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "is empty"),
        (" ", "is empty"),
        ("#ada", "begins with #"),
        ("a:b", "a colon ends the name"),
        ("a\nb", "one line"),
        ("ada\n", "one line"),
        ("a\u2028b", "one line"),
        ("a\udcff", "no UTF-8"),
    ],
)
def test_a_name_that_could_not_be_read_back_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        require_user_name(name)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="chmod 600"):
        read_users(written(tmp_path, f"ada:{make_verifier('x')}", 0o644))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_users(tmp_path / "none")
