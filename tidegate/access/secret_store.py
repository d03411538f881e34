"""The operator's store of secrets that feeds name by ``secret://NAME`` (docs/security.md#secrets).

A secret is looked up each time that a connection is opened, so that a new secret counts without a restart. It
is given only to the places that the operator names: the creator of a feed chooses names and addresses, and
must not be able to have a secret sent to an address of their own.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from tidegate.changefeed.text.surrogates import is_utf8
from tidegate.errors import SecretMissing
from tidegate.redaction import remember_secret

_VARIABLE: Final = "TIDEGATE_SECRET_"
_FOR: Final = "_FOR"
_ANY: Final = "*"
_MOST_BYTES: Final = 64 << 10


class Secrets(Protocol):
    """Returns the secrets that feeds name."""

    def get(self, name: str, place: str) -> str:
        """Return the secret ``name``, to be sent to ``place``, which is ``host:port``.

        Raises ``SecretMissing`` if there is no such secret, or if it may not be given to ``place``.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Entry:
    value: str = field(repr=False)
    places: frozenset[str]


@dataclass(frozen=True, slots=True)
class SecretStore:
    """Secrets from a directory, from a TOML file and from the environment, searched in this order."""

    directory: Path | None = None
    file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    @classmethod
    def of_environment(cls) -> SecretStore:
        """Return the store that TIDEGATE_SECRETS_DIR and TIDEGATE_SECRETS_FILE name."""
        directory, file = (os.environ.get(f"TIDEGATE_SECRETS_{kind}") for kind in ("DIR", "FILE"))
        return cls(Path(directory) if directory else None, Path(file) if file else None)

    def get(self, name: str, place: str) -> str:
        """Return the secret ``name``, to be sent to ``place``, as ``Secrets.get`` says."""
        entry = self._required(name, "a feed")
        host = place.rpartition(":")[0]
        if not entry.places & {place.lower(), host.lower(), _ANY}:
            raise SecretMissing(
                f"The secret {name} may not be given to {place}: its operator has not named that place "
                f"({_variable(name)}{_FOR}, the file {name}.for, or `for` in TIDEGATE_SECRETS_FILE, with "
                "host or host:port). Nothing was sent."
            )
        remember_secret(entry.value)
        return entry.value

    def named_by_operator(self, name: str) -> str:
        """Return the secret for a place that TIDEGATE_DESTINATIONS_FILE names.

        Raises ``SecretMissing`` if there is no secret of this name.

        The operator wrote both name and place there, so the store need not name the place again.
        """
        value = self._required(name, "TIDEGATE_DESTINATIONS_FILE").value
        remember_secret(value)
        return value

    def _required(self, name: str, namer: str) -> _Entry:
        entry = self._find(name)
        if entry is None:
            raise SecretMissing(
                f"The secret {name}, which {namer} names, is not in this process's store: give it as "
                f"{_variable(name)}, as a file {name} in TIDEGATE_SECRETS_DIR, or in TIDEGATE_SECRETS_FILE. "
                "It is looked for again."
            )
        return entry

    def _find(self, name: str) -> _Entry | None:
        return self._in_directory(name) or self._in_file(name) or self._in_environment(name)

    def _in_directory(self, name: str) -> _Entry | None:
        if self.directory is None:
            return None
        value = _read(self.directory / name)
        return None if value is None else _entry(value, _read(self.directory / f"{name}.for") or "")

    def _in_file(self, name: str) -> _Entry | None:
        text = None if self.file is None else _read(self.file)
        if text is None:
            return None
        try:
            entry: Any = tomllib.loads(text).get(name)
            return None if entry is None else _entry(entry["value"], ",".join(entry.get("for", ())))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise SecretMissing(
                f"{self.file} cannot be read as secrets: write a table [{name}] with value = '...' and "
                "for = ['host:port']."
            ) from None

    def _in_environment(self, name: str) -> _Entry | None:
        variable = _variable(name)
        value = self.environment.get(variable)
        if value is not None and not is_utf8(value):
            raise SecretMissing(f"The secret {name} cannot be used: the variable {variable} is no UTF-8.")
        return None if value is None else _entry(value, self.environment.get(f"{variable}{_FOR}", ""))


def _variable(name: str) -> str:
    return _VARIABLE + "".join(char if char.isalnum() else "_" for char in name.upper())


def _entry(value: str, places: str) -> _Entry:
    named = places.replace(",", " ").split()
    return _Entry(value.removesuffix("\n").removesuffix("\r"), frozenset(map(str.lower, named)))


def _read(file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise SecretMissing(
                f"The file {file} of the secret store is not read: it has more than {_MOST_BYTES} bytes."
            )
        return content.decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise SecretMissing(f"The file {file} of the secret store cannot be read: {reason}.") from None
