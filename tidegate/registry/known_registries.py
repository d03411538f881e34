"""The schema registries of a process: one for each URL and login that feeds name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from threading import Lock

from tidegate.access.destinations import Destinations
from tidegate.access.secret_store import Secrets
from tidegate.changefeed.definition.registry_uri import RegistryUri, parse_registry_uri
from tidegate.errors import StatementError
from tidegate.registry.schema_registration import SchemaRegistrar


class SchemaRegistries:
    """The schema registries that feeds use. Feeds share connections, ids and calls.

    Two URLs name the same registry if they have the same normal URL, login, certificates and time limit,
    however they are written. A registry is kept until ``take_unused`` or ``close``. With ``most``, at most so
    many are kept: the one that was used longest ago is closed when there would be more. A registry that no
    entry allows is not kept, since it opens no connection. A URL may hold a password, so no lookup uses
    ``[]``, whose ``KeyError`` would show the URL.
    """

    def __init__(
        self, allowed: Destinations, secrets: Secrets | None = None, most: int | None = None
    ) -> None:
        """``allowed`` are the registries that feeds may name.

        ``secrets`` has the secrets that URLs name. Without it, the secrets of the environment are used.
        """
        self._allowed = allowed
        self._secrets = secrets
        self._most = most
        self._lock = Lock()
        self._opened: OrderedDict[RegistryUri, SchemaRegistrar] = OrderedDict()

    def of(self, url: str) -> SchemaRegistrar:
        """Return the registry at this URL, without a call to it.

        Raises ``StatementError`` for a URL or certificates that cannot be used.
        """
        kind = _kind(url)
        with self._lock:
            registry = self._opened.get(kind)
            if registry is None:
                uri = parse_registry_uri(url)
                registry = SchemaRegistrar(uri, self._allowed, self._secrets)
                if not self._allowed.names_registry(uri):
                    return registry
                self._opened[kind] = registry
                while self._most is not None and len(self._opened) > self._most:
                    self._opened.popitem(last=False)[1].close()
            self._opened.move_to_end(kind)
            return registry

    def take_unused(self, urls: Iterable[str]) -> Sequence[SchemaRegistrar]:
        """Forget the registries that none of these URLs names, and return them. The caller closes them.

        If one of them is asked for later, ``of`` returns a new one.
        """
        used = set()
        for url in urls:
            with suppress(StatementError):
                used.add(_kind(url))
        with self._lock:
            unused = [kind for kind in self._opened if kind not in used]
            return [registry for kind in unused if (registry := self._opened.pop(kind, None)) is not None]

    def close(self) -> None:
        """Close all registries."""
        for registry in self.take_unused(()):
            registry.close()


@lru_cache(maxsize=64)  # few are kept, as in ``read_uris``: a URL may have half a megabyte
def _kind(url: str) -> RegistryUri:
    """Return the form that all URLs of one registry have in common."""
    uri = parse_registry_uri(url)
    return replace(uri, url=uri.normal_url, parameters=())
