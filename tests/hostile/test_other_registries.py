"""A schema registry that the operator has not named is sent nothing: a listener there hears nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from schemas.schema_ids import RegistrySchemaIds
from tests.fake_broker import FakeBroker
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.registry_server import RegistryServer
from tests.unit.cli.running import NOBODY, run
from tidegate.access.destinations import NOWHERE_ELSE, Destinations, RegistryEntry
from tidegate.access.destinations_file import read_destinations
from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.client.feed_topics import FeedTopics, check_registry
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import RegistryAway, RegistryNotAllowed
from tidegate.processor.reference import content_id
from tidegate.registry.known_registries import SchemaRegistries
from tidegate.spark.changefeed.query_sinks import QuerySinks
from tidegate.spark.changefeed.task.registry_ids import schema_ids
from tidegate.worker.process.settings import Settings

_SCHEMA: Final = SubjectSchema("shop-value", '"string"')
_FRAME: Final = b"\x00\x00\x00\x00\x01"


@pytest.fixture
def stranger() -> Iterator[FakeBroker]:
    """Give a listener. It speaks another protocol, but what is looked at is whether anybody connects."""
    with FakeBroker() as listener:
        yield listener


def _url(stranger: FakeBroker) -> str:
    return f"http://me:hush-hush@{stranger.address}"


def _feed(url: str) -> Activate:
    options = FeedOptions(format=Format.AVRO, confluent_schema_registry=url)
    return activation([HandTable.of(104, "plain").descriptor], options=options)


def _topics(url: str) -> FeedTopics:
    feed = _feed(url)
    return FeedTopics(feed.definition.options, feed.start, feed.targets)


def _allowed(url: str) -> Destinations:
    return Destinations(registries=(("there", RegistryEntry((url,))),))


def _worker_begins_a_feed(url: str) -> None:
    with closing(RegistrySchemaIds(allowed=Settings().destinations)) as ids:
        asyncio.run(ids.try_ids(url, _feed(url).feed_id, []))


def _worker_writes_rows(url: str) -> None:
    with closing(SchemaRegistries(Settings().destinations)) as registries:
        registries.of(url).id_of(_SCHEMA)


def _query_begins_a_feed(url: str) -> None:
    with closing(SchemaRegistries(QuerySinks(KafkaConnection(), 1.0).destinations)) as registries:
        registries.of(url).check()


def _query_writes_rows(url: str) -> None:
    schema_ids(KafkaConnection().destinations, url, [_SCHEMA])


def _commands_read_rows(url: str) -> None:
    _topics(url).decoder(NOWHERE_ELSE).decode(None, _FRAME)


def _verify_expects_rows(url: str) -> None:
    _topics(url).schema_ids(NOWHERE_ELSE)(_SCHEMA)


_USES: Final = [
    _worker_begins_a_feed,
    _worker_writes_rows,
    _query_begins_a_feed,
    _query_writes_rows,
    _commands_read_rows,
    _verify_expects_rows,
]


@pytest.mark.parametrize("use", _USES)
def test_a_registry_that_no_entry_names_is_not_connected_to(
    use: Callable[[str], None], stranger: FakeBroker
) -> None:
    with pytest.raises(RegistryNotAllowed) as raised:
        use(_url(stranger))
    assert f"[registries.NAME] with urls = ['http://{stranger.address}']" in str(raised.value)
    assert "hush-hush" not in str(raised.value)
    assert stranger.connections == 0


def test_the_listener_hears_who_is_sent_to_it(stranger: FakeBroker, tmp_path: Path) -> None:
    """Else it would prove nothing that it hears nobody."""
    file = tmp_path / "destinations.toml"
    file.write_text(f'[registries.there]\nurls = ["http://{stranger.address}"]')
    with closing(SchemaRegistries(read_destinations(file))) as registries, pytest.raises(RegistryAway):
        registries.of(f"{_url(stranger)}?timeout=1s").check()
    assert stranger.connections == 1


@pytest.mark.parametrize(
    ("pattern", "url", "fits"),
    [
        ("http://registry.example:8081", "http://registry.example:8081", True),
        ("http://registry.example:8081", "http://me:pw@REGISTRY.example:8081/?timeout=1s", True),
        ("http://registry.example:8081", "https://registry.example:8081", False),
        ("http://registry.example:8081", "http://registry.example:8082", False),
        ("http://registry.example:8081", "http://registry.example:8081/other", False),
        ("http://registry.example:8081", "http://registry.example.evil:8081", False),
        ("http://registry.example", "http://registry.example:80", True),
        ("https://registry.example/", "https://registry.example:443", True),
        ("https://gateway.example/registry/v1", "https://gateway.example/registry/v1/", True),
        ("https://gateway.example/registry", "https://gateway.example/registry/../admin", False),
        ("https://gateway.example/registry", "https://gateway.example/registry/%2e%2e/admin", False),
        ("https://gateway.example/registry", "https://gateway.example//registry", False),
        ("https://*.example:*", "https://one.example:8443", True),
        ("https://*.example:*", "https://one.two.example:8443", False),
        ("https://*.example:*", "https://evil:1/x.example:8443", False),
        ("https://*.example:*", "https://evil%2f.example:8443", False),
        ("https://*.example:*", "https://évil.example:8443", False),
        ("http://[::1]:8081", "http://[::1]:8081", True),
        ("http://127.0.0.1:8081", "http://2130706433:8081", False),
        ("http://127.0.0.1:8081", "http://localhost:8081", False),
    ],
)
def test_an_entry_names_a_registry_where_one_of_its_patterns_fits_the_whole_url(
    pattern: str, url: str, fits: bool, tmp_path: Path
) -> None:
    file = tmp_path / "destinations.toml"
    file.write_text(f'[registries.there]\nurls = ["http://somewhere:1", "{pattern}"]')
    options = _feed(url).definition.options
    if fits:
        check_registry(options, read_destinations(file))
    else:
        with pytest.raises(RegistryNotAllowed):
            check_registry(options, read_destinations(file))


def test_an_allowed_registry_sends_nobody_elsewhere(stranger: FakeBroker) -> None:
    """A redirect is an answer that no registry gives."""

    class Redirects(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"http://{stranger.address}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Redirects) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_port}"
        with closing(SchemaRegistries(_allowed(f"http://{place}"))) as registries:
            registry = registries.of(f"http://me:hush-hush@{place}")
            for ask in (registry.check, lambda: registry.id_of(_SCHEMA)):
                with pytest.raises(RegistryAway, match=r"is no schema registry \(307"):
                    ask()
        server.shutdown()
    assert stranger.connections == 0


def test_a_registry_that_is_allowed_is_asked() -> None:
    with RegistryServer() as server, closing(SchemaRegistries(_allowed(server.url))) as registries:
        assert registries.of(server.url).id_of(_SCHEMA) == content_id(_SCHEMA)


def test_feed_create_refuses_a_registry_that_no_entry_names(stranger: FakeBroker, tmp_path: Path) -> None:
    file = tmp_path / "destinations.toml"
    file.write_text('[registries.there]\nurls = ["https://registry.example"]')
    statement = (
        "CREATE CHANGEFEED FOR TABLE flights INTO 'kafka://127.0.0.1:1' WITH format='avro', "
        f"confluent_schema_registry='http://{stranger.address}'"
    )
    result = run("feed", "create", statement, *NOBODY, TIDEGATE_DESTINATIONS_FILE=str(file))
    assert result.exit_code == 1
    assert "no feed may use the schema registry" in result.stderr
    assert stranger.connections == 0
