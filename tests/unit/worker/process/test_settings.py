"""Settings: what is said about them, where they come from, what is refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tidegate.errors import SettingsError
from tidegate.processor.catchup.gap_scans import CatchUpLimits
from tidegate.worker.kafka.clients import broker_urls, faust_credentials, librdkafka_config
from tidegate.worker.process.settings import SecurityProtocol, Settings, load_settings


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"TIDEGATE_{name.upper()}", raising=False)


def test_every_setting_says_what_it_means() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_every_setting_has_a_default() -> None:
    assert not any(field.is_required() for field in Settings.model_fields.values())


def test_catching_up_has_the_limits_of_the_core() -> None:
    """Other engines take these as they are."""
    settings = Settings()
    assert CatchUpLimits(settings.catch_up_scans, settings.catch_up_memory_bytes) == CatchUpLimits()


def test_the_environment_is_read_and_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_APP_ID", "from-environment")
    monkeypatch.setenv("TIDEGATE_BATCH_RECORDS", "7")
    settings = load_settings(app_id="given")
    assert (settings.app_id, settings.batch_records) == ("given", 7)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"batch_records": "0"}, "batch_records"),
        ({"app_id": "with space"}, "app_id"),
        ({"security_protocol": "SASL_SSL"}, "sasl_username"),
        ({"metrics_port": "70000"}, "metrics_port"),
        (
            {"metrics_host": "0.0.0.0"},
            "metrics_tls_key, or set metrics_plaintext to true",
        ),
        ({"metrics_host": "worker.example"}, "others on the network reach"),
        ({"metrics_tls_key": "key.pem"}, "belong together"),
        ({"no_such_setting": "1"}, "no_such_setting"),
        ({"metrics_host": "\udcff"}, "metrics_host is no UTF-8"),
        ({"destinations_file": "\udcff"}, "destinations_file is no UTF-8"),
        ({"sasl_password": "\udcff"}, "sasl_password is no UTF-8"),
        ({"metrics_token": ""}, "metrics_token is set, and is no token"),
        ({"metrics_token": "abc\n"}, "metrics_token is set, and is no token"),
    ],
)
def test_a_setting_at_fault_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        load_settings(**given)


def test_who_lets_go_of_partitions_stops_waiting_for_sinks_before_its_time_is_over() -> None:
    assert load_settings(sink_stall_ms="500", drain_timeout_ms="1000").drain_sinks_ms == 500
    with pytest.raises(SettingsError, match=r"sink_stall_ms is 501, .* half of drain_timeout_ms \(1000\)"):
        load_settings(sink_stall_ms="501", drain_timeout_ms="1000")


@pytest.mark.parametrize(
    ("drain_ms", "stall_ms"), [(2, 1), (20_000, 10_000), (30_000, 15_000), (90_000, 15_000)]
)
def test_a_short_drain_shortens_the_wait_for_sinks_unless_that_is_set(
    monkeypatch: pytest.MonkeyPatch, drain_ms: int, stall_ms: int
) -> None:
    assert load_settings(drain_timeout_ms=str(drain_ms)).sink_stall_ms == stall_ms
    monkeypatch.setenv("TIDEGATE_DRAIN_TIMEOUT_MS", str(drain_ms))
    assert load_settings().sink_stall_ms == stall_ms
    monkeypatch.setenv("TIDEGATE_SINK_STALL_MS", str(drain_ms // 2 + 1))
    with pytest.raises(SettingsError, match=r"sink_stall_ms is .* half of drain_timeout_ms"):
        load_settings()


def test_secrets_stay_out_of_what_is_printed() -> None:
    settings = load_settings(security_protocol="SASL_SSL", sasl_username="u", sasl_password="hush")
    assert "hush" not in repr(settings)
    assert "hush" not in str(settings)


def test_both_clients_log_in_with_the_same_login() -> None:
    settings = load_settings(
        security_protocol=SecurityProtocol.SASL_PLAINTEXT,
        sasl_mechanism="PLAIN",
        sasl_username="user",
        sasl_password="hush",
    )
    config, credentials = librdkafka_config(settings), faust_credentials(settings)
    assert credentials is not None
    assert (config["sasl.username"], config["sasl.password"]) == ("user", "hush")
    assert (credentials.username, credentials.password) == ("user", "hush")
    assert config["sasl.mechanism"] == credentials.mechanism.value


def test_an_open_connection_has_no_credentials() -> None:
    assert faust_credentials(load_settings()) is None


def test_several_brokers_become_several_urls() -> None:
    urls = broker_urls(load_settings(bootstrap_servers="a:1, b:2"))
    assert [(url.host, url.port) for url in urls] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"batch_records": "0"}, "batch_records is '0', but must be at least 1"),
        ({"batch_records": "many"}, "batch_records is 'many', but must be a whole number"),
        ({"metrics_port": "70000"}, "metrics_port is '70000', but must be at most 65535"),
        ({"drain_timeout_ms": "1"}, "drain_timeout_ms is '1', but must be at least 2"),
        ({"app_id": "a b"}, "app_id is 'a b', but must be made of letters, digits, dots, hyphens and"),
        ({"bootstrap_servers": ""}, "bootstrap_servers is '', but must not be empty"),
        ({"log_format": "xml"}, "log_format is 'xml', but must be 'console' or 'json'"),
        ({"log_level": "LOUD"}, "log_level is 'LOUD', but must be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        (
            {"metrics_host": "0.0.0.0"},
            "metrics_tls_key, or set metrics_plaintext to true",
        ),
        ({"metrics_host": "worker.example"}, "others on the network reach"),
        ({"metrics_tls_key": "key.pem"}, "belong together"),
        ({"no_such_setting": "1"}, "there is no setting no_such_setting"),
        ({"security_protocol": "SASL_SSL"}, ": SASL_SSL needs sasl_username and sasl_password."),
        (
            {"drain_timeout_ms": "29999", "sink_stall_ms": "15000"},
            "sink_stall_ms is 15000, but must be at most half of drain_timeout_ms (29999): a worker",
        ),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_words(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(**given)
    text = str(refused.value)
    assert said in text
    assert not any(jargon in text for jargon in ("Value error", "Input should", "pattern", "^["))


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(SettingsError, match=r"batch_records is '0'.*; linger_ms is '-1'.*TIDEGATE_<NAME>"):
        load_settings(batch_records="0", linger_ms="-1")


@pytest.mark.parametrize("given", [{"batch_records": "0"}, {"sasl_username": None}, {"ssl_key_password": 7}])
def test_secrets_stay_out_of_what_is_refused(given: dict[str, object]) -> None:
    login = {"security_protocol": "SASL_SSL", "sasl_username": "u", "sasl_password": "hush"}
    with pytest.raises(SettingsError) as refused:
        load_settings(**login | given)
    assert "hush" not in str(refused.value)
    assert "7" not in str(refused.value)


def test_the_files_of_tls_are_passed_to_librdkafka_as_they_are() -> None:
    config = librdkafka_config(
        load_settings(
            security_protocol="SSL",
            ssl_ca_location="/tls/ca.pem",
            ssl_certificate_location="/tls/client.pem",
            ssl_key_location="/tls/client.key",
            ssl_key_password="hush",
        )
    )
    assert {name: value for name, value in config.items() if name.startswith("ssl")} == {
        "ssl.ca.location": "/tls/ca.pem",
        "ssl.certificate.location": "/tls/client.pem",
        "ssl.key.location": "/tls/client.key",
        "ssl.key.password": "hush",
    }
    assert config["security.protocol"] == "SSL"


def test_files_of_tls_are_not_passed_for_an_open_connection() -> None:
    config = librdkafka_config(load_settings(ssl_ca_location="/tls/ca.pem"))
    assert not any(name.startswith(("ssl", "sasl")) for name in config)


def test_tls_of_the_other_client_checks_the_broker_by_name() -> None:
    credentials = faust_credentials(load_settings(security_protocol="SSL"))
    assert credentials is not None
    assert credentials.context.verify_mode is ssl.CERT_REQUIRED
    assert credentials.context.check_hostname


@pytest.mark.parametrize("content", [None, "no certificate"], ids=["missing", "no PEM"])
@pytest.mark.parametrize("name", ["ssl_ca_location", "ssl_certificate_location"])
def test_files_of_tls_that_cannot_be_used_are_a_sentence(
    tmp_path: Path, name: str, content: str | None
) -> None:
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingsError, match=r"ssl_ca_location.*cannot be used.*look at their paths"):
        faust_credentials(load_settings(security_protocol="SSL", **{name: file}))


@pytest.mark.parametrize(
    "given",
    [
        {"metrics_host": "127.0.0.2"},
        {"metrics_host": "::1"},
        {"metrics_host": "localhost"},
        {"metrics_host": "0.0.0.0", "metrics_plaintext": "true"},
        {"metrics_host": "0.0.0.0", "metrics_tls_certificate": "cert.pem", "metrics_tls_key": "key.pem"},
    ],
)
def test_an_address_that_others_reach_needs_tls_or_somebodys_word(given: dict[str, str]) -> None:
    assert load_settings(**given).metrics_host == given["metrics_host"]


def test_a_token_is_shown_nowhere() -> None:
    assert "hush" not in repr(load_settings(metrics_token="hush"))


def test_patterns_of_output_topics_are_read_at_the_start() -> None:
    assert load_settings(output_topics="cdc.*, board").output_topics == "cdc.*, board"
    with pytest.raises(SettingsError, match="output_topics has the pattern 'a b', but patterns"):
        load_settings(output_topics="a b")
