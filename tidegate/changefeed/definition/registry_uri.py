"""The schema registry's URL: ``https://user:password@host:port/path?timeout=30s&ca_cert=...``.

Parameter names are CockroachDB's (``pkg/ccl/changefeedccl/schema_registry.go``). Certificates and keys are
PEM in base 64. Secrets are kept out of ``repr``, of error texts and of ``redacted()``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from tidegate.changefeed.definition.duration import parse_duration
from tidegate.changefeed.definition.read_uris import remembered
from tidegate.changefeed.definition.secret_reference import is_reference, secret_name
from tidegate.changefeed.definition.uri_parameters import (
    REDACTED,
    SECRET_PARAMETERS,
    pem_parameter,
    unknown_parameters,
)
from tidegate.errors import StatementError

_SCHEMES: Final = ("http", "https")
_PARAMETERS: Final = ("ca_cert", "client_cert", "client_key", "password", "timeout")
_PORTS: Final = {"http": 80, "https": 443}
_DEFAULT_TIMEOUT: Final = "30s"
_NANOS_PER_SECOND: Final = 1_000_000_000
_LONGEST_TIMEOUT_NS: Final = 600 * _NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class RegistryUri:
    """A schema registry: ``url`` without login and parameters, the login, and the certificates.

    ``timeout_s`` is for one request, at most 10 minutes. Empty text and bytes stand for what was not given.
    User, password and ``key_reference`` may be references (``secret_reference.py``); ``resolved`` puts their
    secrets in.
    """

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    timeout_s: float = 30.0
    ca_cert: bytes = b""
    client_cert: bytes = b""
    client_key: bytes = field(default=b"", repr=False)
    key_reference: str = ""
    parameters: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def place(self) -> str:
        """The host and port, as ``host:port``."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{_port(parts)}"

    @property
    def normal_url(self) -> str:
        """``url`` with its port even if that is the default: ``https://registry.example:443/path``."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}:{_port(parts)}{parts.path}"

    @property
    def shown(self) -> str:
        """The URL for messages: no secrets, and none of its parameters, which may be whole certificates."""
        return self.redacted().partition("?")[0]

    @property
    def references(self) -> tuple[str, ...]:
        """The references to secrets that the URI holds."""
        return tuple(filter(is_reference, (self.user, self.password, self.key_reference)))

    @property
    def has_literal_secret(self) -> bool:
        """Whether the URI holds a secret itself, and not a reference.

        A user without a password may be a token, and so counts as a secret.
        """
        login = self.password or self.user
        return bool(self.client_key) or bool(login and not is_reference(login))

    def resolved(self, secret: Callable[[str], str]) -> RegistryUri:
        """Return the same URI with secrets in place of references; ``secret`` returns the secret of a name.

        Raises ``StatementError`` for a key that is no PEM, and what ``secret`` raises.
        """

        def value(text: str) -> str:
            return secret(secret_name(text)) if is_reference(text) else text

        key = self.client_key
        if self.key_reference:
            key = value(self.key_reference).encode()
            if b"-----BEGIN " not in key:
                raise StatementError("the secret that client_key names must be PEM text (-----BEGIN ...)")
        return replace(
            self, user=value(self.user), password=value(self.password), client_key=key, key_reference=""
        )

    def redacted(self) -> str:
        """Return the URL as it was given, with ``redacted`` in place of every secret.

        A user without a password is a secret, since registries accept tokens there.
        """
        scheme, _, rest = self.url.partition("://")
        login = self._shown_login()
        shown = [
            f"{name}={REDACTED if _hidden(name, value) else quote(value, safe='/:,')}"
            for name, value in self.parameters
        ]
        return f"{scheme}://{login}{'@' if login else ''}{rest}{'?' if shown else ''}{'&'.join(shown)}"

    def _shown_login(self) -> str:
        user = quote(self.user, safe="")
        if not self.password:
            return user if is_reference(self.user) else REDACTED if self.user else ""
        if "password" in dict(self.parameters):
            return user
        return f"{user}:{quote(self.password, safe='') if is_reference(self.password) else REDACTED}"


def _port(parts: SplitResult) -> int:
    return _PORTS[parts.scheme] if parts.port is None else parts.port


def _hidden(name: str, value: str) -> bool:
    return name in (*SECRET_PARAMETERS, "password") and not is_reference(value)


@remembered
def parse_registry_uri(text: str) -> RegistryUri:
    """Read a registry's URL.

    Raises ``StatementError`` for a text that is no such URL. The error has no position and no secrets.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise StatementError(
            "confluent_schema_registry is not a URL: its host or port cannot be read"
        ) from None
    if parts.scheme not in _SCHEMES or not host:
        raise StatementError("confluent_schema_registry needs a URL: https://host:port or http://host:port")
    if re.search(r"[\s,]", host):
        raise StatementError("confluent_schema_registry names more than one host: give one URL")
    if re.search(r"[^\w.:%-]", host):
        raise StatementError("confluent_schema_registry is not a URL: its host or port cannot be read")
    if "@" in parts.path + parts.query + parts.fragment:
        # Most likely the URL was cut inside of its password, which would then show as a path.
        raise StatementError(
            "confluent_schema_registry has an @ behind its host: in user and password write %2F for /,"
            " %3F for ?, %23 for # and %40 for @"
        )
    if parts.fragment:
        raise StatementError("confluent_schema_registry has a #: write %23 where a value needs one")
    pairs = tuple(parse_qsl(parts.query, keep_blank_values=True))
    given = dict(pairs)
    _check_names(given, len(pairs))
    shown_host = f"[{host}]" if ":" in host else host
    password, key = unquote(parts.password or ""), given.get("client_key", "")
    if password and "password" in given:
        raise StatementError("confluent_schema_registry has two passwords: give one")
    uri = RegistryUri(
        url=f"{parts.scheme}://{shown_host}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}",
        user=unquote(parts.username or ""),
        password=password or given.get("password", ""),
        timeout_s=_timeout_s(given.get("timeout", _DEFAULT_TIMEOUT)),
        ca_cert=pem_parameter(given, "ca_cert"),
        client_cert=pem_parameter(given, "client_cert"),
        client_key=b"" if is_reference(key) else pem_parameter(given, "client_key"),
        key_reference=key if is_reference(key) else "",
        parameters=pairs,
    )
    _check_certificates(uri)
    for reference in uri.references:
        secret_name(reference)
    return uri


def _check_names(given: dict[str, str], count: int) -> None:
    unknown = sorted(given.keys() - set(_PARAMETERS))
    if unknown:
        raise StatementError(unknown_parameters("unknown schema registry parameters", unknown, _PARAMETERS))
    if len(given) < count:
        raise StatementError("a parameter of confluent_schema_registry is given twice")


def _timeout_s(text: str) -> float:
    try:
        nanos = parse_duration(text)
    except ValueError as error:
        raise StatementError(f"param timeout of confluent_schema_registry: {error}") from None
    if nanos <= 0:
        raise StatementError("param timeout of confluent_schema_registry must be above zero")
    if nanos > _LONGEST_TIMEOUT_NS:
        raise StatementError(
            "param timeout of confluent_schema_registry must be 10m or less: a registry that says nothing "
            "holds each call for that long, and is asked again afterwards anyway"
        )
    return nanos / _NANOS_PER_SECOND


def _check_certificates(uri: RegistryUri) -> None:
    if bool(uri.client_cert) != bool(uri.client_key or uri.key_reference):
        raise StatementError("client_cert and client_key belong together: give both or none")
    if (uri.ca_cert or uri.client_cert) and not uri.url.startswith("https://"):
        raise StatementError("ca_cert and client_cert of confluent_schema_registry need an https URL")
