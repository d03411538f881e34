"""How a PostgreSQL server is made, from the programs that the system's packages bring."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import Final

from stack.errors import StackError
from stack.ports import LOOPBACK, choose_port, host_and_port
from stack.postgres_programs import Programs, find_programs
from stack.server import Conduct, Plan, Request

USER: Final = "tidegate"
DATABASE: Final = "tidegate"

# Sized for a laptop; every name is one of postgresql.conf.
SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "40",
    "shared_buffers": "32MB",
    "fsync": "off",  # development data: they outlive a kill, not a power cut
    "timezone": "UTC",
    "log_timezone": "UTC",
}

# The only way in: the one role, which is no superuser, on loopback. Whoever has an account on this machine
# may then read the development data, but not run programs as the server's user.
_ACCESS = f"host {DATABASE} {USER} {LOOPBACK}/32 trust\n"

# In single-user mode, one statement a line: no server needs to run for it, and nobody can come in between.
_FIRST_STATEMENTS = f"CREATE ROLE {USER} LOGIN\nCREATE DATABASE {DATABASE} OWNER {USER}\n"

_ANSWER_TIMEOUT_S = 2.0
_PROTOCOL_3 = (3 << 16).to_bytes(4, "big")
_TERMINATE = b"X\0\0\0\4"


class Postgres:
    """The recipe: an initialised data directory, one role, one database, one loopback port."""

    name = "postgres"

    def plan(self, request: Request) -> Plan:
        """Initialise the data directory; one of an earlier plan is taken up as it is.

        Raises:
            ProgramMissing, PortTaken: what their names say.
            ServerFailed: the data directory cannot be initialised.
            StackError: the data directory holds something else, or the server's account cannot enter it.
        """
        programs = find_programs(request.data)
        port = choose_port(request.port)
        request.home.mkdir(parents=True, exist_ok=True)
        if programs.account is not None:
            request.home.chmod(0o711)  # a temporary directory is closed to the account otherwise
        if not (request.data / "PG_VERSION").exists():
            _initialise(programs, request.data)
        settings = {**SETTINGS, "port": str(port), **request.settings}
        options = (word for name, value in settings.items() for word in ("-c", f"{name}={value}"))
        return Plan(
            name=self.name,
            command=(str(programs.bin_dir / "postgres"), "-D", str(request.data), *options),
            address=f"postgresql://{USER}@{LOOPBACK}:{port}/{DATABASE}",
            log=request.home / "server.log",
            data=request.data,
            # SIGTERM would wait until every client has left. After SIGKILL its sessions would live on for a
            # moment and keep the next start from succeeding; SIGQUIT ends them too, and nothing is saved.
            conduct=Conduct(programs.account, Signals.SIGINT, Signals.SIGQUIT),
        )

    def answers(self, address: str) -> bool:
        """Whether the server at ``address`` lets the role into its database."""
        try:
            with socket.create_connection(host_and_port(address), timeout=_ANSWER_TIMEOUT_S) as session:
                session.sendall(startup_message(user=USER, database=DATABASE))
                granted = session.recv(1) == b"R"  # "E" while it starts: an error, "is starting up"
                if granted:
                    _take_leave(session)
                return granted
        except OSError:
            return False


def startup_message(**parameters: str) -> bytes:
    """The first message of a session (PostgreSQL's documentation, "Message Formats", StartupMessage)."""
    words = [word.encode() for pair in parameters.items() for word in pair]
    body = _PROTOCOL_3 + b"".join(word + b"\0" for word in words) + b"\0"
    return (len(body) + 4).to_bytes(4, "big") + body


def _take_leave(session: socket.socket) -> None:
    """Close in order, or the server would complain in its log."""
    with suppress(OSError):
        session.sendall(_TERMINATE)
        while session.recv(4096):
            continue


def _initialise(programs: Programs, data: Path) -> None:
    """Make the data in a directory beside ``data`` that takes its place when it is complete."""
    if data.exists() and os.listdir(data):
        raise StackError(
            f"{data} is not empty and holds no PostgreSQL data; name an empty directory, or one that does "
            "not exist yet."
        )
    partial = data.with_name(f"{data.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    programs.make_directory(partial)
    choices = ("--username=postgres", "--auth=reject", "--encoding=UTF8", "--locale=C", "--no-sync")
    programs.run("initdb", "--pgdata", str(partial), *choices)
    (partial / "pg_hba.conf").write_text(_ACCESS)
    single = ("--single", "-D", str(partial), "-c", "exit_on_error=on", "postgres")
    programs.run("postgres", *single, text=_FIRST_STATEMENTS)
    partial.rename(data)
