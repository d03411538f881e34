"""The Kafka clusters and schema registries that feeds may name, and the logins for them (docs/security.md).

A feed's creator chooses the address of its sink. So a login is used only at addresses that the operator has
named: the engine's own login at ``bootstrap_servers``, and any other login at the servers of its entry in
``destinations_file``. No process connects to any other address, not even to ask which cluster is there, since
the process would have to log in first. The same file bounds schema registries: a registry that no entry names
is not asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Protocol

from tidegate.changefeed.definition.registry_uri import RegistryUri
from tidegate.changefeed.definition.secret_reference import secret_name
from tidegate.changefeed.definition.sink_servers import normal_servers
from tidegate.errors import RegistryNotAllowed, SinkNotAllowed

#: The chapters of the page about security that describe entries.
_PAGE: Final = "docs/security.md#other-clusters"
_REGISTRIES_PAGE: Final = "docs/security.md#schema-registries"
_ANY: Final = "*"
_STANDS_FOR: Final = re.compile("[A-Za-z0-9_-]*")


class OwnSecrets(Protocol):
    """Returns the secrets that the operator's own files name."""

    def named_by_operator(self, name: str) -> str:
        """Return the secret of this name. Raises ``SecretMissing`` if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """Another cluster: the servers that sinks may name, the feeds that may write there, and the login.

    In ``servers`` and ``feeds`` a ``*`` stands for any letters, digits, ``-`` and ``_``. ``own_login`` is for
    further addresses of the engine's own cluster. Passwords are references to secrets.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    servers: tuple[str, ...]
    feeds: tuple[str, ...] = (_ANY,)
    own_login: bool = False
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: str | None = field(default=None, repr=False)
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)

    def names(self, servers: Iterable[str]) -> bool:
        """Return whether each of these normal servers fits a pattern in the entry's ``servers``."""
        return all(any(fits(pattern, server) for pattern in self.servers) for server in servers)

    def admits(self, feed_id: str) -> bool:
        """Return whether the feed may write there."""
        return any(fits(pattern, feed_id) for pattern in self.feeds)

    def login(self, secrets: OwnSecrets) -> dict[str, str | None]:
        """Return settings of a connection, by their names. Return none if the engine's own login is used.

        Raises ``SecretMissing`` if there is no secret for one of the entry's passwords.
        """
        if self.own_login:
            return {}

        def value(reference: str | None) -> str | None:
            return None if reference is None else secrets.named_by_operator(secret_name(reference))

        return {
            "security_protocol": self.security_protocol,
            "ssl_ca_location": self.ssl_ca_location,
            "ssl_certificate_location": self.ssl_certificate_location,
            "ssl_key_location": self.ssl_key_location,
            "ssl_key_password": value(self.ssl_key_password),
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_username": self.sasl_username,
            "sasl_password": value(self.sasl_password),
        }


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """Schema registries that every feed may name, by normal URLs: ``https://host:port/path``.

    A ``*`` in host and port stands for any letters, digits, ``-`` and ``_``.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    urls: tuple[str, ...]

    def names(self, registry: RegistryUri) -> bool:
        """Return whether the registry's URL fits a pattern in the entry's ``urls``."""
        return any(fits(pattern, registry.normal_url) for pattern in self.urls)


@dataclass(frozen=True, slots=True)
class Destinations:
    """The clusters and registries that an operator allows, as entries by name (TIDEGATE_DESTINATIONS_FILE).

    Without entries, feeds write only to the engine's own cluster, and no registry is asked.
    """

    clusters: tuple[tuple[str, ClusterEntry], ...] = field(default=())
    registries: tuple[tuple[str, RegistryEntry], ...] = field(default=())

    def entry(self, servers: Iterable[str], feed_id: str, bootstrap_servers: str) -> ClusterEntry:
        """Return the entry for a sink on another cluster: the first one that names all of its servers.

        So all feeds with these servers have the same entry. If all servers are among the engine's own
        ``bootstrap_servers``, the file needs no entry: the result is then an entry with the own login. Raises
        ``SinkNotAllowed`` if there is no entry, or if the entry does not admit the feed.
        """
        wanted = normal_servers(servers)
        if set(wanted) <= set(normal_servers(bootstrap_servers.split(","))):
            return ClusterEntry(wanted, own_login=True)
        name, entry = self.require_named(wanted, feed_id)
        if entry.admits(feed_id):
            return entry
        raise SinkNotAllowed(
            f"feed {feed_id} may not write to the Kafka cluster at {','.join(wanted)}, and nothing was sent "
            f"there: the entry clusters.{name} of TIDEGATE_DESTINATIONS_FILE does not admit it. To allow it, "
            f"add '{feed_id}' to the entry's feeds, and start the process again ({_PAGE})"
        )

    def require_named(self, servers: Sequence[str], feed_id: str) -> tuple[str, ClusterEntry]:
        """Return the name of the first entry that names all of these normal servers, and the entry.

        Raises ``SinkNotAllowed`` if no entry names them all.
        """
        for name, entry in self.clusters:
            if entry.names(servers):
                return name, entry
        listed = ", ".join(f"'{server}'" for server in servers)
        raise SinkNotAllowed(
            f"feed {feed_id} may not write to the Kafka cluster at {','.join(servers)}, and nothing was sent "
            "there: it is none of bootstrap_servers, and no entry of TIDEGATE_DESTINATIONS_FILE names it. To "
            f"allow it, write [clusters.NAME] with servers = [{listed}] and the login for it (own_login = "
            "true where it is another address of the own cluster) into that file, and start the process "
            f"again ({_PAGE})"
        )

    def names_registry(self, registry: RegistryUri) -> bool:
        """Return whether an entry names the registry."""
        return any(entry.names(registry) for _, entry in self.registries)

    def names_of_registry(self, registry: RegistryUri) -> list[str]:
        """Return names of a registry: its normal URL, and ``entry NAME`` of each entry that names it.

        Two URLs count as one registry if they have one of these names in common.
        """
        entries = (f"entry {name}" for name, entry in self.registries if entry.names(registry))
        return [registry.normal_url, *entries]

    def require_registry(self, registry: RegistryUri) -> None:
        """Raise ``RegistryNotAllowed`` if no entry names the registry."""
        if self.names_registry(registry):
            return
        raise RegistryNotAllowed(
            f"no feed may use the schema registry at {registry.shown}, and nothing was sent there: no entry "
            "of TIDEGATE_DESTINATIONS_FILE names it. To allow it, write [registries.NAME] with urls = "
            f"['{registry.normal_url}'] into that file, and start the process again ({_REGISTRIES_PAGE})"
        )


#: No entry: feeds write only to the engine's own cluster, and use no registry.
NOWHERE_ELSE: Final = Destinations()


def fits(pattern: str, text: str) -> bool:
    """Return whether a text fits a pattern, in which ``*`` stands for any letters, digits, ``-`` and ``_``.

    For example, ``kafka-3.a:9092`` fits ``kafka-*.a:9092`` and ``kafka-3.b.a:9092`` does not, since a ``*``
    does not stand for a dot. The pieces between the ``*`` are looked for one after the other, so the time is
    linear. Each piece is taken at the first place where it is found. If the search cannot go on from there, a
    later place would not help: a ``*`` would have to stand for the characters that stopped the search.
    """
    first, *others = pattern.split(_ANY)
    if not others:
        return text == first
    *between, last = others
    if not text.startswith(first):
        return False
    at = len(first)
    for piece in between:
        found = text.find(piece, at)
        if found < 0 or not _STANDS_FOR.fullmatch(text, at, found):
            return False
        at = found + len(piece)
    end = len(text) - len(last)
    return end >= at and text.endswith(last) and _STANDS_FOR.fullmatch(text, at, end) is not None
