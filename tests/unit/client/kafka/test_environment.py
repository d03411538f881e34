"""The environment's connection: its login is for its own brokers."""

from __future__ import annotations

import pytest

from tidegate.client.kafka.environment import connection_of_environment
from tidegate.errors import SettingsError


@pytest.fixture
def with_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_BOOTSTRAP_SERVERS", "a.bank:9092, b.bank:9092")
    monkeypatch.setenv("TIDEGATE_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("TIDEGATE_SASL_USERNAME", "ada")
    monkeypatch.setenv("TIDEGATE_SASL_PASSWORD", "hush-hush")


@pytest.mark.usefixtures("with_login")
@pytest.mark.parametrize("asked", ["", "b.bank:9092", "B.bank:9092,a.bank:9092"])
def test_a_login_goes_to_the_brokers_that_the_environment_names(asked: str) -> None:
    connection = connection_of_environment(asked)
    assert connection.sasl_password == "hush-hush"
    assert connection.bootstrap_servers == asked or not asked


@pytest.mark.usefixtures("with_login")
@pytest.mark.parametrize(
    "asked", ["c.bank:9092", "a.bank:9093", "a.bank:9092,evil:9092", "a.bank", "a.ban\u212a:9092"]
)
def test_a_login_goes_nowhere_else(asked: str) -> None:
    with pytest.raises(SettingsError, match="TIDEGATE_BOOTSTRAP_SERVERS does not name it") as caught:
        connection_of_environment(asked)
    assert "hush-hush" not in str(caught.value)


@pytest.mark.usefixtures("with_login")
def test_brokers_that_nobody_named_get_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_BOOTSTRAP_SERVERS")
    with pytest.raises(SettingsError, match=r"is not sent to a\.bank:9092"):
        connection_of_environment("a.bank:9092")


def test_without_a_login_any_brokers_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_BOOTSTRAP_SERVERS", "a.bank:9092")
    assert connection_of_environment("c.bank:9092").bootstrap_servers == "c.bank:9092"
