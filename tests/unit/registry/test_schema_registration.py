"""Ids from a registry, and what happens when it is none, away, or unwilling."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.destinations import DESTINATIONS
from tests.registry_server import Mood, RegistryServer
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.encoding.confluent import MAX_SCHEMA_ID, NewSubjects, SubjectSchema
from tidegate.errors import FeedError, RegistryAway, RegistryDenied, SchemaRejected, TidegateError
from tidegate.processor.reference import content_id
from tidegate.registry.schema_registration import SchemaRegistrar

ROW = SubjectSchema("orders-value", '{"type":"record","name":"orders","fields":[]}')
MARKER = SubjectSchema("orders-value", '{"type":"record","name":"orders_envelope","fields":[]}')
OTHER_SUBJECT = SubjectSchema("items-value", ROW.text)


def opened(url: str) -> SchemaRegistrar:
    return SchemaRegistrar(parse_registry_uri(url), DESTINATIONS)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as running:
        yield running


@pytest.fixture
def registry(server: RegistryServer) -> Iterator[SchemaRegistrar]:
    made = opened(server.url)
    yield made
    made.close()


def test_a_schema_is_registered_as_it_is_under_its_subject(
    server: RegistryServer, registry: SchemaRegistrar
) -> None:
    assert registry.id_of(ROW) == content_id(ROW)
    assert server.schemas("orders-value") == [ROW.text]


def test_a_schema_costs_one_call_however_often_it_is_needed(
    server: RegistryServer, registry: SchemaRegistrar
) -> None:
    assert registry.known(ROW) is None
    for _ in range(3):
        assert registry.id_of(ROW) == registry.known(ROW)
    registry.id_of(MARKER)
    assert server.registrations == ["orders-value", "orders-value"]
    assert registry.calls == 2


def test_one_schema_under_two_subjects_is_registered_under_both(
    server: RegistryServer, registry: SchemaRegistrar
) -> None:
    registry.id_of(ROW)
    registry.id_of(OTHER_SUBJECT)
    assert server.registrations == ["orders-value", "items-value"]


def test_threads_that_need_the_same_schema_make_one_call(
    server: RegistryServer, registry: SchemaRegistrar
) -> None:
    server.gate.clear()
    with ThreadPoolExecutor(8) as pool:
        wanted = [pool.submit(registry.id_of, ROW) for _ in range(8)]
        server.wait_for_calls(1)
        server.gate.set()
    assert {each.result() for each in wanted} == {content_id(ROW)}
    assert server.registrations == ["orders-value"]


def test_ids_that_were_forgotten_are_asked_for_again(registry: SchemaRegistrar) -> None:
    registry._ids._keep = 1
    registry.id_of(ROW)
    registry.id_of(MARKER)
    assert registry.known(ROW) is None
    assert registry.id_of(ROW) == content_id(ROW)
    assert registry.calls == 3


def test_the_client_keeps_nothing_of_its_own(server: RegistryServer, registry: SchemaRegistrar) -> None:
    """Its cache has no bound."""
    registry.id_of(ROW)
    client = registry._connection._client
    assert not client._cache.schema_index
    assert not client._cache.schema_id_index


@pytest.mark.parametrize("subject", ["a/b", "ä b", "a?b#c", "a%2Fb"])
def test_a_subject_is_no_part_of_the_path(
    subject: str, server: RegistryServer, registry: SchemaRegistrar
) -> None:
    registry.id_of(SubjectSchema(subject, ROW.text))
    assert server.registrations == [subject]


NOBODY = "nothing there"
AWAY = {
    NOBODY: "does not answer the registration of a schema under the subject orders-value",
    Mood.FAILS: "cannot answer the registration of a schema under the subject orders-value "
    "(500: Error in the backend data store)",
    Mood.BUSY: "(429: Slow down)",
    Mood.NOTHING: "did not answer the registration of a schema under the subject orders-value within 0.2 s",
    Mood.BYTE_BY_BYTE: "within 0.2 s",
    Mood.HTML: "is no schema registry",
    Mood.OTHER_JSON: "is no schema registry",
    Mood.TEXT_AS_ID: "is no schema registry ('seven' is no schema id)",
    Mood.CONFLICT_OF_A_PROXY: "is no schema registry (409: b'<html>",
}


@pytest.mark.parametrize("mood", AWAY)
def test_a_registry_that_is_away_is_asked_again_by_the_next_call(mood: Any, server: RegistryServer) -> None:
    hurried = mood in (Mood.NOTHING, Mood.BYTE_BY_BYTE)
    registry = opened(f"{server.url}{'?timeout=200ms' if hurried else ''}")
    if mood is NOBODY:
        registry = opened(f"http://127.0.0.1:{free_port()}")
    else:
        server.mood = mood
    with pytest.raises(RegistryAway) as caught:
        registry.id_of(ROW)
    text = str(caught.value)
    assert AWAY[mood] in text
    assert "no record that needs the schema is written until it has its id" in text
    assert "http://127.0.0.1:" in text
    assert "Check" in text or "Look into" in text
    if mood is not NOBODY:
        server.mood = Mood.WELL
        assert eventually_id(registry) == content_id(ROW)


def eventually_id(registry: SchemaRegistrar) -> int:
    """The id, after what an open call still waits for has come to its end."""
    end = time.monotonic() + 30
    while True:
        try:
            return registry.id_of(ROW)
        except RegistryAway:
            assert time.monotonic() < end


def test_nobody_waits_longer_than_the_timeout_for_an_answer_that_never_ends(server: RegistryServer) -> None:
    """Each byte comes in time, so that no time limit of the socket ends the call."""
    server.mood = Mood.BYTE_BY_BYTE
    registry = opened(f"{server.url}?timeout=300ms")
    begin = time.monotonic()
    with pytest.raises(RegistryAway):
        registry.id_of(ROW)
    with pytest.raises(RegistryAway):
        registry.check()
    assert time.monotonic() - begin < 60


def test_one_call_is_one_request(server: RegistryServer) -> None:
    """The client's own retries are off: nobody would see them."""
    server.mood = Mood.FAILS
    registry = opened(server.url)
    with pytest.raises(RegistryAway):
        registry.id_of(ROW)
    assert len(server.calls) == registry.calls == 1


@pytest.mark.parametrize(
    "reply",
    [
        (200, {}),
        (200, {"id": None}),
        (200, {"id": True}),
        (200, {"id": 1.5}),
        (200, {"id": -1}),
        (200, {"id": MAX_SCHEMA_ID + 1}),
        (200, 7),
        (200, "null"),
        (200, "not JSON"),
        (200, ""),
        (200, "[" * 100_000),
        (204, ""),
        (301, ""),
        (404, ""),
        (409, {"detail": "words of something else"}),
        (422, []),
        (503, "<html>"),
    ],
)
def test_an_answer_that_no_registry_gives_means_that_it_is_away(
    reply: tuple[int, Any], server: RegistryServer, registry: SchemaRegistrar
) -> None:
    server.reply = reply
    with pytest.raises(RegistryAway):
        registry.id_of(ROW)
    with pytest.raises(RegistryAway):
        registry.check()
    assert registry.known(ROW) is None


def test_a_wrong_path_is_told_with_a_hint(server: RegistryServer) -> None:
    with pytest.raises(RegistryAway, match=r"\(404: .*Check the URL, its path too"):
        opened(f"{server.url}/apis").id_of(ROW)


@pytest.mark.parametrize("mood", [Mood.REFUSES_LOGIN, Mood.FORBIDS, Mood.READ_ONLY])
def test_a_registry_that_lets_us_not_in_is_asked_again(
    mood: Mood, server: RegistryServer, registry: SchemaRegistrar
) -> None:
    server.mood = mood
    with pytest.raises(RegistryDenied) as caught:
        registry.id_of(ROW)
    assert "does not permit the registration of a schema under the subject orders-value" in str(caught.value)
    server.mood = Mood.WELL
    assert registry.id_of(ROW) == content_id(ROW)


def test_a_schema_that_is_rejected_fails_the_feed_in_the_registrys_words(
    server: RegistryServer, registry: SchemaRegistrar
) -> None:
    server.mood = Mood.REJECTS
    with pytest.raises(SchemaRejected) as caught:
        registry.id_of(ROW)
    assert "under the subject orders-value (409: Schema being registered is incompatible)" in str(
        caught.value
    )
    server.mood = Mood.WELL
    with pytest.raises(SchemaRejected, match=r"\(422: Invalid schema\)"):
        registry.id_of(SubjectSchema("s", "not a schema"))


def test_long_words_of_many_lines_are_told_in_one_short_line(
    server: RegistryServer, registry: SchemaRegistrar
) -> None:
    server.reply = (409, {"error_code": 409, "message": "first\n\tsecond\x1b[31m " + "x" * 10_000})
    with pytest.raises(SchemaRejected) as caught:
        registry.id_of(ROW)
    assert "(409: first second [31m xxx" in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_check_tells_a_registry_that_lets_us_in(server: RegistryServer, registry: SchemaRegistrar) -> None:
    registry.check()
    for mood, error in (
        (Mood.FAILS, RegistryAway),
        (Mood.HTML, RegistryAway),
        (Mood.FORBIDS, RegistryDenied),
    ):
        server.mood = mood
        with pytest.raises(error, match="feeds that use it wait"):
            registry.check()
    server.mood = Mood.WELL
    registry.check()
    assert registry.calls == 0


def test_a_closed_registry_knows_what_it_knew_and_asks_no_more(
    server: RegistryServer, registry: SchemaRegistrar
) -> None:
    registry.id_of(ROW)
    registry.close()
    assert registry.id_of(ROW) == content_id(ROW)
    with pytest.raises(RegistryAway):
        registry.id_of(MARKER)


PASSWORD = "hu:sh/@ü"
IN_URL = "hu%3Ash%2F%40%C3%BC"


def test_the_login_is_the_urls(server: RegistryServer) -> None:
    with RegistryServer(login=("me", PASSWORD)) as locked:
        named = locked.url.replace("://", f"://me:{IN_URL}@")
        assert opened(named).id_of(ROW) == content_id(ROW)
        for url in (locked.url, named.replace("hu", "hi"), locked.url.replace("://", "://me@")):
            with pytest.raises(RegistryDenied):
                opened(url).check()


@pytest.mark.parametrize("mood", Mood)
def test_a_password_never_shows(mood: Mood, server: RegistryServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with RegistryServer(login=("other", "one")) as locked:  # and it says in its words what it was given
        locked.mood = mood
        url = locked.url.replace("://", f"://me:{IN_URL}@")
        registry = opened(f"{url}?timeout=200ms")
        with pytest.raises(TidegateError) as caught:
            registry.id_of(ROW)
        with pytest.raises(TidegateError):
            registry.check()
    said = [repr(registry), repr(registry._connection), caplog.text, *texts(caught.value)]
    shown = json.dumps(said, ensure_ascii=False)
    assert "127.0.0.1" in shown
    for secret in (PASSWORD, IN_URL, "bWU6aHU6c2gvQMO8"):
        assert secret not in shown


def texts(error: BaseException | None) -> Iterator[str]:
    """The words of an error and of all that it came from."""
    while error is not None:
        yield f"{error} {error!r} {error.args!r}"
        error = error.__cause__ or error.__context__


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def test_a_subject_is_new_while_nobody_has_registered_a_schema_there(
    server: RegistryServer, registry: SchemaRegistrar
) -> None:
    subjects = NewSubjects(("orders-key", "orders-value"))
    registry.require_new(subjects)
    registry.id_of(OTHER_SUBJECT)
    registry.require_new(subjects)
    registry.id_of(ROW)
    sentence = (
        f"the schema registry at {server.url} has the subject orders-value already, and no feed of this"
    )
    with pytest.raises(
        FeedError, match=f"{sentence} .* another avro_schema_prefix, .* existing_topics='use'"
    ):
        registry.require_new(subjects)
    assert server.registrations == ["items-value", "orders-value"], "a question registers nothing"


def test_what_an_attempt_to_begin_has_left_there_is_our_own(registry: SchemaRegistrar) -> None:
    registry.id_of(MARKER)
    registry.require_new(NewSubjects(("orders-value",), (OTHER_SUBJECT, MARKER)))
    with pytest.raises(FeedError, match="has the subject orders-value already"):
        registry.require_new(NewSubjects(("orders-value",), (ROW,)))
    registry.id_of(ROW)
    with pytest.raises(FeedError, match="has the subject orders-value already"):
        registry.require_new(NewSubjects(("orders-value",), (MARKER,)))


@pytest.mark.parametrize(
    ("mood", "raised"),
    [
        (Mood.FAILS, RegistryAway),
        (Mood.HTML, RegistryAway),
        (Mood.TEXT_AS_ID, RegistryAway),
        (Mood.FORBIDS, RegistryDenied),
    ],
)
def test_a_registry_that_does_not_tell_its_subjects_admits_no_feed(
    server: RegistryServer, registry: SchemaRegistrar, mood: Mood, raised: type[Exception]
) -> None:
    server.mood = mood
    with pytest.raises(raised, match="the question for the subject orders-key"):
        registry.require_new(NewSubjects(("orders-key",)))
