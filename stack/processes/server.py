"""What every kind of server has to offer, so that `up`, `status`, `down` and tests can treat all alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """Where a server is to live.

    Attributes:
        home: directory for its configuration and log; made if absent.
        data: directory for its data; made if absent, kept as it is if not.
        port: the port for clients, None for any free one.
        settings: settings of the server itself that override the recipe's, e.g. Kafka broker properties.
        running: addresses of other servers of the stack, by name, for one that needs another.
    """

    home: Path
    data: Path
    port: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    running: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conduct:
    """How a server's process is run and ended; what most servers expect by default.

    Attributes:
        account: the system's user that it runs as, None for ours.
        stop_signal: asks for an orderly end that does not wait for clients.
        crash_signal: ends it at once; what it had in memory is lost.
    """

    account: str | None = None
    stop_signal: Signals = Signals.SIGTERM
    crash_signal: Signals = Signals.SIGKILL


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """A server that only needs to be run: downloaded, configured, its data directory prepared.

    Attributes:
        name: the recipe's.
        command: program and arguments.
        address: what clients are given, ``host:port`` or a URL with both.
        log: the file that takes the process's output.
        data: its data directory.
        conduct: how the process is run and ended.
    """

    name: str
    command: tuple[str, ...]
    address: str
    log: Path
    data: Path
    conduct: Conduct = Conduct()


class Recipe(Protocol):
    """One kind of server. A plan can be run any number of times, one run after the other."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    def plan(self, request: Request) -> ServerPlan:
        """Do all that comes before the process starts. Raises a `StackError` that says what is missing."""

    def answers(self, address: str) -> bool:
        """Whether the server at ``address`` serves clients now; returns within a few seconds."""
