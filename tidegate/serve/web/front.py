"""The web front: HTTP and WebSocket on one address."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute

from tidegate.access.bounded_listener import BoundedListener
from tidegate.changefeed.definition.sql_identifier import quoted_identifier
from tidegate.errors import TidegateError
from tidegate.serve.addresses import ListenAddress
from tidegate.serve.encoded_batches import EncodedBatches
from tidegate.serve.keepalive import keep_alive
from tidegate.serve.limits import ServeLimits
from tidegate.serve.metrics import CONTENT_TYPE
from tidegate.serve.stream_source import Subscriptions
from tidegate.serve.web.batch_messages import error_bytes
from tidegate.serve.web.bounded_http import bounded_http
from tidegate.serve.web.bounded_websocket import bounded_websocket
from tidegate.serve.web.guard import GuardedApp, WebAccess
from tidegate.serve.web.small_reads import SmallReads
from tidegate.serve.web.subscription_answers import PING_S, SubscriptionAnswers
from tidegate.serve.web.watched_feeds import WatchedFeeds
from tidegate.subscribe.statement.switches import ALL_ON, SubscribeSwitches
from tidegate.subscribe.updates.relation import TABLE, Relation

_FILES: Final = Path(__file__).parent / "files"
_PAGES: Final = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/feeds.html": ("feeds.html", "text/html; charset=utf-8"),
    "/feeds.js": ("feeds.js", "text/javascript; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/tidegate.js": ("tidegate.js", "text/javascript; charset=utf-8"),
}
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_NO_FEEDS: Final = {
    "error": {"code": "no_feeds", "sqlstate": "0A000", "message": "This server does not look at feeds"}
}
#: The most bytes of a WebSocket message of a client. Its messages mean nothing to the server.
_MESSAGE_BYTES: Final = 4 * 1024
_GRACE_S: Final = 2
_SUBSCRIBE: Final = "/subscribe"


class WebFront:
    """A server of subscriptions for HTTP clients."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        access: WebAccess,
        tls: ssl.SSLContext | None = None,
        limits: ServeLimits | None = None,
        encoded: EncodedBatches | None = None,
        *,
        ping_s: float = PING_S,
        feeds: WatchedFeeds | None = None,
    ) -> None:
        """``feeds`` has what the page of feeds shows; without it ``/feeds`` answers 404.

        ``ping_s`` is how many seconds lie between two pings of server-sent events, and of a WebSocket.
        """
        self._subscriptions = subscriptions
        self._access = access
        self._tls = tls
        self._limits = limits or ServeLimits()
        self._feeds = feeds
        self._ping_s = ping_s
        self._answers = SubscriptionAnswers(subscriptions, encoded or EncodedBatches(), ping_s)
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._listener: BoundedListener | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port at which it listens."""
        assert self._socket is not None
        host, port, *_ = self._socket.getsockname()
        return host, port

    @property
    def connections(self) -> int:
        """The number of connections, WebSockets among them."""
        assert self._server is not None
        return len(self._server.server_state.connections)

    async def start(self) -> None:
        """Listen. Raises ``OSError``."""
        self._socket = _listening(self._access.address)
        config = uvicorn.Config(
            GuardedApp(self._app(), self._access, self._subscriptions.counts),
            http=bounded_http(self._limits.startup_s, (_SUBSCRIBE,)),
            ws=bounded_websocket(self._limits.waiting_bytes, self._limits.close_s),
            ws_max_size=_MESSAGE_BYTES,
            ws_ping_interval=self._ping_s,
            ws_ping_timeout=self._limits.pong_s,
            ws_per_message_deflate=False,  # it would cost memory for each client
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=self._limits.web_connections,
            h11_max_incomplete_event_size=self._limits.request_bytes,
            timeout_graceful_shutdown=_GRACE_S,
        )
        config.load()
        self._server = server = _Server(config)
        protocol: Any = config.http_protocol_class  # uvicorn annotates it as less than it is
        self._listener = BoundedListener(
            lambda: SmallReads(protocol(config=config, server_state=server.server_state, app_state={})),
            lambda: len(server.server_state.connections),
            2 * self._limits.web_connections,
            tls=self._tls,
            handshake_s=self._limits.startup_s,
        )
        self._listener.listen([self._socket])
        self._task = asyncio.ensure_future(server.serve(sockets=[]))
        while not (self._server.started or self._task.done()):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        """End all streams, and stop listening."""
        self._answers.close()
        if self._feeds is not None:
            self._feeds.close()
        if self._listener is not None:
            await self._listener.close()
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await asyncio.wait({self._task})
        if self._socket is not None:
            self._socket.close()

    def _app(self) -> Starlette:
        pages = [Route(path, _page(*file)) for path, file in _PAGES.items()]
        return Starlette(
            routes=[
                *pages,
                Route("/health", _health),
                Route("/metrics", self._metrics),
                Route("/tables", self._tables),
                Route("/feeds", self._all_feeds),
                Route(_SUBSCRIBE, self._answers.http, methods=["GET"]),
                WebSocketRoute(_SUBSCRIBE, self._answers.websocket),
            ]
        )

    async def _metrics(self, _: Request) -> Response:
        """Answer with what Prometheus collects."""
        return Response(self._subscriptions.metrics(), headers=_HEADERS, media_type=CONTENT_TYPE)

    async def _all_feeds(self, _: Request) -> Response:
        """Return the state of each feed."""
        if self._feeds is None:
            return JSONResponse(_NO_FEEDS, HTTPStatus.NOT_FOUND, _HEADERS)
        status, body = await self._feeds.now()
        return Response(body, status, _HEADERS, "application/json")

    async def _tables(self, _: Request) -> Response:
        """Answer with the tables that can be subscribed to; with 503 where they cannot be looked up."""
        try:
            relations = await self._subscriptions.relations()
        except TidegateError as error:  # for example, Kafka does not answer
            return Response(error_bytes(error), HTTPStatus.SERVICE_UNAVAILABLE, _HEADERS, "application/json")
        tables = [
            {
                "name": str(each.name),
                "columns": list(each.columns),
                "statement": statement_of(each, self._subscriptions.switches),
            }
            for each in relations
            if each.kind == TABLE
        ]
        return JSONResponse({"tables": tables}, headers=_HEADERS)


def statement_of(relation: Relation, switches: SubscribeSwitches = ALL_ON) -> str:
    """Return the statement that shows a table. It shows rows by primary key if the key is known and
    ``switches`` allow ENVELOPE UPSERT.
    """
    name = relation.name
    parts = ".".join(map(quoted_identifier, (name.database, name.schema, name.name)))
    if not relation.primary_key or not switches.envelope_upsert:
        return f"SUBSCRIBE {parts}"
    return (
        f"SUBSCRIBE {parts} ENVELOPE UPSERT (KEY ({', '.join(map(quoted_identifier, relation.primary_key))}))"
    )


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _page(name: str, media_type: str) -> Any:
    async def answer(_: Request) -> Response:
        return Response((_FILES / name).read_bytes(), headers=_HEADERS, media_type=media_type)

    return answer


def _listening(address: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keep_alive(found)
        found.bind((address.host, address.port))
    except OSError:
        found.close()
        raise
    return found


class _Server(uvicorn.Server):
    """uvicorn that handles no signals: they are for the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
