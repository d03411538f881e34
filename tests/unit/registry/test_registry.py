"""Schemas read back by their ids."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tests.destinations import DESTINATIONS
from tests.registry_server import Mood, RegistryServer
from tests.unit.registry.certificates import Authority, parameter
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.errors import InputError, MalformedRecord, RegistryAway, RegistryDenied, StatementError
from tidegate.registry import registry
from tidegate.registry.registry import SchemaReader
from tidegate.registry.schema_registration import SchemaRegistrar

SCHEMA = SubjectSchema("a-value", '{"type": "string"}')
OTHER = SubjectSchema("a-value", '{"type": "bytes"}')


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as running:
        yield running


@pytest.fixture
def schema_id(server: RegistryServer) -> int:
    return SchemaRegistrar(parse_registry_uri(server.url), DESTINATIONS).id_of(SCHEMA)


def reader(url: str) -> SchemaReader:
    return SchemaReader(parse_registry_uri(url), DESTINATIONS)


def test_a_schema_is_read_as_it_was_registered_and_asked_for_once(
    server: RegistryServer, schema_id: int
) -> None:
    schemas = reader(server.url)
    assert [schemas.schema_text(schema_id) for _ in range(3)] == [SCHEMA.text] * 3
    assert [call.method for call in server.calls].count("GET") == 1


def test_a_schema_that_the_registry_does_not_have_makes_the_record_unreadable(
    server: RegistryServer,
) -> None:
    with pytest.raises(MalformedRecord, match=r"127\.0\.0\.1:[0-9]+ has no schema 77"):
        reader(server.url).schema_text(77)


def test_a_404_of_something_else_is_no_missing_schema(server: RegistryServer, schema_id: int) -> None:
    with pytest.raises(RegistryAway, match="Check the URL, its path too"):
        reader(f"{server.url}/apis").schema_text(schema_id)


@pytest.mark.parametrize(
    ("mood", "error"),
    [
        (Mood.FAILS, RegistryAway),
        (Mood.HTML, RegistryAway),
        (Mood.OTHER_JSON, RegistryAway),
        (Mood.TEXT_AS_ID, RegistryAway),
        (Mood.NOTHING, RegistryAway),
        (Mood.BYTE_BY_BYTE, RegistryAway),
        (Mood.REFUSES_LOGIN, RegistryDenied),
        (Mood.FORBIDS, RegistryDenied),
    ],
)
def test_a_registry_that_cannot_be_asked_is_an_error_that_passes(
    mood: Mood, error: type[Exception], server: RegistryServer, schema_id: int
) -> None:
    hurried = mood in (Mood.NOTHING, Mood.BYTE_BY_BYTE)
    schemas = reader(f"{server.url}?timeout=200ms" if hurried else server.url)
    server.mood = mood
    with pytest.raises(error, match="records with that schema cannot be read"):
        schemas.schema_text(schema_id)


def test_a_registry_that_has_answered_may_be_away_for_a_moment(
    server: RegistryServer, schema_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_PAUSE_S", 0.01)
    other = SchemaRegistrar(parse_registry_uri(server.url), DESTINATIONS).id_of(OTHER)
    schemas = reader(server.url)
    schemas.schema_text(schema_id)
    server.mood, asked = Mood.FAILS, len(server.calls)
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(schemas.schema_text, other)
        while len(server.calls) < asked + 2:
            assert not reading.done()
        server.mood = Mood.WELL
        assert reading.result(20) == OTHER.text
    server.mood = Mood.FAILS
    assert schemas.schema_text(schema_id) == SCHEMA.text  # it is known


def test_a_registry_that_stays_away_is_not_waited_for_without_end(
    server: RegistryServer, schema_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_PAUSE_S", 0.01)
    schemas = reader(server.url)
    schemas.schema_text(schema_id)
    server.mood, asked = Mood.FAILS, len(server.calls)
    # Time passes by calls: by the third one a minute is over.
    monkeypatch.setattr(
        registry, "time", SimpleNamespace(sleep=time.sleep, monotonic=_Minutes(server, asked))
    )
    with pytest.raises(RegistryAway, match="records with that schema cannot be read"):
        schemas.schema_text(schema_id + 1)
    assert len(server.calls) == asked + 3, "it was waited for"


class _Minutes:
    """A clock that goes on by half of what is waited for with each call of a registry."""

    def __init__(self, server: RegistryServer, asked: int) -> None:
        self._server = server
        self._asked = asked

    def __call__(self) -> float:
        return (len(self._server.calls) - self._asked) * registry.AWAY_S / 2.5


def test_the_id_of_a_schema_is_found_without_registering_it(server: RegistryServer, schema_id: int) -> None:
    schemas = reader(server.url)
    assert [schemas.id_of(SCHEMA) for _ in range(3)] == [schema_id] * 3
    assert len(server.registrations) == 1
    assert len(server.calls) == 2


def test_a_schema_that_was_not_registered_has_no_id(server: RegistryServer, schema_id: int) -> None:
    for unknown in (SubjectSchema("other-value", SCHEMA.text), SubjectSchema(SCHEMA.subject, '"int"')):
        with pytest.raises(InputError, match=f"does not have .* under the subject {unknown.subject}"):
            reader(server.url).id_of(unknown)
    server.mood = Mood.HTML
    with pytest.raises(RegistryAway, match="cannot be expected"):
        reader(server.url).id_of(SCHEMA)


def test_a_password_never_shows(server: RegistryServer, schema_id: int) -> None:
    server.mood = Mood.FORBIDS
    schemas = reader(server.url.replace("://", "://me:hush@"))
    with pytest.raises(RegistryDenied) as caught:
        schemas.schema_text(schema_id)
    assert "me:redacted@127.0.0.1" in str(caught.value)
    assert "hush" not in f"{caught.value!r} {schemas!r}"


def test_certificates_that_cannot_be_used_are_refused_before_anything_is_read() -> None:
    authority = Authority()
    pair, other = authority.pair("a"), authority.pair("b")
    with pytest.raises(StatementError, match="certificate and key of one pair"):
        reader(f"https://127.0.0.1:1?client_cert={parameter(pair.cert)}&client_key={parameter(other.key)}")
