"""Decides for every request whether it is allowed, before anything is done for it.

1. The request's ``Host`` has to name this server. Otherwise any site could give its own name this server's
   address, and read loopback through the browser of a visitor.
2. If a browser sends an ``Origin``, it has to be this server too. Otherwise every page could open a WebSocket
   here. For some requests a browser sends only ``Sec-Fetch-Site``, for example if a page wants a script or an
   image. Such requests of pages of another site are refused.
3. The request must have no body, since no answer here reads one.
4. If there is a secret, all requests but those for the pages, their scripts and the health need
   ``Authorization: Bearer <secret>``.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.serve.addresses import ListenAddress, is_loopback_number
from tidegate.serve.metrics import ServeCounts

_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^:\[\]/@?#\s]+)(?::\d{1,5})?")
_UNSPECIFIED: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - names of addresses, nothing is bound
#: The paths that need no secret: a browser has to get the pages before it can send one. They show no secret.
_OPEN_PATHS: Final = frozenset(
    {"/", "/feeds.html", "/feeds.js", "/page.js", "/page.css", "/tidegate.js", "/health"}
)
_BEARER: Final = "bearer "
_CROSS_SITE: Final = "cross-site"
_NOT_ALLOWED: Final = "28000"
_BAD_REQUEST: Final = "22023"
_HEADERS: Final = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: {"Connection": "close"},  # since the body is not read
}


@dataclass(frozen=True, slots=True)
class WebAccess:
    """The rules for requests to the web front: which token and which host names are accepted.

    Attributes:
        address: where the front listens.
        secret: the bearer token; empty for none.
        allowed_hosts: further names of this server, in lower case.
    """

    address: ListenAddress
    secret: str = field(default="", repr=False)
    allowed_hosts: frozenset[str] = frozenset()

    def allows_host(self, host: str) -> bool:
        """Whether a ``Host`` header names this server."""
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match["name"].lower()
        if name in self.allowed_hosts:
            return True
        if self.address.is_loopback:
            return name == "localhost" or is_loopback_number(name)
        return (
            _is_number(name) if self.address.host in _UNSPECIFIED else name.strip("[]") == self.address.host
        )

    def allows_origin(self, origin: str, host: str) -> bool:
        """Whether an ``Origin`` names the server that the request went to."""
        scheme, _, place = origin.partition("://")
        return scheme in ("http", "https") and place.lower() == host.lower()

    def allows_secret(self, authorization: str) -> bool:
        """Whether an ``Authorization`` header has the secret, or no secret is needed."""
        given = authorization[len(_BEARER) :] if authorization.lower().startswith(_BEARER) else ""
        return not self.secret or hmac.compare_digest(given.strip().encode(), self.secret.encode())


class GuardedApp:
    """Refuses requests that are not allowed, and passes the others on."""

    def __init__(self, app: ASGIApp, access: WebAccess, counts: ServeCounts | None = None) -> None:
        self._app = app
        self._counts = counts or ServeCounts()
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope["path"], _single_headers(scope["headers"]))
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})  # it was not accepted yet, so this is a 403
        else:
            status, code, message = refusal
            self._counts.refused_logins["web"] += status is HTTPStatus.UNAUTHORIZED
            headers = _HEADERS.get(status)
            sqlstate = _BAD_REQUEST if status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE else _NOT_ALLOWED
            body = {"error": {"code": code, "sqlstate": sqlstate, "message": message}}
            await JSONResponse(body, status, headers)(scope, receive, send)

    def _refusal(self, path: str, headers: Mapping[str, str]) -> tuple[HTTPStatus, str, str] | None:
        host = headers.get("host", "")
        if not self._access.allows_host(host):
            text = (
                "The request's Host names another server: use the address, or allow the name (--allow-host)"
            )
            return HTTPStatus.FORBIDDEN, "host_refused", text
        elsewhere = "origin" in headers and not self._access.allows_origin(headers["origin"], host)
        if elsewhere or (headers.get("sec-fetch-site") == _CROSS_SITE and not _is_visit(path, headers)):
            text = "A page of another server asks: it may not read from this one"
            return HTTPStatus.FORBIDDEN, "origin_refused", text
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_refused", "Send the request without a body"
        if path not in _OPEN_PATHS and not self._access.allows_secret(headers.get("authorization", "")):
            return (
                HTTPStatus.UNAUTHORIZED,
                "token_wanted",
                "Send Authorization: Bearer with the server's token",
            )
        return None


def _is_visit(path: str, headers: Mapping[str, str]) -> bool:
    """Whether somebody follows a link to one of the pages. The page that has the link cannot read it."""
    return path in _OPEN_PATHS and headers.get("sec-fetch-mode") == "navigate"


def _single_headers(headers: Collection[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by their names. A header that comes twice gets a value that matches nothing."""
    found: dict[str, str] = {}
    for raw_name, value in headers:
        name = raw_name.decode("latin-1").lower()
        found[name] = "\0" if name in found else value.decode("latin-1")
    return found


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
