"""The errors of development servers. Each message is a sentence that names the remedy.

TidegateError
└── StackError
    ├── JavaMissing      no Java, or one that is too old
    ├── ProgramMissing   a server that the system's packages bring is not installed
    ├── DownloadFailed   the jars cannot be downloaded, or are not those that were pinned
    ├── AddressRefused   an address has no host or no port
    ├── PortTaken        another program listens there
    ├── ServerFailed     the server died or did not answer; carries its last log lines
    └── ConnectorFailed  a connector was refused or failed, or Connect gave no answer; carries the reasons
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from tidegate.errors import TidegateError

_SHOWN_LINES = 20


class StackError(TidegateError):
    """A development server cannot be started or used."""


class JavaMissing(StackError):
    """No usable Java was found."""


class ProgramMissing(StackError):
    """A server that comes with the system's packages is not installed."""


class DownloadFailed(StackError):
    """The files of a server could not be downloaded, or are not those that were pinned."""


class AddressRefused(StackError, ValueError):
    """An address cannot be read, or names no host or no port."""


class PortTaken(StackError):
    """The port that was asked for is in use."""


class ServerFailed(StackError):
    """The server ended, or did not answer within its time."""


class ConnectorFailed(StackError):
    """A connector cannot be created, or does not run."""


def last_lines(text: str) -> str:
    """Return the end of a tool's output, indented, to stand below the sentence of an error."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in lines[-_SHOWN_LINES:])


def last_lines_of(log: Path) -> str:
    """Return the end of a log file in the form of ``last_lines``; empty if there is no file."""
    try:
        with log.open(errors="replace") as lines:
            return last_lines("".join(deque(lines, maxlen=_SHOWN_LINES)))
    except FileNotFoundError:
        return ""
