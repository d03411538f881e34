"""A schema registry for tests, in the process of the test. Its ids are known beforehand, and it can be told
to answer wrongly.

It speaks what producers and consumers use of the Confluent API. An id follows from the schema's text alone,
as in engines that have no registry, so that their output can be compared byte by byte. It checks no
compatibility: for that, and for everything else that only a real registry does, there is ``stack.registry``.
"""

from __future__ import annotations

import base64
import enum
import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Event, Lock, Thread
from typing import Any, Final, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.processor.reference import content_id

_SLOW_BYTE_S: Final = 0.02


class Mood(enum.Enum):
    """The way in which the server answers, whatever it is asked."""

    WELL = "as a registry does"
    FAILS = "500"
    BUSY = "429"
    REFUSES_LOGIN = "401"
    FORBIDS = "403"
    REJECTS = "409, with words"
    READ_ONLY = "422, for a subject that takes no schemas now"
    CONFLICT_OF_A_PROXY = "409 as HTML"
    HTML = "a page, with status 200"
    OTHER_JSON = "JSON of another shape"
    TEXT_AS_ID = "an id that is no number"
    NOTHING = "not at all"
    BYTE_BY_BYTE = "one byte at a time, without an end"


class Call(NamedTuple):
    """One request."""

    method: str
    path: str


class Reply(NamedTuple):
    status: int
    body: Any
    media_type: str = "application/vnd.schemaregistry.v1+json"


_PAGE: Final = "<html><body>Welcome to nginx!</body></html>"
_MOODY_REPLIES: Final = {
    Mood.FAILS: Reply(500, {"error_code": 50001, "message": "Error in the backend data store"}),
    Mood.BUSY: Reply(429, {"error_code": 42901, "message": "Slow down"}),
    Mood.REFUSES_LOGIN: Reply(401, {"error_code": 401, "message": "Unauthorized"}),
    Mood.FORBIDS: Reply(403, {"error_code": 40301, "message": "User is not allowed to WRITE"}),
    Mood.REJECTS: Reply(409, {"error_code": 409, "message": "Schema being registered is incompatible"}),
    Mood.READ_ONLY: Reply(422, {"error_code": 42205, "message": "Subject is in read-only mode"}),
    Mood.CONFLICT_OF_A_PROXY: Reply(409, _PAGE, "text/html"),
    Mood.HTML: Reply(200, _PAGE, "text/html"),
    Mood.OTHER_JSON: Reply(200, [{"weather": "fine"}]),
    Mood.TEXT_AS_ID: Reply(200, {"id": "seven", "schema": 7}),
}


class RegistryServer:
    """A registry on a free port of this machine. Use it in a ``with``.

    ``mood`` may be changed at any time; ``reply``, if set, is the (status, body) of every answer. While
    ``gate`` is cleared, answers wait for it. ``login`` is the (user, password) that it wants.
    """

    def __init__(
        self, login: tuple[str, str] | None = None, tls: ssl.SSLContext | None = None, port: int = 0
    ) -> None:
        self.mood = Mood.WELL
        self.reply: tuple[int, Any] | None = None
        self.calls: list[Call] = []
        self.gate = Event()
        self.gate.set()
        self.closing = Event()
        self._login = None if login is None else base64.b64encode(":".join(login).encode()).decode()
        self._lock = Lock()
        self._called = Condition(self._lock)
        self._texts: dict[int, str] = {}
        self._subjects: dict[str, list[int]] = {}
        self._levels: dict[str, str] = {}
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.registry = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def registrations(self) -> list[str]:
        """The subjects of the registrations that were asked for, in order."""
        return [
            unquote(call.path.split("/")[2])
            for call in list(self.calls)
            if call.method == "POST" and call.path.endswith("/versions")
        ]

    def schemas(self, subject: str) -> list[str]:
        """The texts that are registered under a subject, in order."""
        with self._lock:
            return [self._texts[number] for number in self._subjects.get(subject, [])]

    def wait_for_calls(self, count: int, timeout_s: float = 30.0) -> None:
        """Return once so many requests have come, answered or not. ``TimeoutError`` if they do not."""
        with self._called:
            if not self._called.wait_for(lambda: len(self.calls) >= count, timeout_s):
                raise TimeoutError(f"{len(self.calls)} calls came, not {count}: {self.calls}")

    def heard(self, method: str, path: str) -> None:
        """Note a request."""
        with self._called:
            self.calls.append(Call(method, path))
            self._called.notify_all()

    def answer(self, method: str, path: str, body: Any, authorization: str) -> Reply:
        """Return what to say to a request."""
        if self.reply is not None:
            return Reply(*self.reply)
        if self.mood in _MOODY_REPLIES:
            return _MOODY_REPLIES[self.mood]
        if self._login is not None and authorization != f"Basic {self._login}":
            # A registry must not echo the login, but some proxies do.
            return Reply(401, {"error_code": 401, "message": f"Unauthorized: {authorization}"})
        with self._lock:
            return self._answer(method, [unquote(part) for part in path.strip("/").split("/")], body)

    def _answer(self, method: str, parts: list[str], body: Any) -> Reply:
        match (method, *parts):
            case ("GET", "schemas", "types"):
                return Reply(200, ["JSON", "AVRO"])
            case ("GET", "schemas", "ids", number) if number.isdecimal():
                return self._by_id(int(number))
            case ("GET", "subjects"):
                return Reply(200, sorted(self._subjects))
            case ("POST", "subjects", subject, "versions"):
                return self._register(subject, body["schema"])
            case ("GET", "subjects", subject, "versions"):
                return self._versions(subject)
            case ("POST", "subjects", subject):
                return self._look_up(subject, body["schema"])
            case ("GET" | "PUT", "config", *subject):
                return self._config("/".join(subject), body)
        return Reply(404, {"error_code": 404, "message": "HTTP 404 Not Found"})

    def _register(self, subject: str, text: str) -> Reply:
        try:
            json.loads(text)
        except ValueError:
            return Reply(422, {"error_code": 42201, "message": "Invalid schema"})
        number = content_id(SubjectSchema(subject, text))
        self._texts[number] = text
        versions = self._subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return Reply(200, {"id": number})

    def _versions(self, subject: str) -> Reply:
        versions = self._subjects.get(subject)
        if versions is None:
            return Reply(404, {"error_code": 40401, "message": f"Subject '{subject}' not found."})
        return Reply(200, [number + 1 for number in range(len(versions))])

    def _look_up(self, subject: str, text: str) -> Reply:
        number = content_id(SubjectSchema(subject, text))
        versions = self._subjects.get(subject)
        if versions is None:
            return Reply(404, {"error_code": 40401, "message": f"Subject '{subject}' not found."})
        if number not in versions:
            return Reply(404, {"error_code": 40403, "message": "Schema not found"})
        version = versions.index(number) + 1
        return Reply(200, {"subject": subject, "id": number, "version": version, "schema": text})

    def _by_id(self, number: int) -> Reply:
        if number not in self._texts:
            return Reply(404, {"error_code": 40403, "message": f"Schema {number} not found"})
        return Reply(200, {"schema": self._texts[number]})

    def _config(self, subject: str, body: Any) -> Reply:
        if body is not None:
            self._levels[subject] = body["compatibility"]
            return Reply(200, body)
        level = self._levels.get(subject, self._levels.get("", "BACKWARD"))
        return Reply(200, {"compatibilityLevel": level})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    registry: RegistryServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _handle(self) -> None:
        registry, path = self.server.registry, urlsplit(self.path).path
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        registry.heard(self.command, path)
        registry.gate.wait()
        if registry.mood is Mood.NOTHING:
            registry.closing.wait()
            self.close_connection = True
        elif registry.mood is Mood.BYTE_BY_BYTE:
            self._drip(registry)
        else:
            body = json.loads(sent) if sent else None
            self._send(registry.answer(self.command, path, body, self.headers.get("Authorization", "")))

    def _send(self, reply: Reply) -> None:
        data = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.media_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _drip(self, registry: RegistryServer) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        while registry.mood is Mood.BYTE_BY_BYTE and not registry.closing.wait(_SLOW_BYTE_S):
            self.wfile.write(b" ")
        self.close_connection = True
