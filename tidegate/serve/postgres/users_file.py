"""The file of users: a line ``name:verifier`` for each, as ``tidegate serve --print-user`` writes it.

    ada:SCRAM-SHA-256$4096:8mF1zg...$Kx2W...:q0b7...

A verifier has PostgreSQL's own form, so the one of a row of ``pg_authid`` can be used here. Empty lines and
lines that begin with ``#`` are passed over.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidegate.changefeed.text.surrogates import is_utf8
from tidegate.errors import SettingsError
from tidegate.serve.postgres.scram import Verifier, Verifiers, read_verifier

_MOST_BYTES: Final = 1024 * 1024
_OTHERS: Final = 0o077


def require_user_name(name: str) -> None:
    """Raise ``SettingsError`` for a name that cannot begin a line of the file."""
    if not name.strip():
        raise SettingsError("A user needs a name: this one is empty")
    if name.startswith("#"):
        raise SettingsError(f"{name!r} cannot be a user's name: a line that begins with # says nothing")
    if ":" in name:
        raise SettingsError(f"{name!r} cannot be a user's name: in the file of users a colon ends the name")
    if name.splitlines() != [name]:
        raise SettingsError(f"{name!r} cannot be a user's name: it does not stand on one line")
    if not is_utf8(name):
        raise SettingsError(f"{name!r} cannot be a user's name: it has a byte that is no UTF-8")


def read_users(file: Path) -> Verifiers:
    """Read the users of a file. Raises ``SettingsError`` for a file that cannot be used."""
    try:
        if file.stat().st_mode & _OTHERS:
            raise SettingsError(
                f"{file} has verifiers of passwords, and other users of this machine can read it: "
                f"`chmod 600 {file}`"
            )
        text = file.read_bytes()[: _MOST_BYTES + 1].decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The file of users {file} cannot be read: {error}") from None
    if len(text) > _MOST_BYTES:
        raise SettingsError(f"The file of users {file} is longer than {_MOST_BYTES} bytes")
    users: dict[str, Verifier] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, verifier = line.partition(":")
        if not name or name in users:
            raise SettingsError(f"{file}, line {number}: a user's name is missing, or there already")
        try:
            users[name] = read_verifier(verifier)
        except SettingsError as error:
            raise SettingsError(f"{file}, line {number}: {error}") from None
    if not users:
        raise SettingsError(f"{file} has no users: write one with `tidegate serve --print-user NAME`")
    return Verifiers(users)
