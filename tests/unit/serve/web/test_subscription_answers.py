"""Subscriptions over HTTP and WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.requests import Request
from starlette.types import Message
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.unit.registry.certificates import Authority
from tests.unit.serve.memory_subscriptions import (
    DEEP_JSON,
    MemorySubscriptions,
    Unforeseen,
    deep_bank,
    random_commits,
    until,
)
from tests.unit.serve.postgres.served import bound_buffers, run
from tests.unit.serve.web.served_web import LargePage, ServedWeb, WebAnswer, serving_web
from tidegate.errors import BrokerUnavailable, HistoryLost, RequestRefused
from tidegate.hlc import Timestamp
from tidegate.serve.encoded_batches import EncodedBatches
from tidegate.serve.limits import ServeLimits
from tidegate.serve.web.batch_messages import error_message
from tidegate.serve.web.bounded_websocket import BoundedWebSocket
from tidegate.serve.web.subscription_answers import SubscriptionAnswers
from tidegate.subscribe.updates.relation import Relations

UPSERT = "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))"
SSE = "text/event-stream"


def bank() -> MemorySubscriptions:
    source = MemorySubscriptions()
    source.commit(5, (1, 2**60, "é\n"), (2, 8, None))
    return source


def test_ndjson_has_the_columns_then_each_batch() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            answer = await served.subscribe(UPSERT)
            assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
            assert await answer.message() == {
                "columns": ["mz_timestamp", "mz_state", "id", "balance", "note"],
                "types": ["numeric", "text", "int8", "int8", "text"],
                "mode": "upsert",
                "key": ["id"],
                "resumed": False,
            }
            batch = await answer.message()
            assert batch["rows"] == [
                ["5.0000000000", "upsert", 1, str(2**60), "é\n"],
                ["5.0000000000", "upsert", 2, 8, None],
            ]
            assert (batch["frontier"], batch["snapshot"]) == ("5.0000000001", True)
            served.source.commit(9, 2)
            batch = await answer.message()
            assert batch["rows"] == [["9.0000000000", "delete", 2, None, None]]
            assert (batch["snapshot"], batch["token"][:3]) == (False, "eyJ")
            answer.close()

    run(test)


def test_tables_that_are_not_known_while_kafka_is_away_are_a_status_and_a_sentence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Away(MemorySubscriptions):
        async def relations(self) -> Relations:
            raise BrokerUnavailable("Kafka at 127.0.0.1:9092 gave no answer within 10 s")

    async def test() -> None:
        async with serving_web(Away()) as served:
            answer = await served.get("/tables")
            error = json.loads(await answer.body())["error"]
            assert answer.status == 503
            assert error["message"] == "Kafka at 127.0.0.1:9092 gave no answer within 10 s"
            answer.close()

    run(test)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def test_an_event_source_that_reconnects_goes_on_behind_its_last_event_and_not_behind_its_address() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            tokens: list[str] = []
            answer = await served.subscribe(UPSERT, accept=SSE)
            await answer.event()
            tokens.append((await answer.event())["id"])
            served.source.commit(9, (2, 9, None))
            tokens.append((await answer.event())["id"])
            answer.close()
            served.source.commit(12, (2, 12, None))
            again = await served.subscribe(UPSERT, f"&token={tokens[0]}", accept=SSE, last_event_id=tokens[1])
            assert json.loads((await again.event())["data"])["resumed"] is True
            rows = json.loads((await again.event())["data"])["rows"]
            assert rows == [["12.0000000000", "upsert", 2, 12, None]]
            again.close()

    run(test)


def test_a_question_for_the_head_alone_subscribes_to_nothing() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.front.address[1])
            writer.write(b"HEAD /subscribe?statement=SUBSCRIBE+accounts HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in await reader.readline()
            assert served.source.opened == 0
            writer.close()

    run(test)


def test_a_bounded_subscription_ends_its_answer() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            served.source.mark(8)
            answer = await served.subscribe("SUBSCRIBE accounts AS OF 5 UP TO 7")
            lines = (await answer.body()).splitlines()
            assert json.loads(lines[-1]) == {"end": True}
            answer.close()

    run(test)


@pytest.mark.parametrize(
    "statement",
    [
        "SUBSCRIBE accounts AS OF 5 UP TO 7",
        "SUBSCRIBE (SELECT id FROM accounts ORDER BY id LIMIT 1) AS OF 5 UP TO 7",  # it has no tokens
    ],
)
def test_an_event_source_that_has_all_below_up_to_is_told_to_ask_no_more(statement: str) -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            served.source.mark(8)
            answer = await served.subscribe(statement, accept=SSE)
            last = ""
            while json.loads((event := await answer.event())["data"]) != {"end": True}:
                last = event.get("id", last)
            last = event.get("id", last)
            answer.close()
            again = await served.subscribe(statement, accept=SSE, last_event_id=last)
            assert (again.status, served.source.opened) == (204, 1)
            again.close()
            if last == "end":
                return
            for more in (statement.replace("UP TO 7", "UP TO 8"), statement.partition(" UP")[0]):
                going_on = await served.subscribe(more, accept=SSE, last_event_id=last)
                assert json.loads((await going_on.event())["data"])["resumed"] is True
                going_on.close()
            plain = await served.subscribe(statement, last_event_id=last)
            assert [json.loads(line) for line in (await plain.body()).splitlines()][-1] == {"end": True}
            plain.close()

    run(test)


def test_server_sent_events_resume_by_their_last_id_without_gap_or_repeat() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            answer = await served.subscribe(UPSERT, accept=SSE)
            assert answer.headers["content-type"].startswith(SSE)
            assert "id" not in await answer.event()
            token = (await answer.event())["id"]
            answer.close()
            await until(lambda: not served.source.open_streams, "its subscription has ended")
            served.source.commit(7, (3, 3, "while away"))
            served.source.commit(9, 1)
            again = await served.subscribe(UPSERT, accept=SSE, last_event_id=token)
            assert json.loads((await again.event())["data"])["resumed"] is True
            rows = [row for _ in range(2) for row in json.loads((await again.event())["data"])["rows"]]
            assert [row[:3] for row in rows] == [
                ["7.0000000000", "upsert", 3],
                ["9.0000000000", "delete", 1],
            ]
            again.close()

    run(test)


def test_a_token_in_the_query_resumes_too() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            answer = await served.subscribe(UPSERT)
            await answer.message()
            token = (await answer.message())["token"]
            answer.close()
            served.source.commit(7, 1)
            again = await served.subscribe(UPSERT, f"&token={token}")
            assert (await again.message())["resumed"] is True
            assert (await again.message())["rows"] == [["7.0000000000", "delete", 1, None, None]]
            again.close()

    run(test)


def test_websocket_has_the_same_messages() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            address = f"ws://{served.place}/subscribe?{urlencode({'statement': UPSERT})}"
            async with connect(address) as socket:
                assert json.loads(await socket.recv())["key"] == ["id"]
                assert len(json.loads(await socket.recv())["rows"]) == 2
                served.source.commit(9, 1)
                assert json.loads(await socket.recv())["frontier"] == "9.0000000001"
                await socket.send("hello")
                await socket.send(b"\0")
                await until(lambda: not served.source.open_streams, "bytes are no message: it ends")
            async with connect(address) as socket:
                await socket.recv()
                await until(lambda: len(served.source.open_streams) == 1, "subscribed")
            await until(lambda: not served.source.open_streams, "a client that is gone ends its subscription")

    run(test)


def test_a_long_message_of_a_client_ends_its_websocket() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            address = f"ws://{served.place}/subscribe?{urlencode({'statement': UPSERT})}"
            async with connect(address) as socket:
                await socket.recv()
                await socket.send("x" * 5_000)
                await until(lambda: not served.source.open_streams, "it has ended")

    run(test)


def test_websocket_tells_an_error_and_closes() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            async with connect(f"ws://{served.place}/subscribe?statement=nonsense") as socket:
                assert json.loads(await socket.recv())["error"]["code"] == "syntax_error"
                with pytest.raises(ConnectionClosed) as caught:
                    await socket.recv()
                assert caught.value.rcvd is not None
                assert caught.value.rcvd.code == 1008
            with pytest.raises(InvalidStatus):
                async with connect(f"ws://{served.place}/elsewhere"):
                    pass

    run(test)


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "bad_request"),
        ("statement=nonsense", 400, "syntax_error"),
        ("statement=SUBSCRIBE+nothing", 400, "unknown_relation"),
        ("statement=SUBSCRIBE+accounts&dialect=mysql", 400, "bad_request"),
        ("statement=SUBSCRIBE+accounts&token=abc", 409, "token_refused"),
        ("statement=SUBSCRIBE+accounts+AS+OF+1", 410, "history_lost"),
    ],
)
def test_what_cannot_begin_has_a_status_and_a_code(query: str, status: int, code: str) -> None:
    async def test() -> None:
        source = MemorySubscriptions(readable_from=Timestamp(3))
        source.commit(5, (1, 1, "a"))
        async with serving_web(source) as served:
            answer = await served.get(f"/subscribe?{query}")
            assert answer.status == status
            assert json.loads(await answer.body())["error"]["code"] == code
            answer.close()

    run(test)


def test_an_error_amid_a_subscription_is_its_last_message() -> None:
    async def test() -> None:
        for error, code in (
            (HistoryLost("gone", "accounts", 0, 7), "history_lost"),
            (Unforeseen("secret"), "internal_error"),
        ):
            source = bank()
            async with serving_web(source) as served:
                answer = await served.subscribe(UPSERT)
                await answer.message()
                await answer.message()
                source.fail(error)
                found = await answer.message()
                assert found["error"]["code"] == code
                assert "secret" not in json.dumps(found)
                if code == "history_lost":
                    assert (found["error"]["topic"], found["error"]["offset"]) == ("accounts", 7)
                assert await answer.message() is None
                answer.close()

    run(test)


def test_json_is_given_however_deep_it_is() -> None:
    async def test() -> None:
        async with serving_web(deep_bank()) as served:
            expected = [["5.0000000000", 1, 1, 8, json.loads(DEEP_JSON)]]
            plain = await served.subscribe("SUBSCRIBE accounts")
            await plain.message()
            assert (await plain.message())["rows"] == expected
            events = await served.subscribe("SUBSCRIBE accounts", accept=SSE)
            await events.event()
            assert json.loads((await events.event())["data"])["rows"] == expected
            address = f"ws://{served.place}/subscribe?{urlencode({'statement': 'SUBSCRIBE accounts'})}"
            async with connect(address) as socket:
                await socket.recv()
                assert json.loads(await socket.recv())["rows"] == expected
            plain.close()
            events.close()

    run(test)


class BrokenEncoding(EncodedBatches):
    """Encoded batches that raise an exception where a batch is encoded."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def piece(self, *_: object) -> tuple[int, bytes]:
        raise self._error


@pytest.mark.parametrize("error", [RecursionError(), RuntimeError(), OSError(), KeyError(), MemoryError()])
def test_an_exception_while_a_batch_is_encoded_is_the_last_message_in_each_form(error: Exception) -> None:
    async def test() -> None:
        async with serving_web(bank(), encoded=BrokenEncoding(error)) as served:
            plain = await served.subscribe(UPSERT)
            lines = (await plain.body()).splitlines()
            assert [json.loads(line).get("error", {}).get("code") for line in lines] == [
                None,
                "internal_error",
            ]
            events = await served.subscribe(UPSERT, accept=SSE)
            await events.event()
            assert json.loads((await events.event())["data"])["error"]["code"] == "internal_error"
            assert not await events.body()
            address = f"ws://{served.place}/subscribe?{urlencode({'statement': UPSERT})}"
            async with connect(address) as socket:
                await socket.recv()
                assert json.loads(await socket.recv())["error"]["code"] == "internal_error"
                with pytest.raises(ConnectionClosed) as caught:
                    await socket.recv()
                assert caught.value.rcvd is not None
                assert caught.value.rcvd.code == 1000
            plain.close()
            events.close()

    run(test)


def test_no_text_of_an_error_has_a_secret() -> None:
    address = "kafka://ada:correct-horse@broker"
    error = RequestRefused(f"{address} is away", "bad_request", "22023", hint=f"ask {address}")
    found = error_message(error)["error"]
    assert found["hint"].startswith("ask kafka://")
    assert "correct-horse" not in json.dumps(found)


def test_a_client_that_is_gone_ends_its_subscription_while_nothing_comes() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            for accept in (SSE, "*/*"):
                answer = await served.subscribe(UPSERT, accept=accept)
                await answer.line()
                assert served.source.open_streams
                answer.close()
                await until(lambda: not served.source.open_streams, "its subscription has ended")

    run(test)


def test_a_client_that_sends_more_while_it_gets_a_subscription_is_ended() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            for accept in (SSE, "*/*"):
                answer = await served.subscribe(UPSERT, accept=accept)
                await answer.line()
                answer.writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await until(lambda: not served.source.open_streams, "its subscription has ended")
                await until(lambda: not served.front.connections, "its connection has ended")
                answer.close()

    run(test)


@pytest.mark.parametrize("error", [OSError("gone"), asyncio.CancelledError()])
def test_an_answer_that_cannot_start_leaves_no_subscription(error: BaseException) -> None:
    async def receive() -> Message:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def send(_: Message) -> None:
        raise error

    async def test() -> None:
        source = bank()
        query = urlencode({"statement": UPSERT}).encode()
        scope = {"type": "http", "method": "GET", "path": "/subscribe", "query_string": query, "headers": []}
        answer = await SubscriptionAnswers(source, EncodedBatches()).http(Request(scope, receive))
        assert len(source.open_streams) == 1
        with contextlib.suppress(asyncio.CancelledError):
            await answer(scope, receive, send)
        assert not source.open_streams

    run(test)


def test_events_have_pings_between_them() -> None:
    async def test() -> None:
        async with serving_web(bank(), ping_s=0.01) as served:
            answer = await served.subscribe(UPSERT, accept=SSE)
            lines = [await answer.line() for _ in range(8)]
            assert b": ping\n" in lines
            answer.close()

    run(test)


def test_a_slow_client_holds_back_its_own_subscription_alone() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        for wall in range(1, 200):
            source.commit(wall, (1, wall, "x" * 10_000))
        async with serving_web(source) as served:
            statement = "SUBSCRIBE accounts AS OF 1 UP TO 199"
            slow = await served.subscribe(statement)
            slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
            (held,) = source.open_streams
            fast = await served.subscribe(statement)
            assert (await fast.body()).splitlines()[-1] == b'{"end": true}'
            assert held.taken < 100
            slow.writer.transport.abort()
            fast.close()

    run(test)


PING = bytes([0x89, 0x80 | 125, 0, 0, 0, 0]) + b"x" * 125


async def websocket_of(
    served: ServedWeb, statement: str, tls: ssl.SSLContext | None = None, before: str = ""
) -> WebAnswer:
    """A WebSocket whose client reads nothing behind the head of the answer."""
    upgrade = {"upgrade": "websocket", "connection": "Upgrade", "sec_websocket_version": "13"}
    query = urlencode({"statement": statement})
    key = {"sec_websocket_key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
    answer = await served.get(f"/subscribe?{query}", tls, before, **upgrade, **key)
    answer.writer.transport.pause_reading()  # type: ignore[attr-defined] # a transport of a socket has it
    return answer


def protocol_of(served: ServedWeb) -> BoundedWebSocket:
    assert served.front._server is not None
    (found,) = served.front._server.server_state.connections
    assert isinstance(found, BoundedWebSocket)
    return found


@pytest.mark.parametrize("over_tls", [False, True])
def test_a_client_that_pings_and_reads_nothing_fills_no_memory_and_keeps_no_place(
    over_tls: bool, tmp_path: Path
) -> None:
    authority = Authority()
    trusted = ssl.create_default_context(cadata=authority.cert.decode()) if over_tls else None
    tls = authority.server_context(tmp_path) if over_tls else None

    async def test() -> None:
        limits = ServeLimits(pong_s=1.0, close_s=0.2)
        async with serving_web(bank(), limits=limits, tls=tls, ping_s=1.0) as served:
            silent = await websocket_of(served, UPSERT, tls=trusted)
            server = protocol_of(served)
            sent, most = 0, 0
            while served.front.connections:
                if silent.writer.transport.get_write_buffer_size() < len(PING) * 1_000:
                    silent.writer.write(PING * 1_000)
                    sent += len(PING) * 1_000
                most = max(most, server.transport.get_write_buffer_size())
                await asyncio.sleep(0.001)
            assert limits.waiting_bytes < sent
            assert most < 2 * limits.waiting_bytes + (1 << 16), "and what comes in one read"
            await until(lambda: not served.source.open_streams, "its subscription has ended")
            silent.writer.transport.abort()

    run(test)


def test_a_websocket_that_is_closed_while_nobody_reads_is_cut() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        for wall in range(1, 200):
            source.commit(wall, (1, wall, "x" * 10_000))
        async with serving_web(source, limits=ServeLimits(close_s=0.2), ping_s=100.0) as served:
            silent = await websocket_of(served, "SUBSCRIBE accounts AS OF 1")
            await until(lambda: not protocol_of(served).writable.is_set(), "it has what waits for its client")
            served.front._answers.close()
            await until(lambda: not served.front.connections, "it is cut")
            silent.writer.transport.abort()

    run(test)


def test_a_slow_client_of_a_websocket_that_pings_gets_all_and_its_pongs() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        for wall in range(1, 200):
            source.commit(wall, (1, wall, "x" * 10_000))
        async with serving_web(source) as served:
            query = urlencode({"statement": "SUBSCRIBE accounts AS OF 1 UP TO 199"})
            async with connect(f"ws://{served.place}/subscribe?{query}", max_queue=1) as socket:
                bound_buffers(socket.transport.get_extra_info("socket"))
                await until(lambda: not protocol_of(served).writable.is_set(), "the client is slow")
                pongs = [await socket.ping(str(each)) for each in range(300)]
                await until(lambda: protocol_of(served)._is_held, "it is not read from")
                messages = [json.loads(each) async for each in socket]
                assert messages[-1] == {"end": True}
                assert len(messages) == 201
                await asyncio.gather(*pongs)

    run(test)


def test_a_websocket_behind_an_answer_that_nobody_reads_is_ended() -> None:
    async def test() -> None:
        async with serving_web(bank(), feeds=LargePage()) as served:
            before = "GET /feeds HTTP/1.1\r\nHost: localhost\r\n\r\n"
            silent = await websocket_of(served, UPSERT, before=before)
            await until(lambda: not served.front.connections, "it is ended")
            assert not served.source.opened
            silent.writer.transport.abort()

    run(test)


def test_empty_parts_of_a_message_take_no_memory() -> None:
    async def test() -> None:
        async with serving_web(bank()) as served:
            client = await websocket_of(served, UPSERT)
            begin, empty, last = (bytes([kind, 0x80, 0, 0, 0, 0]) for kind in (0x01, 0x00, 0x80))
            one = bytes([0x00, 0x81, 0, 0, 0, 0]) + b"x"
            client.writer.write(begin + empty * 10_000 + one)
            server = protocol_of(served)
            await until(lambda: b"x" in server.frames, "all parts are there")
            assert len(server.frames) == 2
            client.writer.write(last)
            await until(lambda: not server.frames, "the message is whole")
            client.writer.transport.abort()

    run(test)


def test_a_hundred_clients_of_one_table_have_each_batch_encoded_once() -> None:
    async def test() -> None:
        source, encoded = MemorySubscriptions(shared=True), EncodedBatches()
        commits = list(random_commits(7, range(2, 30)))
        for wall, rows in commits:
            source.commit(wall, *rows)
        async with serving_web(source, encoded=encoded) as served:
            statement = f"{UPSERT} AS OF 1 UP TO 29"
            answers = await asyncio.gather(*(served.subscribe(statement, accept=SSE) for _ in range(100)))
            bodies = await asyncio.gather(*(answer.body() for answer in answers))
            assert len(set(bodies)) == 1
            assert encoded.encoded == len(source.records) - sum(len(rows) for _, rows in commits)
            for answer in answers:
                answer.close()

    run(test)
