"""The interface of every kind of server, so that `up`, `status`, `down` and tests treat all alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a server: where it keeps its files, and how it is set up.

    Attributes:
        home: directory for its configuration and log; made if absent.
        data: directory for its data; made if absent, else taken as it is.
        port: the port for clients, None for any free one.
        settings: settings of the server itself that override the recipe's, e.g. Kafka broker properties.
        running: addresses of other servers of the stack, by name, for a server that needs one of them.
    """

    home: Path
    data: Path
    port: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    running: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conduct:
    """The account, signals and environment of a server's process. The defaults are right for most servers.

    Attributes:
        account: the system's user that it runs as; None for our own.
        stop_signal: asks for an orderly end that does not wait for clients.
        crash_signal: ends it at once, so that the data in its memory are lost.
        environment: variables that it gets besides ours.
    """

    account: str | None = None
    stop_signal: Signals = Signals.SIGTERM
    crash_signal: Signals = Signals.SIGKILL
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """A server that is ready to be run: it is downloaded and configured, and its data directory is prepared.

    Attributes:
        name: the name of its recipe.
        command: program and arguments.
        address: the address for clients, ``host:port`` or a URL with both.
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
        """The server's name on the command line."""

    def plan(self, request: Request) -> ServerPlan:
        """Do everything that comes before the start of the process. Raises a `StackError` if that fails."""

    def answers(self, address: str) -> bool:
        """Whether the server at ``address`` serves clients now. Returns within a few seconds."""
