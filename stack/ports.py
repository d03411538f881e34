"""Chooses ports on the loopback interface.

A chosen port is not in use yet: its server binds it seconds later. While the server is stopped, the port is
free again. During these times no other server, of this process or another, may choose the port. So a process
keeps a chosen port until it ends. It does so by a lock on one byte of a file that all such processes share.
Example: for port 20123 it locks byte 20123.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from stack.errors import AddressRefused, PortTaken

LOOPBACK = "127.0.0.1"

# These ports are below the ranges from which Linux (32768+) and macOS (49152+) take ports for outgoing
# connections. Otherwise a client's connection could take the port of a broker while that is stopped.
_FIRST, _LAST = 20_000, 29_999
_ATTEMPTS = 200

#: The ports that this process keeps. Its own locks would not stop it from choosing them again.
_kept: set[int] = set()


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # The JVM sets this too, so that a server can start again while an old connection is in TIME_WAIT.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def host_and_port(address: str) -> tuple[str, int]:
    """Split an address, ``host:port`` or a URL, into host and port.

    Raises ``AddressRefused`` if the host or the port is missing.
    """
    try:
        place = urlsplit(address if "://" in address else f"//{address}")
        host, port = place.hostname, place.port
    except ValueError:  # a port that is no number or above 65535, or a bracket that is not closed
        host = port = None
    if not host or port is None:
        raise AddressRefused(
            f"{shown_address(address)!r} names no host and port: write both, like 127.0.0.1:9092."
        )
    return host, port


def accepts_connections(address: str) -> bool:
    """Whether a program listens at ``address``, which is ``host:port`` or a URL.

    Raises ``AddressRefused`` for an address without host or port.
    """
    try:
        with socket.create_connection(host_and_port(address), timeout=1):
            return True
    except (OSError, UnicodeError):  # UnicodeError: a name that cannot be looked up, such as `a..b`
        return False


def choose_port(wanted: int | None = None, *, other_than: int | None = None) -> int:
    """Choose a port: ``wanted`` if it is given, which has to be free. Otherwise choose a free port that no
    process keeps, and that is not ``other_than``.

    This process then keeps the port: until this process ends, others do not choose it unless they ask for it
    as ``wanted``. A ``wanted`` port is not kept, and may be ``other_than``.

    Raises:
        PortTaken: ``wanted`` is in use, or no free port was found.
    """
    if wanted is not None:
        if is_free(wanted):
            return wanted
        raise PortTaken(
            f"Port {wanted} on {LOOPBACK} is taken by another program; "
            "stop that program, or name another port (without --port a free one is chosen)."
        )
    for port in random.SystemRandom().sample(range(_FIRST, _LAST + 1), _ATTEMPTS):
        if port != other_than and is_free(port) and _keep(port):
            return port
    raise PortTaken(
        f"None of {_ATTEMPTS} ports tried between {_FIRST} and {_LAST} on {LOOPBACK} is free; "
        "name one with --port."
    )


def _keep(port: int) -> bool:
    """Keep the port for this process. Returns False if a process keeps it already."""
    if port in _kept:
        return False
    try:
        fcntl.lockf(_register(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _kept.add(port)
    return True


@cache
def _register() -> int:
    """Return the file whose bytes stand for ports.

    It stays open: if this process closes any descriptor of it, all our locks on it are lost.
    """
    place = Path(tempfile.gettempdir(), f"tidegate-ports-{os.getuid()}")
    return os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def shown_address(address: str) -> str:
    """Return the address without user and password, for messages."""
    scheme, separator, rest = address.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
