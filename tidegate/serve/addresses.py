"""The addresses on which a front listens, and the protection that they need.

On loopback a front needs neither TLS nor a password. Everywhere else it needs both.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from tidegate.errors import SettingsError

_ADDRESS: Final = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")
_MOST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a port. Port 0 stands for any free port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        return self.host.lower() == "localhost" or is_loopback_number(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_address(text: str) -> ListenAddress:
    """Return the address that ``host:port`` names. Raises ``SettingsError``.

    Example: ``127.0.0.1:6875``, ``[::1]:6875``.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _MOST_PORT:
        raise SettingsError(f"{text[:100]!r} is no address to listen on: write host:port, as 127.0.0.1:6875")
    return ListenAddress(match["six"] or match["host"], int(match["port"]))


def is_loopback_number(host: str) -> bool:
    """Whether a host is a loopback address in numbers. No name is looked up."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def require_protection(
    front: str, address: ListenAddress, *, has_tls: bool, has_secret: bool, option: str
) -> None:
    """Raise ``SettingsError`` if others can reach the address, and TLS or the secret is missing."""
    if address.is_loopback or (has_tls and has_secret):
        return
    lacking = " and ".join(
        [*([] if has_tls else ["--tls-cert and --tls-key"]), *([] if has_secret else [option])]
    )
    raise SettingsError(
        f"The {front} front would listen on {address}, which others reach: give it {lacking} too, or let it "
        "listen on 127.0.0.1"
    )
