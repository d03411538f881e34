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

    A registry is known by its normal URL, its login, its certificates and its time limit, however the URL is
    written. It is open until ``take_unused`` or ``close``; with ``most``, the one that was used longest ago
    is closed where there would be more. One that no entry allows is not kept: it opens nothing. A URL may
    hold a password, so no lookup uses ``[]``, whose error would show it.
    """

    def __init__(
        self, allowed: Destinations, secrets: Secrets | None = None, most: int | None = None
    ) -> None:
        """``allowed`` are the registries that feeds may name.

        ``secrets`` has the secrets that URLs name; without it those of the environment count.
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
        """Forget the registries that none of these URLs names, and return them, to be closed.

        Whoever asks for one later is given a new one.
        """
        used = set()
        for url in urls:
            with suppress(StatementError):
                used.add(_kind(url))
        with self._lock:
            unused = [kind for kind in self._opened if kind not in used]
            return [registry for kind in unused if (registry := self._opened.pop(kind, None)) is not None]

    def close(self) -> None:
        """Close them all."""
        for registry in self.take_unused(()):
            registry.close()


@lru_cache(maxsize=64)  # as the reading of URLs: one may have half a megabyte
def _kind(url: str) -> RegistryUri:
    """Return what all texts of one registry have in common."""
    uri = parse_registry_uri(url)
    return replace(uri, url=uri.normal_url, parameters=())
