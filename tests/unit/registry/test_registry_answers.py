"""Answers without an end: read no further than any registry's would be."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator

import httpx2
import pytest

from tests.destinations import DESTINATIONS
from tests.registry_server import Mood, RegistryServer
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.errors import RegistryAway
from tidegate.registry.registry_answers import LONGEST_ANSWER_BYTES, bound_answers
from tidegate.registry.schema_registration import SchemaRegistrar

SCHEMA = SubjectSchema("a-value", '{"type": "string"}')
PIECE = b" " * (LONGEST_ANSWER_BYTES // 16)
URL = "http://registry/"


class Pieces(httpx2.SyncByteStream):
    """A body that counts what of it was taken, and knows whether it was let go."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.taken = 0
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(self._count):
            self.taken += 1
            yield PIECE

    def close(self) -> None:
        self.closed = True


class Clock:
    """Goes on by a second each time that it is looked at."""

    def __init__(self) -> None:
        self._now_s = 100.0

    def __call__(self) -> float:
        self._now_s += 1
        return self._now_s


def session(pieces: Pieces, within_s: float = 1e6, status: int = 200) -> httpx2.Client:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, stream=pieces))
    client = httpx2.Client(transport=transport)
    bound_answers(client, within_s, Clock())
    return client


def test_an_answer_of_the_longest_length_is_read() -> None:
    pieces = Pieces(16)
    assert len(session(pieces).get(URL).content) == LONGEST_ANSWER_BYTES
    assert pieces.closed


@pytest.mark.parametrize("status", [200, 500, 301])
def test_a_longer_answer_is_given_up_at_the_piece_that_is_too_much(status: int) -> None:
    pieces = Pieces(1_000)
    with pytest.raises(ValueError, match="its answer is longer than 4 MiB"):
        session(pieces, status=status).get(URL)
    assert (pieces.taken, pieces.closed) == (17, True)


def test_an_answer_that_goes_on_for_too_long_is_given_up_however_fast_its_pieces_come() -> None:
    pieces = Pieces(16)
    with pytest.raises(httpx2.ReadTimeout):
        session(pieces, within_s=5).get(URL)
    assert (pieces.taken, pieces.closed) == (6, True)


def test_an_answer_is_not_unpacked() -> None:
    """A few of its bytes could stand for any number."""
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.headers["Accept-Encoding"])
        packed = gzip.compress(b"[]")
        return httpx2.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx2.ByteStream(packed))

    client = httpx2.Client(transport=httpx2.MockTransport(answer))
    bound_answers(client, 5)
    with pytest.raises(ValueError, match="its answer is compressed"):
        client.get(URL)
    assert asked == ["identity"]


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as running:
        yield running


@pytest.mark.parametrize("status", [200, 409, 500])
def test_what_answers_at_such_length_is_no_registry(status: int, server: RegistryServer) -> None:
    server.reply = (status, {"id": 1, "error_code": 409, "message": "x" * LONGEST_ANSWER_BYTES})
    registry = SchemaRegistrar(parse_registry_uri(server.url), DESTINATIONS)
    with pytest.raises(RegistryAway, match=r"is no schema registry \(its answer is longer than 4 MiB\)"):
        registry.id_of(SCHEMA)
    server.reply = None
    assert registry.id_of(SCHEMA) > 0


def test_a_call_ends_though_its_answer_comes_byte_by_byte_without_an_end(server: RegistryServer) -> None:
    before = set(threading.enumerate())
    server.mood = Mood.BYTE_BY_BYTE
    registry = SchemaRegistrar(parse_registry_uri(f"{server.url}?timeout=200ms"), DESTINATIONS)
    with pytest.raises(RegistryAway, match=r"within 0\.2 s"):
        registry.id_of(SCHEMA)
    calls = [thread for thread in set(threading.enumerate()) - before if thread.name == "registry-call"]
    for thread in calls:
        thread.join(60)
        assert not thread.is_alive()
