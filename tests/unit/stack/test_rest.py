"""A real HTTP server of the test's own, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from stack import rest
from stack.ports import LOOPBACK, choose_port
from stack.rest import HttpAnswer, call, get_document, get_succeeds
from tests.unit.stack.wrong_server import saying


class Echo(BaseHTTPRequestHandler):
    """``/<status>`` answers with that status and what was sent; ``/<status>/plain`` with no JSON."""

    def do_GET(self) -> None:
        _, status, *plain = self.path.split("/")
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = {"method": self.command, "sent": json.loads(sent or "null")}
        self.send_response(int(status))
        self.end_headers()
        self.wfile.write(b"<html>" if plain else json.dumps(said).encode())

    do_PUT = do_GET  # noqa: N815 - the base class's naming

    def log_message(self, *words: object) -> None:
        """Nothing to standard error."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer((LOOPBACK, 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{LOOPBACK}:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_document_goes_there_and_comes_back(url: str) -> None:
    assert call("PUT", f"{url}/200", {"a": [1]}) == HttpAnswer(200, {"method": "PUT", "sent": {"a": [1]}})


def test_a_refusal_is_an_answer_too(url: str) -> None:
    assert call("GET", f"{url}/409") == HttpAnswer(409, {"method": "GET", "sent": None})


def test_what_is_no_json_is_nothing(url: str) -> None:
    assert call("GET", f"{url}/500/plain") == HttpAnswer(500, None)


@pytest.mark.parametrize(("status", "succeeds"), [(200, True), (404, False), (503, False)])
def test_only_a_success_succeeds(url: str, status: int, succeeds: bool) -> None:
    assert get_succeeds(f"{url}/{status}") is succeeds


def test_no_proxy_is_asked_about_our_own_machine(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://{LOOPBACK}:{choose_port()}")
    assert get_succeeds(f"{url}/200")


def test_nobody_there_is_no_success() -> None:
    assert not get_succeeds(f"http://{LOOPBACK}:{choose_port()}/200")


def test_a_probe_reads_the_document_of_a_success(url: str) -> None:
    assert get_document(f"{url}/200") == {"method": "GET", "sent": None}
    assert get_document(f"{url}/200/plain") is None
    assert get_document(f"{url}/503") is None


@pytest.mark.parametrize("text", [b"no http\r\n\r\n", b""], ids=["no HTTP", "silence"])
def test_a_program_that_does_not_talk_http_has_no_document(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "_PROBE_TIMEOUT_S", 0.1)
    with saying(text) as address:
        assert get_document(address) is None
