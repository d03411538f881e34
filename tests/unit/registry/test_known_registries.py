"""One registry for each URL that feeds name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.destinations import DESTINATIONS
from tests.registry_server import RegistryServer
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.errors import RegistryAway, StatementError
from tidegate.registry.known_registries import SchemaRegistries

SCHEMA = SubjectSchema("a-value", '"string"')


def test_feeds_that_name_the_same_url_share_a_registry() -> None:
    registries = SchemaRegistries(DESTINATIONS)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(registries.of, ["http://h:1"] * 8))
    assert len(set(map(id, made))) == 1
    assert registries.of("http://h:1") is made[0]
    assert registries.of("http://h:1?timeout=5s") is not made[0]  # it has another time limit


def test_a_url_that_cannot_be_used_is_refused_and_its_secret_goes_nowhere() -> None:
    with pytest.raises(StatementError) as caught:
        SchemaRegistries(DESTINATIONS).of("http://me:hush@h?colour=red")
    assert "hush" not in str(caught.value)


def test_secrets_do_not_show() -> None:
    registries = SchemaRegistries(DESTINATIONS)
    registry = registries.of("http://me:hush@h")
    assert "hush" not in f"{registries!r} {registry!r} {registry}"


def test_closing_closes_all_of_them() -> None:
    with RegistryServer() as server:
        registries = SchemaRegistries(DESTINATIONS)
        registry = registries.of(server.url)
        registry.check()
        registries.close()
        with pytest.raises(RegistryAway):
            registry.id_of(SCHEMA)
