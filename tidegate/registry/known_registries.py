"""The schema registries of a process: one for each URL that feeds name."""

from __future__ import annotations

from threading import Lock

from tidegate.access.destinations import Destinations
from tidegate.access.secret_store import Secrets
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.registry.schema_registration import SchemaRegistrar


class SchemaRegistries:
    """The schema registries that feeds use, by the text of their URL. Feeds share connections, ids and calls.

    A registry stays open as long as the process lives. A feed that is dropped leaves some sockets that time
    out; there are as many as registries, not as many as feeds. A URL may hold a password, so no lookup uses
    ``[]``, whose error would show it.
    """

    def __init__(self, allowed: Destinations, secrets: Secrets | None = None) -> None:
        """``allowed`` are the registries that feeds may name.

        ``secrets`` has the secrets that URLs name; without it those of the environment count.
        """
        self._allowed = allowed
        self._secrets = secrets
        self._lock = Lock()
        self._opened: dict[str, SchemaRegistrar] = {}

    def of(self, url: str) -> SchemaRegistrar:
        """Return the registry at this URL, without a call to it.

        Raises ``StatementError`` for a URL or certificates that cannot be used.
        """
        with self._lock:
            registry = self._opened.get(url)
            if registry is None:
                registry = self._opened[url] = SchemaRegistrar(
                    parse_registry_uri(url), self._allowed, self._secrets
                )
            return registry

    def close(self) -> None:
        """Close them all."""
        with self._lock:
            for registry in self._opened.values():
                registry.close()
            self._opened.clear()
