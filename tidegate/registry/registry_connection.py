"""Calls a schema registry by confluent-kafka's client.

The client's own retries are off, since they are invisible and nobody would learn meanwhile that the registry
is away. The client's caches are emptied after each call, since they have no bound.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Self, TypeAlias, TypeVar

from confluent_kafka.schema_registry import SchemaRegistryClient

from tidegate.access.destinations import Destinations
from tidegate.access.secret_store import Secrets, SecretStore
from tidegate.changefeed.definition.registry_uri import RegistryUri
from tidegate.errors import (
    RegistryAway,
    RegistryDenied,
    RegistryNotAllowed,
    SecretMissing,
    StatementError,
    TidegateError,
)
from tidegate.registry.registry_answers import bound_answers
from tidegate.registry.registry_faults import Errand, RegistryFaults

#: The type of confluent-kafka's client, whose annotations are not complete.
Client: TypeAlias = Any
_Answer = TypeVar("_Answer")


class RegistryConnection:
    """The HTTP connections to one registry, for any number of threads. Close it, or use it in a ``with``.

    For a registry that is not among the ``allowed`` no client is opened. Secrets that its URL names are
    looked up when the client is opened: with the first call, and again after a call that was denied. If there
    is no room on disk for the certificates, the client is opened with the first call, too. Raises
    ``StatementError`` for certificates that cannot be used.
    """

    def __init__(self, uri: RegistryUri, allowed: Destinations, secrets: Secrets | None = None) -> None:
        self.faults = RegistryFaults(uri)
        self._allowed = allowed
        self._uri = uri
        self._secrets = SecretStore.of_environment() if secrets is None else secrets
        self._opening = Lock()
        opens_now = allowed.names_registry(uri) and not uri.references
        self._client: Client = None
        if opens_now:
            with suppress(RegistryAway):
                self._client = _open(uri)

    def __repr__(self) -> str:
        return f"RegistryConnection({self.faults.shown})"

    def call(self, errand: Errand, ask: Callable[[Client], _Answer]) -> _Answer:
        """Return what ``ask`` returns; ``ask`` makes the call with the client, and reads the answer.

        ``ask`` raises ``ValueError`` for an answer that no registry gives. Connecting, sending, every piece
        of the answer's headers, and its body may each take as long as the registry's timeout. Raises
        ``RegistryAway`` if no registry answers, ``RegistryDenied`` if the registry refuses the login or is
        not among the ``allowed``, and ``SchemaRejected`` if it rejects a schema.
        """
        self._require_allowed(errand)
        client = self._opened(errand)
        try:
            return ask(client)
        except TidegateError:
            raise
        except Exception as error:  # the client passes on every error that an odd answer causes
            fault = self.faults.of(errand, error)
        finally:
            client.clear_caches()
        if isinstance(fault, RegistryDenied):
            self._forget(client)
        raise fault

    def close(self) -> None:
        """Close the connections, if any are open. Then later calls raise ``RegistryAway``."""
        if self._client is not None:
            self._client.close()

    def _require_allowed(self, errand: Errand) -> None:
        try:
            self._allowed.require_registry(self._uri)
        except RegistryNotAllowed as error:
            raise RegistryNotAllowed(f"{error}. Meanwhile {errand.meanwhile}.") from None

    def _opened(self, errand: Errand) -> Client:
        """Return the client, opened with the present secrets if the URL names some."""
        with self._opening:
            if self._client is None:
                try:
                    uri = self._uri.resolved(lambda name: self._secrets.get(name, self._uri.place))
                    self.faults = RegistryFaults(uri, shown=self.faults.shown)
                    self._client = _open(uri)
                except (SecretMissing, StatementError) as error:
                    raise RegistryDenied(f"{error} Meanwhile {errand.meanwhile}.") from None
                except RegistryAway as error:
                    raise RegistryAway(f"{error} Meanwhile {errand.meanwhile}.") from None
            return self._client

    def _forget(self, client: Client) -> None:
        """Make the next call look the secrets up again, since they may have changed."""
        if not self._uri.references:
            return
        with self._opening:
            if self._client is client:
                self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_certificates(uri: RegistryUri) -> None:
    """Raise ``StatementError`` for certificates that cannot be used. Raise nothing if the URL names secrets.

    Raises ``RegistryAway`` if there is no room on disk for the certificates.
    """
    if not uri.references:
        _open(uri).close()


def _open(uri: RegistryUri) -> Client:
    # The client wants files, and has read them when its constructor returns. Without certificates nothing has
    # to be written, and no directory for temporary files is needed.
    has_files = bool(uri.ca_cert or uri.client_cert)
    try:
        with TemporaryDirectory(prefix="tidegate-") if has_files else nullcontext("") as folder:
            client = _client(uri, Path(folder))
    except OSError as error:
        raise RegistryAway(
            f"The certificates of the schema registry at {uri.shown} cannot be written to temporary files"
            f" ({error.strerror or error}): make room there, or let TMPDIR name another directory."
        ) from None
    bound_answers(client._rest_client.session, uri.timeout_s)  # noqa: SLF001 - there is no setting for it
    return client


def _client(uri: RegistryUri, folder: Path) -> Client:
    config: dict[str, Any] = {
        "url": uri.url.replace(",", "%2C"),  # in the client's text, a comma separates URLs
        "timeout": uri.timeout_s,
        "max.retries": 0,
    }
    if uri.user or uri.password:
        config["basic.auth.user.info"] = f"{uri.user}:{uri.password}"
    config |= _certificate_files(uri, folder)
    try:
        return SchemaRegistryClient(config)
    except ssl.SSLError as error:
        raise StatementError(
            "ca_cert, client_cert or client_key of confluent_schema_registry cannot be used"
            f" ({error.reason or 'unreadable'}): give PEM in base 64, certificate and key of one pair,"
            " and the key without a password"
        ) from None
    except ValueError:
        raise StatementError("confluent_schema_registry is a URL that no HTTP client takes") from None


def _certificate_files(uri: RegistryUri, folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if not uri.url.startswith("https://"):
        config["ssl.ca.location"] = False  # without TLS there is no need to read all certificate authorities
    if uri.ca_cert:
        config["ssl.ca.location"] = _private_file(folder / "ca.pem", uri.ca_cert)
    if uri.client_cert:
        config["ssl.certificate.location"] = _private_file(folder / "cert.pem", uri.client_cert)
        config["ssl.key.location"] = _private_file(folder / "key.pem", uri.client_key)
        # Without this setting OpenSSL would ask the terminal for the password of an encrypted key.
        config["ssl.key.password"] = ""
    return config


def _private_file(path: Path, content: bytes) -> str:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return str(path)
