"""Answers requests with subscriptions, as NDJSON, server-sent events or WebSocket messages.

Each answer sends one message at a time, and takes the next batch when the client has taken the last one. When
a client is gone, its subscription ends immediately, even while there is nothing to send.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidegate.errors import (
    HistoryLost,
    InputError,
    ObjectDropped,
    RequestRefused,
    TokenRefused,
)
from tidegate.serve.encoded_batches import EncodedBatches
from tidegate.serve.stream_source import StreamColumns, Subscriptions, SubscriptionStream
from tidegate.serve.web.batch_messages import (
    END,
    batch_messages,
    error_bytes,
    header_message,
)
from tidegate.subscribe.client.resume_token import parse_token
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.statement.bound_time import bound_time
from tidegate.subscribe.statement.statement import SubscribeStatement

#: Seconds between two pings of server-sent events: proxies end connections that are silent for a minute.
PING_S: Final = 15.0
_PING: Final = b": ping\n\n"
_SSE: Final = "text/event-stream"
_NDJSON: Final = "application/x-ndjson"
_NO_STORE: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_JSON: Final = "application/json"
_NORMAL_CLOSURE: Final = 1000
_ABNORMAL_CLOSURE: Final = 1006
_INTERNAL_ERROR: Final = 1011
_POLICY_VIOLATION: Final = 1008

#: The id of the last event if the last batch had no token. It says that everything was given.
_ALL_GIVEN: Final = "end"

#: Sends a message with the token that holds after it.
SendMessage = Callable[[bytes, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """The request of a client: a statement, a token to resume from, and the dialect."""

    statement: SubscribeStatement
    token: str
    dialect: Dialect

    def has_all(self) -> bool:
        """Whether the client has everything: its token says so, or the token is at or above UP TO.

        Raises ``TokenRefused`` for a text that is no token.
        """
        if self.token == _ALL_GIVEN:
            return True
        up_to = self.statement.up_to
        if up_to is None or not self.token:
            return False
        return parse_token(self.token).frontier >= bound_time(up_to, time.time_ns())


class _AllGivenError(Exception):
    """A request of an ``EventSource`` that asks again, though its subscription has ended."""


async def read_request(
    parameters: QueryParams, headers: Headers, subscriptions: Subscriptions
) -> SubscriptionRequest:
    """Return what a request asks for. Raises ``SubscribeStatementError`` and ``RequestRefused``.

    A token in the header counts before one in the address, since it is newer: an ``EventSource`` that
    reconnects asks for the same address again.
    """
    text = parameters.get("statement", "")
    if not text:
        raise _refused("write the statement into the query: /subscribe?statement=SUBSCRIBE+flights")
    dialect = parameters.get("dialect", Dialect.TIDEGATE.value)
    if dialect not in {each.value for each in Dialect}:
        raise _refused(f"dialect is tidegate or materialize, not {dialect[:40]!r}")
    token = headers.get("last-event-id") or parameters.get("token", "")
    return SubscriptionRequest(await subscriptions.parse(text), token, Dialect(dialect))


class SubscriptionAnswers:
    """Answers requests for subscriptions, until the front closes."""

    def __init__(self, subscriptions: Subscriptions, encoded: EncodedBatches, ping_s: float = PING_S) -> None:
        self._subscriptions = subscriptions
        self._encoded = encoded
        self._ping_s = ping_s
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End all streams."""
        self._closing.set()

    async def http(self, request: Request) -> Response:
        """Answer ``GET /subscribe``: with server-sent events if the client accepts them, else with NDJSON."""
        if request.method == "HEAD":
            return Response(headers=_NO_STORE, media_type=_NDJSON)
        events = _SSE in request.headers.get("accept", "") or request.query_params.get("format") == "sse"
        opening = self._opened(request.query_params, request.headers, events=events)
        try:
            opened = await self._unless(opening, _gone(request.receive))
        except _AllGivenError:  # an EventSource asks again after every other answer with the status 2xx
            return Response(status_code=HTTPStatus.NO_CONTENT, headers=_NO_STORE)
        except Exception as error:
            return Response(error_bytes(error), _status(error), _NO_STORE, _JSON)
        if opened is None:
            return Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE, headers=_NO_STORE)
        asked, stream = opened
        return _StreamedAnswer(self, asked, stream, events=events)

    async def websocket(self, socket: WebSocket) -> None:
        """Answer ``WS /subscribe``: each message of the stream is one text message."""

        async def send(message: bytes, _: str) -> None:
            with _gone_if_closed():
                await socket.send_text(message.decode())

        async def gone() -> None:
            with contextlib.suppress(KeyError):  # a binary message, which has no text
                while True:  # messages of a client mean nothing
                    await socket.receive_text()

        code = _NORMAL_CLOSURE
        with contextlib.suppress(WebSocketDisconnect):
            await socket.accept()
            try:
                opened = await self._unless(self._opened(socket.query_params, socket.headers), gone())
            except WebSocketDisconnect:
                raise
            except Exception as error:
                await send(error_bytes(error), "")
                code = _POLICY_VIOLATION if isinstance(error, InputError) else _INTERNAL_ERROR
            else:
                if opened is not None:
                    await self.stream(*opened, send, gone())
            with _gone_if_closed():
                await socket.close(code)

    async def stream(
        self,
        asked: SubscriptionRequest,
        stream: SubscriptionStream,
        send: SendMessage,
        *others: Coroutine[Any, Any, None],
    ) -> None:
        """Send a subscription to its end, or until the first of ``others`` ends or the front closes."""
        try:
            await _until_first(self._send_all(asked, stream, send), _waited(self._closing), *others)
        finally:
            await stream.close()

    async def ping(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send a ping every ``ping_s`` seconds, so that the connection is not silent."""
        while True:
            await asyncio.sleep(self._ping_s)
            await send(_PING)

    async def _opened(
        self, parameters: QueryParams, headers: Headers, *, events: bool = False
    ) -> tuple[SubscriptionRequest, SubscriptionStream]:
        asked = await read_request(parameters, headers, self._subscriptions)
        if events and asked.has_all():
            raise _AllGivenError
        stream = await self._subscriptions.open(asked.statement, token=asked.token, dialect=asked.dialect)
        return asked, stream

    async def _unless(
        self,
        opening: Coroutine[Any, Any, tuple[SubscriptionRequest, SubscriptionStream]],
        gone: Coroutine[Any, Any, None],
    ) -> tuple[SubscriptionRequest, SubscriptionStream] | None:
        """Return the result of ``opening``; ``None`` if the client is ``gone``, or the front closes, before.

        In that case nothing more is parsed or opened for the client. Raises what ``opening`` or ``gone``
        raises.
        """
        task, others = asyncio.ensure_future(opening), [gone, _waited(self._closing)]
        try:
            await _until_first(_settled(task), *others)
        except BaseException:
            await self._give_up(task)
            raise
        if task.done():
            return task.result()
        await self._give_up(task)
        return None

    @staticmethod
    async def _give_up(opening: asyncio.Task[tuple[SubscriptionRequest, SubscriptionStream]]) -> None:
        """End an opening. If it has opened a stream already, the stream is closed."""
        opening.cancel()
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            await opening.result()[1].close()

    async def _send_all(
        self, asked: SubscriptionRequest, stream: SubscriptionStream, send: SendMessage
    ) -> None:
        # What `send` raises concerns the client. All other errors concern the subscription: the client gets
        # them.
        async with contextlib.aclosing(self._messages(asked, stream)) as messages:
            async for message, token in messages:
                await send(message, token)
                await asyncio.sleep(0)  # a client that never waits must not hold up the others

    async def _messages(
        self, asked: SubscriptionRequest, stream: SubscriptionStream
    ) -> AsyncGenerator[tuple[bytes, str], None]:
        """Yield all messages of a subscription, each with the token that holds after it.

        The last message says how the subscription ended. An exception of any kind makes it an error, even an
        exception in the encoding of a batch.
        """
        last = asked.token
        try:
            columns = StreamColumns(stream.header, stream.types)
            yield header_message(columns, asked.statement, resumed=bool(asked.token)), ""
            while (batch := await stream.next()) is not None:
                for message, last in batch_messages(batch, self._encoded):
                    yield message, last
        except Exception as error:
            yield error_bytes(error), ""
        else:
            yield END, "" if last else _ALL_GIVEN


class _StreamedAnswer(Response):
    """An answer that goes on until its subscription ends, its client is gone, or the front closes."""

    def __init__(
        self,
        answers: SubscriptionAnswers,
        asked: SubscriptionRequest,
        stream: SubscriptionStream,
        *,
        events: bool,
    ) -> None:
        super().__init__(media_type=_SSE if events else _NDJSON, headers=_NO_STORE)
        del self.headers["content-length"]
        self._answers = answers
        self._asked = asked
        self._stream = stream
        self._events = events

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        async def send_body(body: bytes) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": True})

        async def send_message(message: bytes, token: str) -> None:
            await send_body(event(message, token) if self._events else message + b"\n")

        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            pings = [self._answers.ping(send_body)] if self._events else []
            await self._answers.stream(self._asked, self._stream, send_message, _gone(receive), *pings)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            pass  # the client is gone
        finally:
            await self._stream.close()  # needed if the start of the answer cannot be sent


def event(message: bytes, token: str) -> bytes:
    """Return a message as a server-sent event. Its id is the token that ``Last-Event-ID`` brings back.

    A message with a token closes a batch, so nobody resumes within a batch. If the last batch had no token,
    the end of the subscription has an id of its own: an ``EventSource`` asks again even after the end.
    """
    return b"id: %s\ndata: %s\n\n" % (token.encode(), message) if token else b"data: %s\n\n" % message


@contextlib.contextmanager
def _gone_if_closed() -> Iterator[None]:
    """Raise ``WebSocketDisconnect`` in place of the ``RuntimeError`` that a closed WebSocket raises."""
    try:
        yield
    except RuntimeError:
        raise WebSocketDisconnect(_ABNORMAL_CLOSURE) from None


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _settled(task: asyncio.Future[Any]) -> None:
    """Wait until a task has ended, however it ends."""
    await asyncio.wait({task})


async def _waited(event: asyncio.Event) -> None:
    await event.wait()


async def _until_first(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run the coroutines until the first one ends, and cancel the others. Raise the first one's error."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


_STATUSES: Final[Mapping[type[Exception], HTTPStatus]] = {
    HistoryLost: HTTPStatus.GONE,
    ObjectDropped: HTTPStatus.GONE,
    TokenRefused: HTTPStatus.CONFLICT,
}


def _status(error: Exception) -> HTTPStatus:
    for kind, status in _STATUSES.items():
        if isinstance(error, kind):
            return status
    return HTTPStatus.BAD_REQUEST if isinstance(error, InputError) else HTTPStatus.INTERNAL_SERVER_ERROR


def _refused(message: str) -> RequestRefused:
    return RequestRefused(message, "bad_request", "22023")
