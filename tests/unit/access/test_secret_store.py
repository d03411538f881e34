"""The operator's store of secrets, and who gets what of it."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.destinations import DESTINATIONS
from tests.unit.changefeed.feeds import DEFINITION
from tidegate.access.header_secrets import HeaderSecrets
from tidegate.access.secret_store import SecretStore
from tidegate.changefeed.definition.extra_headers import read_extra_headers, redacted_headers
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.changefeed.definition.literal_secrets import literal_secrets, require_references
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.definition.stored_json import STORED_VERSION
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, read_job_record
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.feed_rows import feed_row
from tidegate.client.jobs import Jobs
from tidegate.errors import RegistryDenied, SecretMissing, StatementError
from tidegate.processor.batch import OutputRecord
from tidegate.processor.written_records import starting_at
from tidegate.redaction import redacted
from tidegate.registry.schema_registration import SchemaRegistrar

SECRET = "hunter2-of-the-store"
PLACE = "reg.example:8081"


def in_directory(home: Path) -> SecretStore:
    (home / "shop").write_text(f"{SECRET}\n")
    (home / "shop.for").write_text("Reg.Example:8081\nkafka\n")
    return SecretStore(home, environment={})


def in_file(home: Path) -> SecretStore:
    file = home / "secrets.toml"
    file.write_text(f"[shop]\nvalue = '{SECRET}'\nfor = ['reg.example:8081', 'kafka']\n")
    return SecretStore(None, file, {})


def in_environment(_: Path) -> SecretStore:
    return SecretStore(
        environment={"TIDEGATE_SECRET_SHOP": SECRET, "TIDEGATE_SECRET_SHOP_FOR": "reg.example:8081,kafka"}
    )


FORMS = pytest.mark.parametrize("form", [in_directory, in_file, in_environment])


@FORMS
def test_a_secret_is_given_to_the_places_that_its_operator_names(form: object, tmp_path: Path) -> None:
    store = form(tmp_path)  # type: ignore[operator]
    assert [store.get("shop", place) for place in (PLACE, "kafka:9092")] == [SECRET] * 2
    for place in ("evil.example:8081", "reg.example:80", "reg.example.evil:8081"):
        with pytest.raises(SecretMissing, match="may not be given to") as refused:
            store.get("shop", place)
        assert SECRET not in str(refused.value)


@FORMS
def test_one_that_is_missing_may_come(form: object, tmp_path: Path) -> None:
    store = form(tmp_path)  # type: ignore[operator]
    with pytest.raises(SecretMissing, match="TIDEGATE_SECRET_BANK, as a file bank"):
        store.get("bank", PLACE)


def test_a_variable_that_is_no_utf8_is_a_sentence() -> None:
    """A row's header with it ended each worker."""
    latin = os.fsdecode("grün-wort".encode("latin-1"))
    environment = {"TIDEGATE_SECRET_SHOP": latin, "TIDEGATE_SECRET_SHOP_FOR": "*"}
    store = SecretStore(environment=environment)
    with pytest.raises(SecretMissing, match="TIDEGATE_SECRET_SHOP is no UTF-8") as refused:
        store.get("shop", PLACE)
    assert "wort" not in str(refused.value)
    with pytest.raises(SecretMissing, match="TIDEGATE_SECRET_SHOP is no UTF-8"):
        store.named_by_operator("shop")


def test_a_secret_without_places_goes_nowhere(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text(SECRET)
    with pytest.raises(SecretMissing, match="has not named that place"):
        SecretStore(tmp_path, environment={}).get("shop", PLACE)


def test_a_new_one_is_taken_at_once(tmp_path: Path) -> None:
    store = in_directory(tmp_path)
    assert store.get("shop", PLACE) == SECRET
    (tmp_path / "shop").write_text("changed")
    assert store.get("shop", PLACE) == "changed"


@pytest.mark.parametrize(
    "text", ["[shop\n", "shop = 3\n", "[shop]\nfor = []\n", pytest.param("shop = " + 9_999 * "[", id="deep")]
)
def test_a_file_that_is_none_is_a_sentence_without_its_text(text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(SecretMissing, match=r"write a table \[shop\]"):
        SecretStore(None, tmp_path / "f", {}).get("shop", PLACE)


def test_a_file_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    table = "[shop]\nvalue = 'x'\nfor = ['*']\n"
    comments = 65_536 - len(table)
    (tmp_path / "f").write_text("#" * (comments - 1) + "\n" + table)
    store = SecretStore(None, tmp_path / "f", {})
    assert store.get("shop", PLACE) == "x"
    (tmp_path / "f").write_text("#" * comments + "\n" + table)
    with pytest.raises(SecretMissing, match="more than 65536 bytes"):
        store.get("shop", PLACE)


def test_what_was_used_is_redacted_at_the_boundary(tmp_path: Path) -> None:
    in_directory(tmp_path).get("shop", PLACE)
    assert redacted(f"it said {SECRET}!") == "it said redacted!"
    assert redacted("see http://me:hush@h and ?client_key=hush&x=1") == (
        "see http://me:redacted@h and ?client_key=redacted&x=1"
    )
    assert redacted("https://h?password=secret://shop") == "https://h?password=secret://shop"


@pytest.mark.parametrize("name", ["", "../x", "A", "a/b", ".x", "x" * 65, "a b"])
def test_names_are_no_paths(name: str) -> None:
    with pytest.raises(StatementError, match="the name behind secret://"):
        read_extra_headers(json.dumps({"x": f"secret://{name}"}))
    with pytest.raises(StatementError):
        parse_registry_uri(f"https://me@h?password=secret://{name}")


def defined(clauses: str) -> FeedDefinition:
    return define_feed(
        f"CREATE CHANGEFEED FOR a INTO 'kafka://kafka' WITH {clauses}", FeedId("f"), 1
    ).definition


def avro(url: str) -> str:
    return f"format=avro, confluent_schema_registry='{url}'"


@pytest.mark.parametrize(
    ("clauses", "found"),
    [
        (avro("https://me:hush@reg"), ["confluent_schema_registry"]),
        (avro("https://token@reg"), ["confluent_schema_registry"]),
        (avro("https://me@reg?password=hush"), ["confluent_schema_registry"]),
        ("""extra_headers='{"X-Api-Key": "hush", "team": "blue"}'""", ["header X-Api-Key"]),
        ("""extra_headers='{"Authorization": "hush"}'""", ["header Authorization"]),
        ("""extra_headers='{"team": "blue"}'""", []),
        ("""extra_headers='{"X-Api-Key": "secret://shop"}'""", []),
        (avro("https://me@reg?password=secret://shop"), []),
        (avro("https://me:secret%3A%2F%2Fshop@reg"), []),
        (avro("https://reg"), []),
    ],
)
def test_literal_secrets_are_found_refused_and_shown(clauses: str, found: list[str]) -> None:
    definition = defined(clauses)
    assert literal_secrets(definition) == found
    assert feed_row(definition.id, FeedView(definition))["literal_secrets"] == found
    assert "hush" not in definition.description
    if not found:
        require_references(definition)
        return
    with pytest.raises(
        StatementError, match=r"\?password=secret://NAME .* TIDEGATE_LITERAL_SECRETS=true"
    ) as no:
        require_references(definition)
    assert "hush" not in str(no.value)


def test_a_feed_that_holds_a_secret_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_LITERAL_SECRETS", raising=False)
    jobs = Jobs.__new__(Jobs)  # it is refused before anything is asked of Kafka
    with pytest.raises(StatementError, match="Nothing was created: the statement holds secrets"):
        jobs.create(defined(avro("https://me:hush@reg")))


def test_references_are_shown_and_stored_as_they_are() -> None:
    definition = defined(avro("https://me@reg?password=secret://shop"))
    assert "https://me@reg?password=secret://shop" in definition.description
    assert redacted_headers('{"a": "secret://shop", "b": "c"}') == '{"a": "secret://shop", "b": "redacted"}'
    record = DefinitionRecord(definition)
    assert read_job_record(record.key, record.to_bytes()) == record


def test_only_definitions_that_name_secrets_are_refused_by_older_workers() -> None:
    named = replace(DEFINITION.options, extra_headers='{"x-api-key": "secret://shop"}')
    assert json.loads(DefinitionRecord(replace(DEFINITION, options=named)).to_bytes())["v"] == STORED_VERSION
    assert json.loads(DefinitionRecord(DEFINITION).to_bytes())["v"] == STORED_VERSION - 1


def test_headers_have_their_secrets_when_rows_are_sent(tmp_path: Path) -> None:
    definition = defined("""extra_headers='{"k": "secret://shop", "team": "blue"}'""")
    sent = [("k", b"secret://shop"), ("team", b"blue"), ("row", b"secret://shop")]
    rows = [OutputRecord("a", 0, b"k", b"v", 1, list(sent)) for _ in range(3)]
    filled = HeaderSecrets(definition, in_directory(tmp_path)).into(rows)
    expected = [("k", SECRET.encode()), ("team", b"blue"), ("row", b"secret://shop")]
    assert [row.headers for row in starting_at(filled, 1)] == [expected] * 2
    assert len(filled) == 3
    assert filled[0].headers == expected
    assert [row.headers for row in filled[1:]] == [expected] * 2
    assert rows[2].headers == sent, "spools and state have names"


def test_no_row_is_filled_for_a_sink_that_asks_for_none(tmp_path: Path) -> None:
    """Rows that wait for a sink are offered to it again and again."""

    class Unmade(list[OutputRecord]):
        def __iter__(self) -> Iterator[OutputRecord]:
            raise AssertionError("nobody asked for a row")

    definition = defined("""extra_headers='{"k": "secret://shop"}'""")
    rows = Unmade([OutputRecord("a", 0, b"k", b"v", 1, [("k", b"secret://shop")])] * 3)
    filled = HeaderSecrets(definition, in_directory(tmp_path)).into(rows)
    assert (len(filled), filled[2].topic) == (3, "a")


def test_headers_name_no_secrets_for_another_sink(tmp_path: Path) -> None:
    definition = replace(
        defined("""extra_headers='{"k": "secret://shop"}'"""), sink_uri="kafka://kafka:9092,evil:9092"
    )
    with pytest.raises(SecretMissing, match="may not be given to evil:9092"):
        HeaderSecrets(definition, in_directory(tmp_path)).into([OutputRecord("a", 0, b"k", None, 1, [])])


class _Asks(BaseHTTPRequestHandler):
    """A registry that lets in whoever has the password of the moment."""

    password = SECRET
    seen: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        given = self.headers.get("Authorization", "")
        self.seen.append(given)
        expected = base64.b64encode(f"me:{self.password}".encode()).decode()
        good = given == f"Basic {expected}"
        body = b'{"id": 7}' if good else b'{"error_code": 401, "message": "no"}'
        self.send_response(200 if good else 401)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def asking() -> Iterator[tuple[int, type[_Asks]]]:
    class Fresh(_Asks):
        seen: list[str] = []  # noqa: RUF012 - one of each test

    with ThreadingHTTPServer(("127.0.0.1", 0), Fresh) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], Fresh
        server.shutdown()


def test_a_registry_is_given_the_secret_at_the_moment_of_use(
    asking: tuple[int, type[_Asks]], tmp_path: Path
) -> None:
    port, handler = asking
    uri = parse_registry_uri(f"http://me@127.0.0.1:{port}?password=secret://shop")
    registry = SchemaRegistrar(uri, DESTINATIONS, SecretStore(tmp_path, environment={}))
    schema = SubjectSchema("a-value", '{"type": "string"}')
    with pytest.raises(RegistryDenied, match="The secret shop"):
        registry.id_of(schema)
    (tmp_path / "shop").write_text("an old one")
    with pytest.raises(RegistryDenied, match="may not be given to"):
        registry.id_of(schema)
    assert handler.seen == [], "nobody was asked without leave"
    (tmp_path / "shop.for").write_text("127.0.0.1")
    with pytest.raises(RegistryDenied, match="does not permit"):
        registry.id_of(schema)
    (tmp_path / "shop").write_text(SECRET)
    assert registry.id_of(schema) == 7
    assert SECRET not in f"{registry!r} {uri!r} {uri.redacted()}"
    registry.close()
