"""One registry for each URL and login that feeds name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.destinations import DESTINATIONS
from tests.registry_server import RegistryServer
from tidegate.access.destinations import NOWHERE_ELSE
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.errors import RegistryAway, RegistryNotAllowed, StatementError
from tidegate.registry.known_registries import SchemaRegistries

SCHEMA = SubjectSchema("a-value", '"string"')


def test_feeds_that_name_the_same_url_share_a_registry() -> None:
    registries = SchemaRegistries(DESTINATIONS)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(registries.of, ["http://localhost:1"] * 8))
    assert len(set(map(id, made))) == 1
    assert registries.of("http://localhost:1") is made[0]
    assert registries.of("http://localhost:1?timeout=5s") is not made[0]  # it has another time limit


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://localhost:80", "http://localhost"),
        ("http://localhost:1/", "http://localhost:1"),
        ("http://u:p@localhost:1", "http://%75:%70@localhost:1"),
        ("http://u:p@localhost:1", "http://u@localhost:1?password=p"),
        ("http://localhost:1?timeout=30s", "http://localhost:1"),
    ],
)
def test_a_registry_is_one_however_its_url_is_written(one: str, other: str) -> None:
    registries = SchemaRegistries(DESTINATIONS)
    assert registries.of(one) is registries.of(other)


def test_feeds_with_other_logins_share_nothing() -> None:
    registries = SchemaRegistries(DESTINATIONS)
    logins = ("", "a:p@", "b:p@", "a:q@", "a@")
    assert len({id(registries.of(f"http://{login}localhost:1")) for login in logins}) == len(logins)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs of the clients that were opened."""
    found: list[str] = []
    client = SchemaRegistryClient

    def noted(config: dict[str, Any]) -> Any:
        found.append(config["url"])
        return client(config)

    monkeypatch.setattr("tidegate.registry.registry_connection.SchemaRegistryClient", noted)
    return found


def test_a_registry_that_no_entry_allows_opens_nothing_and_is_not_kept(opened: list[str]) -> None:
    registries = SchemaRegistries(NOWHERE_ELSE)
    registry = registries.of("https://me:hush@h:1")
    with pytest.raises(RegistryNotAllowed):
        registry.id_of(SCHEMA)
    assert (opened, registries.take_unused(())) == ([], [])


def test_registries_that_no_url_names_are_given_away_and_opened_anew_when_a_feed_comes_back(
    opened: list[str],
) -> None:
    with RegistryServer() as server:
        registries = SchemaRegistries(DESTINATIONS)
        used, unused = (registries.of(f"http://{name}@{server.url[7:]}") for name in ("a:b", "c:d"))
        (given,) = registries.take_unused([f"http://%61:b@{server.url[7:]}", "no URL"])
        assert given is unused
        given.close()
        used.check()
        again = registries.of(f"http://c:d@{server.url[7:]}")
        assert again is not unused
        again.check()
        assert len(opened) == 3
        registries.close()


def test_of_more_registries_than_are_kept_the_one_that_was_used_longest_ago_is_closed() -> None:
    with RegistryServer() as server:
        registries = SchemaRegistries(DESTINATIONS, most=2)
        first, second = (registries.of(f"http://{name}@{server.url[7:]}") for name in ("a:b", "c:d"))
        assert registries.of(f"http://a:b@{server.url[7:]}") is first
        registries.of(server.url)
        first.check()
        with pytest.raises(RegistryAway):
            second.check()
        registries.close()


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
