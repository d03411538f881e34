"""Tests how commands log in to Kafka."""

from __future__ import annotations

import re

from tests.unit.cli.running import NOBODY, run


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
