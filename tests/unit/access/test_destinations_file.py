"""The operator's file of destinations: what fits an entry, and what is said of a file that cannot be used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.cli.running import NOBODY, run
from tidegate.access.destinations import ClusterEntry, fits
from tidegate.access.destinations_file import read_destinations
from tidegate.access.secret_store import SecretStore
from tidegate.errors import SettingsError, SinkNotAllowed
from tidegate.worker.process.settings import load_settings

_STATEMENT = "CREATE CHANGEFEED FOR TABLE flights INTO 'kafka://elsewhere:9092'"


def _file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "destinations.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("pattern", "servers", "fits"),
    [
        ("kafka-*.example:9092", ["kafka-1.example:9092", "kafka-2.example:9092"], True),
        ("kafka-*.example:9092", ["kafka-1.example:9092", "evil.example:9092"], False),
        ("kafka-*.example:9092", ["kafka-1.evil.example:9092"], False),
        ("*.*.*.1:9092", ["10.0.0.1:9092", "127.0.0.1:9092"], True),
        ("kafka-*.example.:9092", ["kafka-1.example:9092"], False),
        ("kafka:*", ["kafka:1"], True),
        ("kafka", ["kafka:9092"], True),
        ("KAFKA:1", ["kafka:1"], True),
        ("localhost:1", ["127.0.0.1:1"], True),
        ("[::1]:9092", ["[::1]:9092"], True),
        ("kafka.example:9092", ["kafkaxexample:9092"], False),
    ],
)
def test_an_entry_names_a_sink_where_each_server_fits_one_of_its_patterns(
    tmp_path: Path, pattern: str, servers: list[str], fits: bool
) -> None:
    file = _file(tmp_path, f'[clusters.there]\nservers = ["{pattern}"]')
    (found,) = read_destinations(file).clusters
    assert found[1].names(servers) is fits


def test_servers_of_the_own_cluster_need_no_entry() -> None:
    found = read_destinations(None).entry(["localhost:1"], "feed", "own:1,127.0.0.1:1")
    assert found.login(SecretStore()) == {}
    with pytest.raises(SinkNotAllowed):
        read_destinations(None).entry(["own:1", "stranger:1"], "feed", "own:1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[clusters.there", "is not TOML"),
        pytest.param("clusters = " + 9_999 * "[", "is not TOML", id="deep"),
        ("[cluster.there]", "cluster: there is no such table"),
        ("clusters = 3", "clusters: Input should be a valid dictionary"),
        ("[clusters.there]", "clusters.there.servers: is missing"),
        ('[clusters.there]\nservers = ["a"]\nsasl_pasword = "x"', "clusters.there.sasl_pasword: there is no"),
        ('[clusters.there]\nservers = "a:1"', "clusters.there.servers: Input should be"),
        ("[clusters.there]\nservers = []", "clusters.there: servers must be host:port"),
        ('[clusters.there]\nservers = ["a b:1"]', "clusters.there: servers must be host:port"),
        ('[clusters.there]\nservers = ["*:9092"]', "clusters.there: the last label of a host in servers"),
        ('[clusters.there]\nservers = ["a:1", "*.*.*.*:1"]', "clusters.there: the last label of a host in"),
        ('[clusters.there]\nservers = ["10.0.0.*"]', "clusters.there: the last label of a host in servers"),
        ('[clusters.there]\nservers = ["kafka-*:1"]', "or a * before their domain, as in kafka-*.example"),
        ('[clusters.there]\nservers = ["*.:1"]', "clusters.there: the last label of a host in servers"),
        ('[clusters.there]\nservers = ["a:1"]\nfeeds = ["a b"]', "clusters.there: feeds must be ids"),
        (
            '[clusters.there]\nservers = ["a:1"]\nown_login = true\nsasl_username = "x"',
            "clusters.there: own_login and sasl_username exclude each other",
        ),
        (
            '[clusters.there]\nservers = ["a:1"]\nsecurity_protocol = "SASL_SSL"\nsasl_username = "x"',
            "clusters.there: sasl_password is missing",
        ),
        (
            '[clusters.there]\nservers = ["a:1"]\nsasl_password = "hush-hush"',
            "clusters.there: sasl_password needs security_protocol SASL",
        ),
        (
            '[clusters.there]\nservers = ["a:1"]\nsecurity_protocol = "SASL_SSL"\nsasl_username = "x"\n'
            'sasl_password = "hush-hush"',
            "clusters.there: sasl_password must be secret://NAME",
        ),
        (
            '[clusters.there]\nservers = ["a:1"]\nssl_ca_location = "ca.pem"',
            "clusters.there: ssl_ca_location needs security_protocol SSL",
        ),
        (
            '[clusters.there]\nservers = ["a:1"]\nsecurity_protocol = "SSL"\nssl_key_location = "key.pem"',
            "clusters.there: ssl_certificate_location and ssl_key_location belong together",
        ),
        (
            '[clusters.there]\nservers = ["a:1"]\nsecurity_protocol = "ssl"',
            "clusters.there.security_protocol: Input should be 'PLAINTEXT'",
        ),
        ("[registries.there]", "registries.there.urls: is missing"),
        ("[registries.there]\nurls = []", "registries.there: urls must have one URL"),
        ('[registries.there]\nurls = ["registry:8081"]', "registries.there: urls must be https://"),
        (
            '[registries.there]\nurls = ["https://me:hush-hush@a:81"]',
            "registries.there: urls must be",
        ),
        ('[registries.there]\nurls = ["https://registry/a?b=hush-hush"]', "registries.there: urls must be"),
        ('[registries.there]\nurls = ["https://registry/*"]', "registries.there: urls must be"),
        ('[registries.there]\nurls = ["https://*:8081"]', "registries.there: the last label"),
        ('[registries.there]\nurls = ["https://10.0.0.*:8081"]', "registries.there: the last label"),
        ('[registries.there]\nurls = ["https://*.:8081"]', "registries.there: the last label of a host"),
        ('[registries.there]\nurls = ["https://a"]\nfeeds = ["*"]', "registries.there.feeds: there is no"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key_and_no_secret(tmp_path: Path, text: str, said: str) -> None:
    file = _file(tmp_path, text)
    with pytest.raises(SettingsError) as raised:
        read_destinations(file)
    sentence = str(raised.value)
    assert sentence.startswith(f"TIDEGATE_DESTINATIONS_FILE: {file}")
    assert said in sentence
    assert "hush-hush" not in sentence
    with pytest.raises(SettingsError, match="The worker cannot start with these settings: TIDEGATE_DEST"):
        load_settings(destinations_file=file)


def test_a_file_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"missing\.toml cannot be read: No such file"):
        read_destinations(tmp_path / "missing.toml")


def test_a_secret_of_an_entry_needs_no_places() -> None:
    entry = ClusterEntry(
        ("a:1",), security_protocol="SASL_SSL", sasl_username="me", sasl_password="secret://there"
    )
    store = SecretStore(environment={"TIDEGATE_SECRET_THERE": "hush"})
    assert entry.login(store)["sasl_password"] == "hush"


def test_feed_create_refuses_a_sink_that_no_entry_names(tmp_path: Path) -> None:
    file = _file(tmp_path, '[clusters.there]\nservers = ["there:9092"]\nfeeds = ["some"]')
    result = run("feed", "create", _STATEMENT, *NOBODY, TIDEGATE_DESTINATIONS_FILE=str(file))
    assert result.exit_code == 1
    assert "servers = ['elsewhere:9092']" in result.stderr
    named = _STATEMENT.replace("elsewhere", "there")
    result = run("feed", "create", named, *NOBODY, TIDEGATE_DESTINATIONS_FILE=str(file))
    assert "gave no answer" in result.stderr, "an entry may be told to admit the feed once it has an id"


@given(pattern=st.text("ab-.*", max_size=8), text=st.text("ab-.", max_size=10))
@examples(500)
def test_a_pattern_fits_what_an_expression_of_it_matches(pattern: str, text: str) -> None:
    expression = "[A-Za-z0-9_-]*".join(map(re.escape, pattern.split("*")))
    assert fits(pattern, text) == (re.fullmatch(expression, text) is not None)
