"""Statements are parsed while the event loop goes on, a few at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlencode

import pytest

from tests.unit.serve.memory_subscriptions import MemorySubscriptions, until
from tests.unit.serve.postgres.served import run, serving
from tests.unit.serve.web.served_web import serving_web
from tidegate.errors import RetryError, SubscribeStatementError
from tidegate.serve import statement_threads
from tidegate.serve.statement_threads import StatementThreads
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.statement import SubscribeStatement

SHORT = "SUBSCRIBE accounts"
LONG = f"SUBSCRIBE accounts {' ' * 5_000}"


class HeldParser:
    """Parses short statements at once, and long ones when a test lets it.

    Attributes:
        begun: how many long statements it has begun.
    """

    def __init__(self) -> None:
        self.begun = 0
        self._let = threading.Event()

    def __call__(self, text: str) -> SubscribeStatement:
        if len(text) > len(SHORT):
            self.begun += 1
            self._let.wait()
        return parse_subscribe(text)

    def let(self) -> None:
        self._let.set()


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldParser]:
    held = HeldParser()
    monkeypatch.setattr(statement_threads, "parse_subscribe", held)
    yield held
    held.let()


def bank() -> MemorySubscriptions:
    source = MemorySubscriptions()
    source.commit(5, (1, 7, "a"))
    return source


def test_a_long_statement_over_http_holds_back_no_other_client(parser: HeldParser) -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            asking = asyncio.ensure_future(served.subscribe(LONG))
            await until(lambda: parser.begun == 1, "it is parsed")
            assert (await served.get("/health")).status == 200
            other = await served.subscribe(SHORT)
            assert other.status == 200
            assert not asking.done()
            parser.let()
            answer = await asking
            assert answer.status == 200
            for each in (other, answer):
                each.close()

    run(test)


def test_a_long_statement_of_postgresql_holds_back_no_other_client(parser: HeldParser) -> None:
    async def test() -> None:
        async with serving(bank()) as served:
            held, other = await served.raw(), await served.raw()
            await held.login()
            await other.login()
            await held.query(LONG + " WITH (SNAPSHOT)")
            await until(lambda: parser.begun == 1, "it is parsed")
            await other.query(SHORT)
            assert (await other.until(b"D"))[-1][0] == b"D"
            parser.let()
            assert (await held.until(b"D"))[-1][0] == b"D"
            held.close()
            other.close()

    run(test)


def test_one_long_statement_is_parsed_at_a_time_and_none_whose_client_is_gone(parser: HeldParser) -> None:
    async def test() -> None:
        threads = StatementThreads()
        first, gone, last = [asyncio.ensure_future(threads.parse(LONG)) for _ in range(3)]
        await until(lambda: parser.begun == 1, "the first is parsed")
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone
        assert await threads.parse(SHORT) == parse_subscribe(SHORT)
        assert parser.begun == 1
        parser.let()
        assert await first == await last == parse_subscribe(SHORT)
        assert parser.begun == 2
        threads.close()

    run(test)


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_nothing_is_parsed_for_clients_that_are_gone(parser: HeldParser, kind: str) -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            waiting = served.source._statements._waiting
            query = urlencode({"statement": LONG})
            head = f"GET /subscribe?{query} HTTP/1.1\r\nHost: {served.place}\r\n"
            if kind == "websocket":
                head += "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                head += f"Sec-WebSocket-Key: {'A' * 22}==\r\n"
            writers = []
            for number in range(5):
                _, writer = await asyncio.open_connection("127.0.0.1", served.front.address[1])
                writer.write(f"{head}\r\n".encode())
                writers.append(writer)
                await until(lambda count=number + 1: sum(waiting.values()) == count, "it waits")
            for writer in writers:
                writer.close()
            await until(lambda: sum(waiting.values()) == 0, "nobody waits")
            parser.let()
            answer = await served.subscribe(LONG)
            assert answer.status == 200
            assert parser.begun <= 2
            answer.close()

    run(test)


def test_a_front_that_closes_waits_for_no_statement(parser: HeldParser) -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            asking = asyncio.ensure_future(served.subscribe(LONG))
            await until(lambda: parser.begun == 1, "it is parsed")
            await served.front.close()
            assert (await asking).status == 503

    run(test)


def test_so_many_statements_wait_and_no_more(parser: HeldParser) -> None:
    async def test() -> None:
        threads = StatementThreads()
        waiting = [asyncio.ensure_future(threads.parse(LONG)) for _ in range(64)]
        await until(lambda: parser.begun == 1, "the first is parsed")
        with pytest.raises(RetryError, match="64 statements wait to be parsed"):
            await threads.parse(LONG)
        assert await threads.parse(SHORT) == parse_subscribe(SHORT)
        waiting.pop().cancel()
        await asyncio.sleep(0)
        waiting.append(asyncio.ensure_future(threads.parse(LONG)))
        parser.let()
        assert len(await asyncio.gather(*waiting)) == 64
        threads.close()

    run(test)


def test_what_is_wrong_with_a_statement_is_told() -> None:
    async def test() -> None:
        threads = StatementThreads()
        for text in ("nonsense", f"nonsense {LONG}"):
            with pytest.raises(SubscribeStatementError):
                await threads.parse(text)
        threads.close()

    run(test)
