"""Decides who may ask a process over HTTP (docs/security.md#http): by a request's Host, and by a token.

The owner of a web page can let the page's own name lead to 127.0.0.1. Then the page, in a browser, could read
what is served on loopback. Its requests have the page's name as their Host. So a request is answered only if
its Host is an address that is bound, or a name that is allowed.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidegate.errors import SettingsError

#: The time, in seconds, after which a connection is closed, so that a client that sends or reads too slowly
#: holds nothing for longer.
CONNECTION_S: Final = 30.0
#: The most connections at the same time. Further ones are closed after a tenth of a second.
MOST_CONNECTIONS: Final = 64
#: The most headers of a request, and the most bytes of one header and of the request line before the headers.
MOST_HEADERS: Final = 64
MOST_HEADER_BYTES: Final = 8_190
#: The path that needs no token: its answer says only that the process lives.
HEALTH: Final = "/health"
_BEARER: Final = "Bearer "
#: The variable with the token of workers and queries.
TOKEN: Final = "TIDEGATE_METRICS_TOKEN"  # noqa: S105 - its name


def usable_token(token: str | None, name: str) -> str:
    """Return the token, or an empty text for ``None``. Raises ``SettingsError`` if no client can send it.

    ``name`` is the name of the setting. An empty token is refused, since whoever sets a token wants requests
    to need one.
    """
    if token is None:
        return ""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError(
            f"{name} is set, and is no token: give it printable characters of ASCII without spaces, as "
            "`openssl rand -hex 32` makes them, or leave it unset"
        )
    return token


class Refusal(NamedTuple):
    """The reason why a request gets no answer: an HTTP status, and a sentence."""

    status: int
    sentence: str


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """The rules for requests: ``host`` is the bound address, ``allowed`` are further names.

    Without a ``token`` anybody may ask.
    """

    host: str
    allowed: frozenset[str] = frozenset()
    token: str = field(default="", repr=False)

    def refusal(self, path: str, host: str | None, authorization: str | None) -> Refusal | None:
        """Return why a request with these headers is refused, or ``None``. /health is answered without a
        token.
        """
        if not self._is_served(_name(host or "")):
            return Refusal(
                403, "This Host is not served here; TIDEGATE_METRICS_ALLOWED_HOSTS lists the names that are."
            )
        if self.token and path != HEALTH and not self._is_token(authorization or ""):
            return Refusal(401, "A token is needed: Authorization: Bearer <TIDEGATE_METRICS_TOKEN>.")
        return None

    def _is_served(self, name: str) -> bool:
        if name in self.allowed or name == self.host.lower():
            return True
        bound, asked = _address(self.host), _address(name)
        if self.host == "localhost" or (bound is not None and bound.is_loopback):
            return name == "localhost" or (asked is not None and asked.is_loopback)
        # Bound to all addresses: a numeric address cannot be given another meaning, unlike a name.
        return bound is not None and bound.is_unspecified and asked is not None

    def _is_token(self, authorization: str) -> bool:
        given = authorization.removeprefix(_BEARER)
        return given != authorization and hmac.compare_digest(
            given.encode("utf-8", "surrogateescape"), self.token.encode()
        )


def allowed_hosts(text: str) -> frozenset[str]:
    """Return the names of a comma-separated list, in small letters."""
    return frozenset(name.strip().lower() for name in text.split(",") if name.strip())


def require_protected(host: str, *, tls: bool, plaintext: bool) -> None:
    """Raise ``SettingsError`` for an address that others can reach, without TLS and without permission for
    that.
    """
    if tls or plaintext or is_loopback(host):
        return
    raise SettingsError(
        f"metrics_host is {host}, which others on the network reach, and nothing there would be encrypted: "
        "give metrics_tls_certificate and metrics_tls_key, or set metrics_plaintext to true where the "
        "network is trusted (a container whose port is published on loopback)"
    )


def is_loopback(host: str) -> bool:
    """Return whether only processes of this machine can reach the address."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def url_of(host: str, port: int, *, tls: bool) -> str:
    """Return the URL of a server that listens at ``host`` and ``port``."""
    shown = f"[{host}]" if ":" in host else host
    return f"http{'s' if tls else ''}://{shown}:{port}"


def _name(host: str) -> str:
    """Return the host of a Host header, without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
