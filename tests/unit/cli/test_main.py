"""The command itself: its version, and that each command explains itself."""

from __future__ import annotations

import pytest

from tests.unit.cli.running import run


def test_the_version_is_the_package_s() -> None:
    assert run("version").stdout == "0.1.0\n"


@pytest.mark.parametrize("command", ["feed", "tail", "verify", "status", "worker", "sim", "stack"])
def test_every_command_explains_itself(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: tidegate {command}")
