"""Makes a PostgreSQL server from the programs that the system's packages, or a Python package, bring."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from pathlib import Path
from signal import Signals
from typing import Final

from stack.errors import StackError
from stack.ports import LOOPBACK, choose_port, host_and_port
from stack.private import write_private
from stack.processes.server import Conduct, Request, ServerPlan
from stack.recipes.postgres_programs import Programs, find_programs

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

# Only the one role has access, on loopback and with its password. It is no superuser. Other users of this
# machine do not know the password.
_ACCESS = f"host {DATABASE} {USER} {LOOPBACK}/32 scram-sha-256\n"
_OPEN_ACCESS = f"host {DATABASE} {USER} {LOOPBACK}/32 trust\n"  # the access in data of earlier versions
_PASSWORD = "tidegate.password"  # noqa: S105 - the name of a file

# Statements for single-user mode, one a line. In that mode no server runs, and nobody else can connect.
_FIRST_STATEMENTS = f"CREATE ROLE {USER} LOGIN\nCREATE DATABASE {DATABASE} OWNER {USER}\n"

_ANSWER_TIMEOUT_S = 2.0
_PROTOCOL_3 = (3 << 16).to_bytes(4, "big")


class Postgres:
    """The recipe: an initialised data directory, one role, one database, one loopback port."""

    name = "postgres"

    def plan(self, request: Request) -> ServerPlan:
        """Initialise the data directory. Data of an earlier plan stay.

        If the data are of an earlier version and let everybody in, they get a password.

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
        _close_old_data(programs, request.data)
        settings = {**SETTINGS, "port": str(port), **request.settings}
        options = (word for name, value in settings.items() for word in ("-c", f"{name}={value}"))
        return ServerPlan(
            name=self.name,
            command=(str(programs.bin_dir / "postgres"), "-D", str(request.data), *options),
            address=f"postgresql://{_login(request.data)}@{LOOPBACK}:{port}/{DATABASE}",
            log=request.home / "server.log",
            data=request.data,
            # SIGTERM would wait until every client has left, so SIGINT asks for the end. After SIGKILL the
            # sessions would live on for a moment, and the next start would fail. So SIGQUIT stands for
            # a crash: it ends the sessions too, and nothing is saved.
            conduct=Conduct(programs.account, Signals.SIGINT, Signals.SIGQUIT),
        )

    def answers(self, address: str) -> bool:
        """Whether the server at ``address`` asks the role for its password."""
        try:
            with socket.create_connection(host_and_port(address), timeout=_ANSWER_TIMEOUT_S) as session:
                session.sendall(startup_message(user=USER, database=DATABASE))
                return session.recv(1) == b"R"  # while it is starting up it answers "E", an error
        except OSError:
            return False


def startup_message(**parameters: str) -> bytes:
    """Return the first message of a session (PostgreSQL's documentation, "Message Formats",
    StartupMessage).
    """
    words = [word.encode() for pair in parameters.items() for word in pair]
    body = _PROTOCOL_3 + b"".join(word + b"\0" for word in words) + b"\0"
    return (len(body) + 4).to_bytes(4, "big") + body


def _initialise(programs: Programs, data: Path) -> None:
    """Make the data in a directory beside ``data``, and rename that to ``data`` when it is complete."""
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
    _run_statements(programs, partial, _FIRST_STATEMENTS)
    _require_password(programs, partial)
    partial.rename(data)


def _close_old_data(programs: Programs, data: Path) -> None:
    """Require a password for data of an earlier version that let everybody in."""
    access = data / "pg_hba.conf"
    if access.exists() and access.read_text() == _OPEN_ACCESS:
        _require_password(programs, data)


def _require_password(programs: Programs, data: Path) -> None:
    """Give the role a new password, and let nobody in without it. A private file in ``data`` has it."""
    password = secrets.token_hex(16)
    _run_statements(programs, data, f"ALTER ROLE {USER} PASSWORD '{password}'\n")
    write_private(data / _PASSWORD, password)
    access = data / "pg_hba.conf"
    access.write_text(_ACCESS)
    access.chmod(0o644)  # the server's account reads it; the directory is closed to others


def _run_statements(programs: Programs, data: Path, statements: str) -> None:
    settings = ("-c", "exit_on_error=on", "-c", "password_encryption=scram-sha-256")
    programs.run("postgres", "--single", "-D", str(data), *settings, "postgres", text=statements)


def _login(data: Path) -> str:
    """Return user and password, as they stand in a URL; the user alone if ``data`` has no file with a
    password."""
    file = data / _PASSWORD
    return f"{USER}:{file.read_text()}" if file.exists() else USER
