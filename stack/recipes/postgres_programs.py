"""Where PostgreSQL's programs are, and as whom they are run: the server refuses to be root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stack.errors import ProgramMissing, ServerFailed, StackError, last_lines

DEBIAN_PROGRAMS = Path("/usr/lib/postgresql")  # Debian keeps the server off PATH, one directory a version
_ACCOUNTS = ("postgres", "nobody")
_TOOL_TIMEOUT_S = 120


class Programs(NamedTuple):
    """One installation's directory of programs, and the account that runs them (None: our own)."""

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
                cwd="/",  # ours may be closed to the account
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
        """An empty directory that belongs to the account and that it can enter.

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
    """The newest installation, and an account for ``data``: its owner if it exists.

    Raises:
        ProgramMissing: PostgreSQL's server is not installed.
    """
    for bin_dir in _candidates():
        if all((bin_dir / name).is_file() for name in ("postgres", "initdb")):
            return Programs(bin_dir, _account(data))
    raise ProgramMissing(
        f"PostgreSQL's server is not installed: neither PATH nor {DEBIAN_PROGRAMS}/*/bin has `postgres` and "
        "`initdb`. Install it with your system's package manager; the package is called `postgresql` on "
        "Debian, Ubuntu and Homebrew, and `postgresql-server` on Fedora."
    )


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


def _account(data: Path) -> str | None:
    if os.geteuid() != 0:
        return None
    if (data / "PG_VERSION").exists() and (owner := data.stat().st_uid) != 0:
        return pwd.getpwuid(owner).pw_name
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in _ACCOUNTS if name in known), None)
