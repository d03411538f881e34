"""Reads the operator's file of destinations, once, when a process starts.

The file is TOML. Every error names the file and the key.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from tidegate.access.destinations import ClusterEntry, Destinations, RegistryEntry
from tidegate.changefeed.definition.secret_reference import is_reference, secret_name
from tidegate.changefeed.definition.sink_servers import normal_servers
from tidegate.errors import SettingsError, StatementError, brief

_VARIABLE: Final = "TIDEGATE_DESTINATIONS_FILE"
_SERVER: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._*-]+):([0-9]{1,5}|\*)")
#: Scheme, host, port and path.
_URL: Final = re.compile(
    r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9._*-]+)(?::([0-9]{1,5}|\*))?((?:/[A-Za-z0-9._~-]+)*)/?"
)
_PORTS: Final = {"http": "80", "https": "443"}
_FEEDS: Final = re.compile(r"[A-Za-z0-9_*-]{1,64}")
_STAR: Final = "* stands for any letters, digits, - and _"
_LOGIN: Final = ("security_protocol", "ssl_", "sasl_")
#: Texts for pydantic's error types.
_DEMANDS: Final = {
    "unexpected_keyword_argument": "there is no such key",
    "extra_forbidden": "there is no such key",
    "missing": "is missing",
}
_Check: TypeAlias = Callable[[Any, Collection[str]], Any]


def destinations_of_environment() -> Destinations:
    """Return the entries of the file that TIDEGATE_DESTINATIONS_FILE names.

    Raises as ``read_destinations`` does.
    """
    path = os.environ.get(_VARIABLE)
    return read_destinations(Path(path) if path else None)


def read_destinations(path: Path | None) -> Destinations:
    """Return the entries of the file, or no entries if there is no ``path``.

    Raises ``SettingsError`` for a file that cannot be read or used.
    """
    if path is None:
        return Destinations()
    found = _parsed(path)
    for table in found:
        if table not in ("clusters", "registries"):
            raise _fault(path, table, "there is no such table: write [clusters.NAME] or [registries.NAME]")
    return Destinations(
        _entries(path, "clusters", ClusterEntry, found, _checked_cluster),
        _entries(path, "registries", RegistryEntry, found, _checked_registry),
    )


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise SettingsError(f"{_VARIABLE}: {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # RecursionError: too many nested arrays
        raise SettingsError(f"{_VARIABLE}: {path} is not TOML in UTF-8: {error}") from None


def _entries(path: Path, table: str, kind: type[Any], found: dict[str, Any], check: _Check) -> Any:
    from pydantic import TypeAdapter, ValidationError  # only a process with such a file needs it

    given = found.get(table, {})
    try:
        entries = TypeAdapter(dict[str, kind]).validate_python(given)  # type: ignore[valid-type]
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        key = ".".join((table, *map(str, first["loc"])))
        raise _fault(path, key, _DEMANDS.get(first["type"], first["msg"])) from None
    checked = []
    for name, entry in entries.items():
        try:
            checked.append((name, check(entry, given[name].keys())))
        except (ValueError, StatementError) as error:
            raise _fault(path, f"{table}.{name}", str(error)) from None
    return tuple(checked)


def _checked_cluster(entry: ClusterEntry, keys: Collection[str]) -> ClusterEntry:
    """Return the entry with its servers in their normal form.

    Raises ``ValueError`` for an entry that cannot be used.
    """
    servers = normal_servers(entry.servers)
    if not servers or not all(_SERVER.fullmatch(server) for server in servers):
        raise ValueError(f"servers must be host:port each, in which {_STAR}")
    for server in servers:
        _require_last_label(server.rpartition(":")[0], "servers")
    if not all(_FEEDS.fullmatch(feed) for feed in entry.feeds):
        raise ValueError(f"feeds must be ids of feeds, in which {_STAR}")
    login = [key for key in keys if key.startswith(_LOGIN)]
    if entry.own_login and login:
        raise ValueError(f"own_login and {login[0]} exclude each other: it is one login or the other")
    _check_tls(entry)
    _check_sasl(entry)
    return replace(entry, servers=servers)


def _checked_registry(entry: RegistryEntry, _: Collection[str]) -> RegistryEntry:
    """Return the entry with its URLs in their normal form.

    Raises ``ValueError`` for an entry that cannot be used.
    """
    if not entry.urls:
        raise ValueError("urls must have one URL at least")
    return replace(entry, urls=tuple(map(_normal_url, entry.urls)))


def _normal_url(url: str) -> str:
    """Return the pattern in the form of ``RegistryUri.normal_url``.

    Raises ``ValueError`` for a text that is no pattern of URLs.
    """
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError(
            "urls must be https://host:port/path or http://host:port/path each, in small letters and without "
            f"a login, in whose host and port {_STAR}"
        )
    scheme, host, port, path = found.groups()
    _require_last_label(host, "urls")
    return f"{scheme}://{host}:{port or _PORTS[scheme]}{path}"


def _require_last_label(host: str, key: str) -> None:
    if "*" in host.rstrip(".").rpartition(".")[2]:
        raise ValueError(
            f"the last label of a host in {key} must be written out: a * there would stand for addresses, "
            "and for names without a dot, localhost among them. Write each of these hosts, or a * before "
            "their domain, as in kafka-*.example"
        )


def _check_tls(entry: ClusterEntry) -> None:
    if not entry.security_protocol.endswith("SSL"):
        for key in ("ssl_ca_location", "ssl_certificate_location", "ssl_key_location", "ssl_key_password"):
            if getattr(entry, key) is not None:
                raise ValueError(f"{key} needs security_protocol SSL or SASL_SSL")
    if (entry.ssl_certificate_location is None) != (entry.ssl_key_location is None):
        raise ValueError("ssl_certificate_location and ssl_key_location belong together: give both or none")
    _check_reference("ssl_key_password", entry.ssl_key_password)


def _check_sasl(entry: ClusterEntry) -> None:
    logs_in = entry.security_protocol.startswith("SASL")
    for key in ("sasl_username", "sasl_password"):
        if logs_in != (getattr(entry, key) is not None):
            need = "is missing" if logs_in else "needs security_protocol SASL_PLAINTEXT or SASL_SSL"
            raise ValueError(f"{key} {need}")
    _check_reference("sasl_password", entry.sasl_password)


def _check_reference(key: str, value: str | None) -> None:
    if value is None:
        return
    if not is_reference(value):
        raise ValueError(f"{key} must be secret://NAME: the secret itself belongs in the secret store")
    secret_name(value)


def _fault(path: Path, key: str, fault: str) -> SettingsError:
    return SettingsError(brief(f"{_VARIABLE}: {path}, {key}: {fault}"))
