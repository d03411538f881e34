"""What a person sees when a command cannot do its work: a sentence, and an exit status."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.running import NOBODY, run
from tidegate.worker.process.settings import Settings


@pytest.mark.parametrize(
    "arguments",
    [("feed", "list"), ("feed", "show", "x"), ("feed", "drop", "x"), ("tail", "rows")],
    ids=" ".join,
)
def test_without_a_broker_a_command_says_so(arguments: tuple[str, ...]) -> None:
    result = run(*arguments, *NOBODY)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Kafka at 127.0.0.1:1 gave no answer within 0.3 s")


def test_without_a_broker_an_audit_could_not_check() -> None:
    result = run("verify", "rows", *NOBODY)
    assert result.exit_code == 2
    assert "gave no answer" in result.stderr


def test_a_mistake_in_a_statement_is_pointed_at() -> None:
    result = run("feed", "create", "CREATE CHANGEFEED FOR flights INTO 'kafka://k' WITH update", *NOBODY)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "unknown option; did you mean updated?",
        "  CREATE CHANGEFEED FOR flights INTO '*********' WITH update",
        "                                                      ^",
    ]


def test_a_bad_feed_id_is_refused() -> None:
    result = run("feed", "show", "a/b", *NOBODY)
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        1,
        "not a feed id: 'a/b' (1 to 64 letters, digits, _ and -)",
    )


def test_tail_of_nothing_is_a_usage_error() -> None:
    result = run("tail", *NOBODY)
    assert result.exit_code == 2
    assert "Name at least one TOPIC, or a feed by --feed." in result.stderr


def test_a_history_without_a_feed_is_a_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.touch()
    result = run("verify", "rows", "--history", str(file), *NOBODY)
    assert result.exit_code == 2
    assert "--history needs --feed" in result.stderr


def test_a_horizon_that_is_no_duration_is_a_usage_error() -> None:
    result = run("verify", "rows", "--horizon", "soon", *NOBODY)
    assert result.exit_code == 2
    assert "not a duration: '...'" in result.stderr


def test_a_login_comes_from_the_environment() -> None:
    result = run("tail", "rows", *NOBODY, TIDEGATE_SECURITY_PROTOCOL="SASL_PLAINTEXT")
    assert result.exit_code == 1
    assert "set TIDEGATE_SASL_USERNAME and TIDEGATE_SASL_PASSWORD" in result.stderr


def test_a_password_is_never_an_argument() -> None:
    result = run("tail", "rows", "--sasl-password", "hush")
    assert "No such option" in result.stderr
    options = re.findall(r"--[\w-]+", run("worker", "--help").stdout)
    assert "--sasl-username" in options
    assert not [option for option in options if "password" in option.lower()]


def test_the_worker_names_the_variables_of_its_passwords() -> None:
    secrets = [name for name in Settings.model_fields if name.endswith("_password")]
    assert secrets
    text = run("worker", "--help").stdout
    assert not [name for name in secrets if f"TIDEGATE_{name.upper()}" not in text]


@pytest.mark.parametrize("command", [("worker",), ("sim", "run"), ("stack", "up", "kafka")], ids=" ".join)
def test_without_the_service_tree_a_command_that_needs_it_says_so(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """The package without what the wheel carries in it: no service tree can be imported."""
    (tmp_path / "tidegate").symlink_to(Path("tidegate").resolve())
    code = (  # the environment may name a checkout, this one or another
        "import os, sys\n"
        "checkouts = [p for p in sys.path if os.path.exists(os.path.join(p, 'app', 'main.py'))]\n"
        f"sys.path = [{str(tmp_path)!r}] + [p for p in sys.path if p and p not in checkouts]\n"
        "from tidegate.cli.main import main\n"
        f"sys.argv = ['tidegate', *{command!r}]\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert "needs tidegate's service tree" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_the_package_s() -> None:
    assert run("version").stdout == "0.1.0\n"


@pytest.mark.parametrize("command", ["feed", "tail", "verify", "status", "worker", "sim", "stack"])
def test_every_command_explains_itself(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: tidegate {command}")
