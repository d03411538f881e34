"""`tidegate serve`: what it refuses before it reads anything, and the lines of users that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegate.cli.subscriptions.serve import serve
from tidegate.errors import SettingsError
from tidegate.serve.postgres.users_file import read_users


def test_a_line_of_a_user_has_no_password_and_can_be_read_back(tmp_path: Path) -> None:
    ran = CliRunner().invoke(serve, ["--print-user", "ada"], input="s3cret\ns3cret\n")
    assert ran.exit_code == 0
    assert "s3cret" not in ran.stdout
    file = tmp_path / "users"
    file.write_text(ran.stdout)
    file.chmod(0o600)
    assert read_users(file).of("ada").iterations == 4096


@pytest.mark.parametrize("name", ["a:b", "#ada", "", "a\nb"])
def test_a_name_that_users_could_not_have_is_refused_before_the_password_is_asked_for(name: str) -> None:
    ran = CliRunner().invoke(serve, ["--print-user", name], input="s3cret\ns3cret\n")
    assert isinstance(ran.exception, SettingsError)
    assert ran.output == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--postgres", "0.0.0.0:6875"],
            "which others reach: give it --tls-cert and --tls-key and --users too",
        ),
        (["--postgres", "off", "--web", "10.0.0.1:80"], "--tls-key and --token-file too"),
        (["--postgres", "off", "--web", "off"], "no front"),
        (["--postgres", "6875"], "write host:port"),
        (["--tls-cert", "x"], "belong together"),
        (["--users", "/nowhere"], "cannot be read"),
        (["--without", "diffs"], "no switch 'diffs'; there are envelope_upsert"),
    ],
)
def test_settings_are_refused_before_anything_is_read(arguments: list[str], sentence: str) -> None:
    ran = CliRunner().invoke(serve, arguments)
    assert isinstance(ran.exception, SettingsError)
    assert sentence in str(ran.exception)
