"""The server: both fronts on one loop, from settings that are checked before anything listens."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidegate.access.server_tls import server_tls
from tidegate.errors import SettingsError
from tidegate.redaction import remember_secret
from tidegate.serve.addresses import ListenAddress, require_protection
from tidegate.serve.encoded_batches import EncodedBatches
from tidegate.serve.limits import ServeLimits
from tidegate.serve.postgres.front import PostgresFront
from tidegate.serve.postgres.login import Admission
from tidegate.serve.postgres.users_file import read_users
from tidegate.serve.stream_source import Subscriptions
from tidegate.serve.web.front import WebFront
from tidegate.serve.web.guard import WebAccess
from tidegate.serve.web.watched_feeds import WatchedFeeds

_OTHERS: Final = 0o077
_LEAST_CHARACTERS: Final = 16
_MOST_CHARACTERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The settings with which the server is started.

    Attributes:
        postgres: where the PostgreSQL front listens; ``None`` for no such front.
        web: where the web front listens; ``None`` for no such front.
        users: the file of users. Without it everybody is let in; this is allowed on loopback only.
        tls_certificate: PEM file of the certificate of both fronts.
        tls_key: PEM file of its key.
        token_file: the file of the web front's token.
        allowed_hosts: further host names of the web front.
        limits: the bounds of both fronts.
    """

    postgres: ListenAddress | None = None
    web: ListenAddress | None = None
    users: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    token_file: Path | None = None
    allowed_hosts: frozenset[str] = frozenset()
    limits: ServeLimits = field(default_factory=ServeLimits)


@dataclass(frozen=True, slots=True)
class CheckedSettings:
    """Settings whose files were read. They let no front be open to everybody on the network."""

    settings: ServeSettings
    admission: Admission
    token: str = field(repr=False)
    tls: ssl.SSLContext | None


def check_settings(settings: ServeSettings) -> CheckedSettings:
    """Read the files that settings name, and check the settings. Raises ``SettingsError``."""
    if settings.postgres is None and settings.web is None:
        raise SettingsError("There is no front to serve: give --postgres or --web an address")
    tls = server_tls(settings.tls_certificate, settings.tls_key, ("--tls-cert", "--tls-key"))
    users = None if settings.users is None else read_users(settings.users)
    token = "" if settings.token_file is None else read_token_file(settings.token_file)
    if settings.postgres is not None:
        require_protection(
            "PostgreSQL",
            settings.postgres,
            has_tls=tls is not None,
            has_secret=users is not None,
            option="--users",
        )
    if settings.web is not None:
        require_protection(
            "web", settings.web, has_tls=tls is not None, has_secret=bool(token), option="--token-file"
        )
    reached = settings.postgres is not None and not settings.postgres.is_loopback
    return CheckedSettings(settings, Admission(users, tls, tls_required=reached), token, tls)


def read_token_file(file: Path) -> str:
    """Read the web front's token: the one line of a file that other users cannot read.

    Raises ``SettingsError``.
    """
    try:
        if file.stat().st_mode & _OTHERS:
            raise SettingsError(
                f"{file} has the token, and other users of this machine can read it: `chmod 600 {file}`"
            )
        with file.open(encoding="ascii") as opened:
            token = opened.read(_MOST_CHARACTERS + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The token file {file} cannot be read: {error}") from None
    if not _LEAST_CHARACTERS <= len(token) <= _MOST_CHARACTERS or not token.isprintable() or " " in token:
        raise SettingsError(
            f"{file} has no token: write one line of {_LEAST_CHARACTERS} to {_MOST_CHARACTERS} characters, "
            "as `openssl rand -hex 32` gives it"
        )
    remember_secret(token)
    return token


@dataclass(frozen=True, slots=True)
class RunningServer:
    """The addresses at which the fronts listen."""

    postgres: ListenAddress | None
    web: ListenAddress | None


@contextlib.asynccontextmanager
async def serving(
    subscriptions: Subscriptions, checked: CheckedSettings, feeds: WatchedFeeds | None = None
) -> AsyncIterator[RunningServer]:
    """Run the fronts that the settings name while the context lasts; ``feeds`` is for the page of feeds.

    Raises ``SettingsError`` for an address that cannot be bound.
    """
    settings, encoded = checked.settings, EncodedBatches()
    postgres = web = None
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(subscriptions.close)
        if settings.postgres is not None:
            front = PostgresFront(subscriptions, checked.admission, settings.limits, encoded)
            with _address_errors(settings.postgres):
                await front.start(settings.postgres.host, settings.postgres.port)
            stack.push_async_callback(front.close)
            postgres = ListenAddress(*front.address)
        if settings.web is not None:
            access = WebAccess(settings.web, checked.token, settings.allowed_hosts)
            pages = WebFront(subscriptions, access, checked.tls, settings.limits, encoded, feeds=feeds)
            with _address_errors(settings.web):
                await pages.start()
            stack.push_async_callback(pages.close)
            web = ListenAddress(*pages.address)
        yield RunningServer(postgres, web)


@contextlib.contextmanager
def _address_errors(address: ListenAddress) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{address} cannot be listened on: {error}") from None
