"""Registries behind TLS: whom we trust, who we are, and where our key is meanwhile."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.destinations import DESTINATIONS
from tests.registry_server import RegistryServer
from tests.unit.registry.certificates import KEY_PASSWORD, Authority, Pair, parameter
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.errors import RegistryAway, StatementError
from tidegate.registry.registry_connection import require_certificates
from tidegate.registry.schema_registration import SchemaRegistrar


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def client(authority: Authority) -> Pair:
    return authority.pair("client")


def opened(url: str, **pem: bytes) -> SchemaRegistrar:
    query = "&".join(f"{name}={parameter(value)}" for name, value in pem.items())
    return SchemaRegistrar(parse_registry_uri(f"{url}?{query}" if query else url), DESTINATIONS)


def test_a_registry_is_trusted_by_the_authority_that_is_given(authority: Authority, tmp_path: Path) -> None:
    with RegistryServer(tls=authority.server_context(tmp_path)) as server:
        opened(server.url, ca_cert=authority.cert).check()
        for stranger in (opened(server.url), opened(server.url, ca_cert=Authority().cert)):
            with pytest.raises(RegistryAway, match=r"certificate verify failed.*Check .*its certificates"):
                stranger.check()
        assert len(server.calls) == 1  # no request went to a registry that was not trusted


def test_a_registry_without_certificates_needs_no_room_for_temporary_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with RegistryServer() as server:
        opened(server.url).check()


def test_a_registry_is_asked_once_its_certificates_find_room_for_temporary_files(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RegistryServer(tls=authority.server_context(tmp_path)) as server:
        monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
        registrar = opened(server.url, ca_cert=authority.cert)
        with pytest.raises(RegistryAway, match=r"certificates .* make room there.*Meanwhile"):
            registrar.check()
        with pytest.raises(RegistryAway, match="let TMPDIR name another directory"):
            require_certificates(parse_registry_uri(f"{server.url}?ca_cert={parameter(authority.cert)}"))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        registrar.check()


def test_a_registry_knows_us_by_our_certificate(authority: Authority, client: Pair, tmp_path: Path) -> None:
    with RegistryServer(tls=authority.server_context(tmp_path, asks_clients=True)) as server:
        ours = {"ca_cert": authority.cert, "client_cert": client.cert, "client_key": client.key}
        opened(server.url, **ours).check()
        with pytest.raises(RegistryAway):
            opened(server.url, ca_cert=authority.cert).check()


def test_plain_http_is_not_spoken_to_a_registry_with_tls(authority: Authority, tmp_path: Path) -> None:
    with RegistryServer(tls=authority.server_context(tmp_path)) as server, pytest.raises(RegistryAway):
        opened(server.url.replace("https", "http")).check()


def test_certificates_stand_in_files_of_their_owner_alone_and_only_while_they_are_read(
    authority: Authority, client: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Path, int, int, bytes]] = []

    def looked_at(config: dict[str, Any]) -> Any:
        files = [Path(config[f"ssl.{name}.location"]) for name in ("ca", "certificate", "key")]
        seen.extend((file, mode(file), mode(file.parent), file.read_bytes()) for file in files)
        return SchemaRegistryClient(config)

    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)  # where the variable was read to before
    monkeypatch.setattr("tidegate.registry.registry_connection.SchemaRegistryClient", looked_at)
    before = os.umask(0)
    try:
        opened("https://127.0.0.1:1", ca_cert=authority.cert, client_cert=client.cert, client_key=client.key)
    finally:
        os.umask(before)
    assert [content for _, _, _, content in seen] == [authority.cert, client.cert, client.key]
    assert {(own, folder) for _, own, folder, _ in seen} == {(0o600, 0o700)}
    assert all(file.is_relative_to(tmp_path) for file, _, _, _ in seen)
    assert list(tmp_path.iterdir()) == []


def test_certificates_that_cannot_be_used_are_refused_at_once(
    authority: Authority, client: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    locked = authority.pair("locked", encrypted=True)
    for pem in (
        {"ca_cert": broken},
        {"client_cert": broken, "client_key": client.key},
        {"client_cert": client.cert, "client_key": authority.pair("other").key},
        {"client_cert": locked.cert, "client_key": locked.key},  # and nobody is asked for its password
    ):
        with pytest.raises(StatementError, match="of confluent_schema_registry cannot be used") as caught:
            opened("https://127.0.0.1:1", **pem)
        assert "PRIVATE KEY" not in str(caught.value)
        assert str(tmp_path) not in str(caught.value)
        assert KEY_PASSWORD.decode() not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
