"""Ports on the loopback interface.

A port that was chosen is not taken yet: its server binds it seconds later, and lets go of it whenever it is
stopped for a while. Meanwhile it must not be chosen for another server, of this process or of any other. So
who chooses a port keeps it until the process ends, by a lock on that byte of a file that all of them know.
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

from stack.errors import PortTaken

LOOPBACK = "127.0.0.1"

# Below the ranges from which Linux (32768+) and macOS (49152+) take ports for outgoing connections:
# otherwise some client's connection could sit on the port of a broker that is stopped and started again.
_FIRST, _LAST = 20_000, 29_999
_ATTEMPTS = 200

#: Those that this process has chosen; its own locks would not keep it from choosing them again.
_kept: set[int] = set()


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the JVM does it: a connection in TIME_WAIT does not keep a server from coming back.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def host_and_port(address: str) -> tuple[str, int]:
    """Where to connect for ``host:port``, or a URL that names both."""
    place = urlsplit(address if "://" in address else f"//{address}")
    if not place.hostname or place.port is None:
        raise ValueError(f"{address!r} names no host and port")
    return place.hostname, place.port


def accepts_connections(address: str) -> bool:
    """Whether something listens at ``host:port``, or where a URL points."""
    try:
        with socket.create_connection(host_and_port(address), timeout=1):
            return True
    except OSError:
        return False


def choose_port(wanted: int | None = None, *, other_than: int | None = None) -> int:
    """``wanted`` if it is free, or any free port that nobody has chosen, but ``other_than``.

    Nobody else is given the port that is returned as long as this process lives, unless by name.

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
    """Keep the port for this process; returns whether nobody has it."""
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
    """The file whose bytes stand for ports. It stays open: closing it anywhere would drop our locks."""
    place = Path(tempfile.gettempdir(), f"tidegate-ports-{os.getuid()}")
    return os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def shown_address(address: str) -> str:
    """The address without a login, for messages."""
    scheme, separator, rest = address.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
