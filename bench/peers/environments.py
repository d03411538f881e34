"""The environments of peers: Python environments and compiled classes, made by the bench outside the
checkout.

They are kept in the user's cache, as the servers of `tidegate stack` are. tidegate's own environment gets
nothing of them.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.pins import KAFKA_STREAMS, PeerPackages, pinned_jars
from stack.downloads.jars import resolve
from stack.downloads.whole import whole_directory
from stack.errors import last_lines
from stack.java import java_major
from stack.places import CHECKOUT, cache_dir
from tidegate.errors import RetryError

_INSTALL_S: Final = 600
_OLDEST_JAVA: Final = 17
_SOURCE: Final = Path(__file__).with_name("KafkaStreamsPeer.java")
_PIP: Final = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
_HASHED: Final = ("--require-hashes", "--only-binary", ":all:", "--no-deps")


class Program(NamedTuple):
    """The command that starts a peer."""

    executable: Path
    arguments: tuple[str, ...]


def python_with(packages: PeerPackages) -> Path:
    """Return the Python of an environment that has these packages alone, after making it if there is none.

    pip installs only wheels that have the hashes in the pinned files.

    Raises:
        RetryError: it cannot be made; the message has the end of what pip says.
        StackError: what is in the cache cannot be used.
    """
    requirements = CHECKOUT / packages.file
    made_of = f"{sys.executable} {platform.python_version()}\n{requirements.read_text()}"
    name = f"{packages.name}-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"
    home = cache_dir() / "peers" / name
    whole_directory(home, lambda into: _install(requirements, into), pattern="lib/**/*")
    return _python_in(home)


def _install(requirements: Path, into: Path) -> None:
    venv.create(into, with_pip=True, symlinks=True)
    _run("pip", [_python_in(into), *_PIP, *_HASHED, "--requirement", requirements])


def _python_in(home: Path) -> Path:
    return home / "bin" / "python"


def kafka_streams(classes: Path) -> Program:
    """Return the program of ``KafkaStreamsPeer.java``, compiled into the directory ``classes``.

    Raises:
        RetryError: there is no compiler that is new enough, or it fails.
        StackError: the jars cannot be downloaded.
    """
    javac = _compiler()
    jars = resolve(KAFKA_STREAMS, pinned_jars())
    class_path = os.pathsep.join(map(str, [*jars, classes]))
    _run("javac", [javac, "-cp", class_path, "-d", classes, _SOURCE])
    return Program(javac.with_name("java"), ("-cp", class_path, _SOURCE.stem))


def _compiler() -> Path:
    home = os.environ.get("JAVA_HOME")
    places = [str(Path(home) / "bin"), None] if home else [None]
    found = [file for place in places if (file := shutil.which("javac", path=place))]
    for javac in map(Path, found):
        if (java_major(javac.with_name("java")) or 0) >= _OLDEST_JAVA:
            return javac
    raise RetryError(f"There is no javac of Java {_OLDEST_JAVA} or newer in JAVA_HOME or on PATH.")


def _run(name: str, command: Sequence[str | Path]) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - pip and javac, with arguments of ours
            command, capture_output=True, text=True, errors="replace", timeout=_INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise RetryError(f"{name} did not end within {_INSTALL_S} s.") from late
    if done.returncode:
        raise RetryError(f"{name} ended with status {done.returncode}:\n{last_lines(done.stderr)}")
