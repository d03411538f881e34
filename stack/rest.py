"""Talks to a server of the stack over HTTP, in JSON."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

_PROBE_TIMEOUT_S = 2.0
_CALL_TIMEOUT_S = 90.0  # Connect itself allows a request so much time

# Requests to our own machine must not go to a proxy that the environment names.
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


class HttpAnswer(NamedTuple):
    """An HTTP status and the document that came with it; None if there was no JSON."""

    status: int
    body: Any


def get_document(url: str) -> Any:
    """Return the JSON that answers a GET of ``url`` within two seconds; None if there is none."""
    try:
        with _open(url, timeout=_PROBE_TIMEOUT_S) as response:
            return _document(response.read())
    except (OSError, http.client.HTTPException):
        return None


def get_succeeds(url: str) -> bool:
    """Whether a GET of ``url`` is answered with a status of success within two seconds."""
    try:
        with _open(url, timeout=_PROBE_TIMEOUT_S):
            return True
    except (OSError, http.client.HTTPException):
        return False


def call(method: str, url: str, body: object = None) -> HttpAnswer:
    """Make a request, and return the answer, whatever its status is.

    Raises:
        OSError: nobody answered within 90 s.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 - always http, on loopback
        url, data, {"Content-Type": "application/json"}, method=method
    )
    try:
        with _open(request, timeout=_CALL_TIMEOUT_S) as response:
            return HttpAnswer(response.status, _document(response.read()))
    except urllib.error.HTTPError as refused:
        with refused:
            return HttpAnswer(refused.code, _document(refused.read()))


def _document(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
