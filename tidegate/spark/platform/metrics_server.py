"""Serves ``/metrics`` and ``/health`` of a Spark query, with bounds on connections and headers.

Only clients that may ask get ``/metrics``.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from tidegate.access.http_access import (
    CONNECTION_S,
    HEALTH,
    MOST_CONNECTIONS,
    MOST_HEADER_BYTES,
    MOST_HEADERS,
    HttpAccess,
)

_METRICS: Final = "/metrics"
_LINE_END: Final = b"\r\n"


class _Server(ThreadingMixIn, WSGIServer):
    """An HTTP server with a thread for each connection. Connections are bounded in number and in time."""

    daemon_threads = True
    tls: ssl.SSLContext | None = None
    connection_s = CONNECTION_S

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(*arguments, **named)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, or close a connection above the bound."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread has started that would release it
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection."""
        try:
            self._answer(request, client_address)
        finally:
            self._room.release()

    def _answer(self, request: Any, client_address: Any) -> None:
        if self.tls is not None:
            try:
                request = self.tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            except OSError:  # the client has closed the connection already
                self.shutdown_request(request)
                return
        end = threading.Timer(self.connection_s, _abort, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)  # the first read does the TLS handshake
        finally:
            end.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write no line when a client closes the connection early."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    """Reads a request within the bounds of a worker's server. The standard library's bounds are higher."""

    raw_requestline: bytes

    def parse_request(self) -> bool:
        """Read the headers, and parse the request. Return whether it is to be answered."""
        headers = None
        if len(self.raw_requestline) <= MOST_HEADER_BYTES + len(_LINE_END):
            headers = self._read_headers()
        if headers is None:
            self.requestline, self.request_version, self.command = "", "", ""  # what an error answer names
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return False
        self.rfile = BytesIO(headers)
        return super().parse_request()

    def _read_headers(self) -> bytes | None:
        """Return the headers up to the empty line after them, ``None`` if they are too many or too long.

        A header that goes on in a further line is refused too, since no client writes one any more.
        """
        lines: list[bytes] = []
        while True:
            line = self.rfile.readline(MOST_HEADER_BYTES + len(_LINE_END) + 1)
            if len(line) > MOST_HEADER_BYTES + len(_LINE_END) or line.startswith((b" ", b"\t")):
                return None
            lines.append(line)
            if line in (_LINE_END, b"\n", b""):
                return b"".join(lines)
            if len(lines) > MOST_HEADERS:
                return None

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Write no line for a scrape."""


def serve_scrapes(
    registry: CollectorRegistry,
    host: str,
    port: int,
    access: HttpAccess,
    files: tuple[Path, Path] | None = None,
    connection_s: float = CONNECTION_S,
) -> int:
    """Answer scrapes until the process ends; return the port. ``files`` are certificate and key.

    Raises ``OSError`` for a port that cannot be bound, and for files that cannot be used.
    """
    application = _guarded(make_wsgi_app(registry), access)
    kind = _Server6 if ":" in host else _Server
    server = make_server(host, port, application, server_class=kind, handler_class=_Handler)
    server.connection_s = connection_s
    if files is not None:
        server.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.tls.load_cert_chain(*files, password="")
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return int(server.server_port)


def _guarded(application: Any, access: HttpAccess) -> Callable[..., Iterable[bytes]]:
    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        host, authorization = environ.get("HTTP_HOST"), environ.get("HTTP_AUTHORIZATION")
        path = environ["PATH_INFO"]
        refused = access.refusal(path, host, authorization)
        if refused is not None:
            return _json(start_response, refused.status, {"error": refused.sentence})
        if path == _METRICS:
            answered: Iterable[bytes] = application(environ, start_response)
            return answered
        if path == HEALTH:  # is open to all, so it says nothing else
            return _json(start_response, HTTPStatus.OK, {"status": "ok"})
        return _json(start_response, HTTPStatus.NOT_FOUND, {"error": "Nothing is here: ask /metrics."})

    return answer


def _json(start_response: Any, status: int, members: dict[str, str]) -> Iterable[bytes]:
    start_response(f"{status:d} {HTTPStatus(status).phrase}", [("Content-Type", "application/json")])
    return [json.dumps(members).encode()]


def _abort(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
